// Package mobile is a device for apps: the facade that gomobile binds for Android and
// iOS. Its API has numbers, texts, bytes, errors and pointers to its own types, and
// nothing else. It holds no state of its own; the app says where files may lie.
package mobile

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/statefile"
)

// Config is what a device needs to know. Make one with NewConfig and set its fields.
type Config struct {
	Server string // https://host:port
	Pin    string // of the coordinator's key; empty for what the system believes
	Token  string // to enrol with; empty for a device that is enrolled

	StateFile  string // where the app lets it keep what is private
	Passphrase string // that seals it: a key from the phone's key store; empty for none

	MemoryMB  int     // that training may take; 0 means 256
	Duty      float64 // largest share of time that is spent computing; 0 means 0.5
	HoldOut   bool    // keep the newest item out of training, to measure with
	Rehearsal bool    // take part in a rehearsal, and in nothing else
	Insecure  bool    // allow http://, for tests
}

// NewConfig is a config with the defaults.
func NewConfig() *Config { return &Config{MemoryMB: 256, Duty: 0.5, HoldOut: true} }

// Guard decides on the phone whether now is a good time: on power, on an unmetered
// network, idle. Nobody else is told why.
type Guard interface {
	// Ready returns an empty text when it is, else why not.
	Ready() string
}

// Listener hears of each step. It is called from another thread.
type Listener interface {
	// Stepped gets what a step did as JSON, and an error's text or nothing.
	Stepped(step string, failure string)
}

// Device is one device. Its methods may be called from any thread. Step and Forget work
// for long, one after the other, and return early after Cancel; the others are the owner's,
// and do not wait for them.
type Device struct {
	turn  sync.Mutex // of what works for long
	d     *device.Device
	guard Guard

	stop   sync.Mutex
	cancel context.CancelFunc // of what runs now; nil for nothing

	// The owner's calls go to the same files through a second device, with its own vault
	// and room for a model: a step may take minutes, and a screen must not.
	mu    sync.Mutex
	owner *device.Device
}

// Open opens a device, or makes one with a key of its own. No call is made. guard may be
// nil.
func Open(c *Config, guard Guard) (*Device, error) {
	if c == nil || c.StateFile == "" {
		return nil, errors.New("mobile: a device needs a state file")
	}
	out := &Device{guard: guard}
	memory := float64(c.MemoryMB) * (1 << 20)
	if c.MemoryMB <= 0 {
		memory = 256 << 20
	}
	vault := func() device.Store {
		return statefile.Open(c.StateFile, statefile.Options{Passphrase: func(bool) ([]byte,
			error,
		) {
			return []byte(c.Passphrase), nil
		}})
	}
	opt := device.Options{
		Store: vault(), Blobs: statefile.OpenFolder(c.StateFile + ".model"),
		Workspace: &device.Workspace{Memory: memory},
		Token:     c.Token, Deterministic: c.Rehearsal, HoldOut: c.HoldOut, Duty: c.Duty,
		Eligible: func() (bool, string) {
			if out.guard == nil {
				return true, ""
			}
			why := out.guard.Ready()
			return why == "", why
		},
	}
	if opt.Duty == 0 {
		opt.Duty = 0.5
	}
	if c.Server != "" {
		at := rpc.Options{URL: c.Server, Pin: c.Pin, Insecure: c.Insecure}
		opt.Dial = func(key ed25519.PrivateKey) (device.Conn, error) {
			at.Key = key
			return rpc.Dial(at)
		}
	}
	var err error
	if out.d, err = device.Open(opt); err != nil {
		return nil, err
	}
	opt.Store, opt.Workspace, opt.Dial = vault(), &device.Workspace{Memory: memory}, nil
	if out.owner, err = device.Open(opt); err != nil {
		return nil, err
	}
	return out, nil
}

// long runs what may take long, and can be cancelled.
func (d *Device) long(do func(ctx context.Context) error) error {
	d.turn.Lock()
	defer d.turn.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.running(cancel)
	defer d.running(nil)
	return do(ctx)
}

func (d *Device) running(cancel context.CancelFunc) {
	d.stop.Lock()
	defer d.stop.Unlock()
	d.cancel = cancel
}

// Cancel ends what runs at its next safe point. What was saved stays, and the next step
// goes on.
func (d *Device) Cancel() {
	d.stop.Lock()
	defer d.stop.Unlock()
	if d.cancel != nil {
		d.cancel()
	}
}

// Step checks in once and does what is asked for: call it when the system gives the app
// time in the background. It returns the milliseconds until the next one is worth it.
func (d *Device) Step(l Listener) (int64, error) {
	var out device.StepResult
	err := d.long(func(ctx context.Context) (err error) {
		out, err = d.d.Step(ctx)
		return err
	})
	if l != nil {
		failure := ""
		if err != nil {
			failure = err.Error()
		}
		l.Stepped(text(out), failure)
	}
	return out.After.Milliseconds(), err
}

// Add tells the device an event, by the catalogue's id, now.
func (d *Device) Add(item string) error { return d.AddAt(item, time.Now().UnixMilli()) }

// AddAt is Add for another time, in milliseconds since 1970.
func (d *Device) AddAt(item string, ms int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Add(device.Event{Item: item, Time: ms})
}

// AddAll adds lines of item id, or item id and time, or those that a first line names
// (item,time,daytime), which are not there yet. It
// returns how many those were.
func (d *Device) AddAll(csv string) (int, error) {
	events, err := device.ReadEvents(strings.NewReader(csv))
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Merge(events)
}

// Describe tells the device what its owner is like, for methods that learn from it; an
// empty value takes it back. It is sent to nobody.
func (d *Device) Describe(name, value string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Describe(map[string]string{name: value})
}

// Undo takes the last event back, and returns its item.
func (d *Device) Undo() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.owner.Undo()
	return e.Item, err
}

// Retain keeps only so many newest events, and none older than so many days; 0 for no
// such limit.
func (d *Device) Retain(last, days int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Retain(last, days)
}

// Recommend ranks the catalogue offline.
func (d *Device) Recommend(n int) (*List, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.owner.Recommend(n)
	if err != nil {
		return nil, err
	}
	return &List{l}, nil
}

// About is the device's record for its owner, as JSON: seat, model, history's size and
// the log of what was sent.
func (d *Device) About() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, err := d.owner.About()
	if err != nil {
		return "", err
	}
	return text(a), nil
}

// Pause keeps the device away until Resume.
func (d *Device) Pause() error { return d.pause(true) }

// Resume lets it take part again.
func (d *Device) Resume() error { return d.pause(false) }

func (d *Device) pause(on bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Pause(on)
}

// Forget leaves the federation and wipes everything. The device must not be used after.
func (d *Device) Forget() error { return d.long(d.d.Forget) }

// List is recommendations.
type List struct{ l *device.Recommendations }

// Size is how many there are.
func (l *List) Size() int { return len(l.l.Items) }

// At is one of them, from 0; nil beyond the end.
func (l *List) At(i int) *Pick {
	if i < 0 || i >= len(l.l.Items) {
		return nil
	}
	p := l.l.Items[i]
	return &Pick{ID: p.ID, Title: p.Title, Score: float64(p.Score)}
}

// Model is the version that they are of.
func (l *List) Model() int64 { return int64(l.l.ModelVersion) }

// MadeMillis is when the model was made, in milliseconds since 1970.
func (l *List) MadeMillis() int64 { return l.l.ModelCreatedAt.UnixMilli() }

// Pick is one recommendation.
type Pick struct {
	ID    string
	Title string
	Score float64
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}" // what is marshalled here always can be
	}
	return string(b)
}
