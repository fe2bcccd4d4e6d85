// Package mobile is a device for apps: the facade of package device that gomobile binds for Android
// and iOS. Its API consists of numbers, strings, errors and pointers to its own types only. It keeps no
// state besides the files whose location the app chooses.
package mobile

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/device"
)

// Config configures a device. Make one with NewConfig and set its fields.
type Config struct {
	Server string // https://host:port
	Pin    string // pin of the coordinator's TLS key; empty means the system's certificate authorities
	Token  string // enrolment token; empty for a device that is enrolled

	StateFile  string // path of the private state file
	Passphrase string // encrypts the state file, for instance a key from the phone's key store; empty means none

	MemoryMB      int     // memory for training; 0 means 256
	Duty          float64 // largest fraction of time that is spent computing; 0 means 0.5
	HoldOut       bool    // keep the newest item out of training, for evaluation
	Deterministic bool    // take part in a deterministic federation only, for tests
	Insecure      bool    // allow http://, for tests
}

// NewConfig returns a config with the defaults.
func NewConfig() *Config { return &Config{MemoryMB: 256, Duty: 0.5, HoldOut: true} }

// Eligibility decides on the phone whether the device may take part now: charging, on an unmetered network,
// idle. The reason stays on the phone.
type Eligibility interface {
	// Ready returns an empty string if the device may take part, and otherwise the reason.
	Ready() string
}

// Listener receives the result of each step. It is called from another thread.
type Listener interface {
	// Stepped receives the result of a step as JSON, and the code and the text of its error or empty strings.
	Stepped(step string, code string, failure string)
}

// ErrorCode returns a stable code of an error that a method of this package returned, such as wrong_pin,
// revoked, no_model or unavailable. See device.ErrorCode.
func ErrorCode(err error) string { return device.ErrorCode(err) }

// Device is one device. Any thread may call its methods. Step and Forget may take minutes, run one
// after the other, and return early after Cancel. The other methods do not wait for them.
type Device struct {
	running     sync.Mutex // held by Step and Forget
	d           *device.Device
	eligibility Eligibility

	stop   sync.Mutex
	cancel context.CancelFunc // of the running Step or Forget; otherwise nil

	// The other methods use a second device with the same files and its own memory, so that the
	// app's screen does not wait for a step.
	mu    sync.Mutex
	owner *device.Device
}

// Open opens a device, or creates one with a new key. It makes no calls. eligibility may be nil.
func Open(c *Config, eligibility Eligibility) (*Device, error) {
	if c == nil || c.StateFile == "" {
		return nil, errors.New("the device requires the path of a state file")
	}
	out := &Device{eligibility: eligibility}
	opt := device.Options{
		Server: device.Server{URL: c.Server, Pin: c.Pin, Insecure: c.Insecure},
		Token:  c.Token, Deterministic: c.Deterministic, HoldOut: c.HoldOut, Duty: c.Duty,
		Memory: float64(c.MemoryMB) * (1 << 20), Eligible: out.eligible,
		Passphrase: func(bool) ([]byte, error) { return []byte(c.Passphrase), nil },
	}
	if c.MemoryMB <= 0 {
		opt.Memory = 256 << 20
	}
	if opt.Duty == 0 {
		opt.Duty = 0.5
	}
	var err error
	out.d, err = device.OpenFile(c.StateFile, opt)
	if err != nil {
		return nil, err
	}
	opt.Server = device.Server{}
	out.owner, err = device.OpenFile(c.StateFile, opt)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (d *Device) eligible() (bool, string) {
	if d.eligibility == nil {
		return true, ""
	}
	reason := d.eligibility.Ready()
	return reason == "", reason
}

// exclusive runs Step or Forget so that Cancel can end it.
func (d *Device) exclusive(do func(ctx context.Context) error) error {
	d.running.Lock()
	defer d.running.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.setCancel(cancel)
	defer d.setCancel(nil)
	return do(ctx)
}

func (d *Device) setCancel(cancel context.CancelFunc) {
	d.stop.Lock()
	defer d.stop.Unlock()
	d.cancel = cancel
}

// Cancel ends a running Step or Forget at its next safe point. The next step continues from the saved
// state.
func (d *Device) Cancel() {
	d.stop.Lock()
	defer d.stop.Unlock()
	if d.cancel != nil {
		d.cancel()
	}
}

// Step checks in once and performs the task that the coordinator assigns. Call it when the system gives
// the app time in the background. It returns the milliseconds to wait before the next step.
func (d *Device) Step(l Listener) (int64, error) {
	var out device.StepResult
	err := d.exclusive(func(ctx context.Context) (err error) {
		out, err = d.d.Step(ctx)
		return err
	})
	if l != nil {
		failure := ""
		if err != nil {
			failure = err.Error()
		}
		l.Stepped(text(out), device.ErrorCode(err), failure)
	}
	return out.After.Milliseconds(), err
}

// Add records an event with an item ID, now.
func (d *Device) Add(item string) error { return d.AddAt(item, time.Now().UnixMilli()) }

// AddAt is Add with a time in milliseconds since 1970.
func (d *Device) AddAt(item string, ms int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Add(device.Event{Item: item, Time: ms})
}

// AddAll adds the events of CSV lines that are not recorded yet, and returns their number. A line has
// an item ID and an optional time; a header line may name more columns (item,time,daytime).
func (d *Device) AddAll(csv string) (int, error) {
	events, err := device.ReadEvents(strings.NewReader(csv))
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Merge(events)
}

// Describe sets a user feature, for methods that read it. It stays on the device. An empty value removes
// the feature.
func (d *Device) Describe(name, value string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Describe(map[string]string{name: value})
}

// Undo removes the last event and returns its item ID.
func (d *Device) Undo() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.owner.Undo()
	return e.Item, err
}

// Retain limits the recorded events to the newest last events of the newest days days. 0 means no limit.
func (d *Device) Retain(last, days int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Retain(last, days)
}

// Recommend returns the n best items. It works offline.
func (d *Device) Recommend(n int) (*List, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.owner.Recommend(n)
	if err != nil {
		return nil, err
	}
	return &List{l}, nil
}

// About returns a description of the device as JSON: device ID, model version, number of events and the
// log of its reports.
func (d *Device) About() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, err := d.owner.About()
	if err != nil {
		return "", err
	}
	return text(a), nil
}

// Pause stops the device from taking part until Resume.
func (d *Device) Pause() error { return d.pause(true) }

// Resume lets the device take part again.
func (d *Device) Resume() error { return d.pause(false) }

func (d *Device) pause(on bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner.Pause(on)
}

// Forget leaves the federation and deletes everything. The device must not be used afterwards.
func (d *Device) Forget() error { return d.exclusive(d.d.Forget) }

// List is a list of recommendations.
type List struct{ l *device.Recommendations }

// Size returns the number of recommendations.
func (l *List) Size() int { return len(l.l.Items) }

// At returns recommendation i, from 0, or nil beyond the end.
func (l *List) At(i int) *Pick {
	if i < 0 || i >= len(l.l.Items) {
		return nil
	}
	p := l.l.Items[i]
	return &Pick{ID: p.ID, Title: p.Title, Score: float64(p.Score)}
}

// Model returns the model version.
func (l *List) Model() int64 { return int64(l.l.ModelVersion) }

// MadeMillis returns when the model was created, in milliseconds since 1970.
func (l *List) MadeMillis() int64 { return l.l.ModelCreatedAt.UnixMilli() }

// Basis returns what the list is based on: personal, popular, new-user or unranked. See device.Basis.
func (l *List) Basis() string { return string(l.l.Basis) }

// Note returns what the app should show beside a list that is not personal, such as "no history yet: popular
// items", or an empty string.
func (l *List) Note() string { return l.l.Note }

// Pick is one recommendation.
type Pick struct {
	ID    string
	Title string
	Score float64
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}" // unreachable: all values can be encoded
	}
	return string(b)
}
