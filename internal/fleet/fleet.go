// Package fleet is many devices in one process, over real sockets, against a real
// coordinator: from a data set, with devices that vanish, dawdle and lie. It is how a
// federation is tried out, and how it is broken on purpose.
package fleet

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// Config is who the devices are, and how they behave. Shares are of devices, or of
// devices and rounds.
type Config struct {
	Server        rpc.Options // how the coordinator is reached; keys are each device's own
	Token         string
	Split         *data.Split
	Users         int // of the split, from 0; 0 means all
	Workers       int // devices that compute at a time; 0 means 1
	Deterministic bool
	Seed          uint64

	Arrive time.Duration // devices come for the first time within so long
	// the device in the middle comes by itself once in so long, eager ones more often
	// (round.Eager); 0 for when the coordinator says
	CheckInEvery time.Duration
	Drop         float64       // share that vanishes in a round: computes, and sends nothing
	Leave        [4]float64    // share that leaves a masked round before step 0, 1, 2, 3
	Slow         time.Duration // what a device waits before it sends, on average
	Malicious    float64       // share of devices that send what they must not

	// Counted, if set, hears of every report that was acknowledged, from many goroutines, and
	// Late of every one that came when the round, or a masked attempt, was over or full; it
	// may be in a later attempt.
	Counted func(a Counted)
	Late    func(seat, round uint32)
}

// Counted is a report that the coordinator said is counted.
type Counted struct {
	DeviceID uint32
	Round    uint32
	Digest   [8]byte
}

// Stats are what a fleet has done so far.
type Stats struct {
	Enrolled  int64            `json:"enrolled"`
	Trained   int64            `json:"trained"`
	Counted   int64            `json:"counted"`
	Closed    int64            `json:"closed"` // reports that came too late
	Evaluated int64            `json:"evaluated"`
	Errors    int64            `json:"errors"` // calls that failed, and were made again later
	Refused   map[string]int64 `json:"refused"`
	Bytes     int64            `json:"bytes_up"`
	Model     uint64           `json:"model"` // the newest version that a device has
}

// Fleet is the devices.
type Fleet struct {
	cfg        Config
	devices    []*member
	workspaces []*device.Workspace
	blobs      device.Blobs

	enrolled, trained, counted, closed, evaluated, errors, bytes atomic.Int64
	model                                                        atomic.Uint64
	// closed when a device has a model with all rounds
	over    chan struct{}
	once    sync.Once
	mu      sync.Mutex
	refused map[string]int64
}

type member struct {
	*device.Device
	user int
	at   atomic.Uint32 // rounds that are in its model
	rand rng.Rand
}

// New makes a device for each user.
func New(cfg Config) (*Fleet, error) {
	if cfg.Users == 0 {
		cfg.Users = cfg.Split.Users()
	}
	if cfg.Users < 1 || cfg.Users > cfg.Split.Users() {
		return nil, fmt.Errorf("fleet: %d devices of a data set with %d users", cfg.Users, cfg.Split.Users())
	}
	if cfg.Server.Transport == nil {
		t, err := rpc.NewTransport(cfg.Server.Pin, 64)
		if err != nil {
			return nil, err
		}
		cfg.Server.Transport = t
	}
	features, err := cfg.Split.Features()
	if err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, over: make(chan struct{}), blobs: device.NewMemoryBlobs(), refused: map[string]int64{}}
	for range max(1, cfg.Workers) {
		f.workspaces = append(f.workspaces, &device.Workspace{Features: features, Memory: 8 << 30})
	}
	for u := range cfg.Users {
		m := &member{user: u, rand: rng.New(cfg.Seed, rng.Fleet, uint64(u))}
		seat := uint32(u)
		m.Device, err = device.Open(device.Options{
			Dial:  func(key ed25519.PrivateKey) (device.Conn, error) { return f.dial(m, key) },
			Store: device.NewMemoryStore(), Blobs: f.blobs, Workspace: f.workspaces[u%len(f.workspaces)],
			Source: &source{
				split: cfg.Split,
				user:  u,
			},
			Token: cfg.Token, DeviceID: &seat, Deterministic: cfg.Deterministic, HoldOut: true,
		})
		if err != nil {
			return nil, err
		}
		f.devices = append(f.devices, m)
	}
	return f, nil
}

func (f *Fleet) dial(m *member, key ed25519.PrivateKey) (device.Conn, error) {
	o := f.cfg.Server
	o.Key = key
	c, err := rpc.Dial(o)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: c, fleet: f, member: m, malicious: m.rand.Float64() < f.cfg.Malicious}, nil
}

// Run has all devices come and go until ctx is done, or until each has a model with so
// many rounds, if any are given.
func (f *Fleet) Run(ctx context.Context, until uint32) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, m := range f.devices {
		wg.Go(func() {
			if err := f.run(ctx, m, until); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("device of user %d: %w", m.user+1, err))
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// run is one device's life.
func (f *Fleet) run(ctx context.Context, m *member, until uint32) error {
	pause(ctx, time.Duration(float64(f.cfg.Arrive)*m.rand.Float64()))
	for away := true; ctx.Err() == nil; { // when it has a seat it goes away, and comes by itself
		told, err := m.Step(ctx)
		if errors.Is(err, device.ErrRevoked) || errors.Is(err, device.ErrDeterministic) ||
			errors.Is(err, device.ErrWrongCoordinator) {
			return err
		}
		if err != nil {
			f.errors.Add(1)
			f.refuse(rpc.Code(err))
			pause(ctx, time.Duration((0.5+m.rand.Float64())*float64(300*time.Millisecond)))
			continue
		}
		switch told.Action {
		case "trained":
			f.trained.Add(1)
			f.bytes.Add(int64(told.Bytes))
		case "evaluated":
			f.evaluated.Add(1)
		}
		if told.ModelVersion > f.model.Load() {
			f.model.Store(told.ModelVersion)
		}
		if until > 0 && m.at.Load() >= until {
			f.once.Do(func() { close(f.over) })
			if told.Action == "waited" && told.Reason == "done" { // the last round's readout comes after its model
				return nil
			}
		}
		pause(ctx, told.After)
		if away || told.Action == "trained" {
			f.away(ctx, m)
		}
		away = false
	}
	return nil
}

// away is until a device comes by itself, or all rounds are over.
func (f *Fleet) away(ctx context.Context, m *member) {
	if f.cfg.CheckInEvery == 0 {
		return
	}
	rest := -math.Log(1-m.rand.Float64()) / round.CheckInRate(f.cfg.Seed, m.user)
	t := time.NewTimer(time.Duration(min(rest*float64(f.cfg.CheckInEvery), float64(24*time.Hour))))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-f.over:
	case <-t.C:
	}
}

func (f *Fleet) refuse(code string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused[code]++
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Stats is what was done so far.
func (f *Fleet) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Stats{
		Enrolled: f.enrolled.Load(), Trained: f.trained.Load(), Counted: f.counted.Load(), Closed: f.closed.Load(),
		Evaluated: f.evaluated.Load(),
		Errors:    f.errors.Load(), Refused: map[string]int64{}, Bytes: f.bytes.Load(), Model: f.model.Load(),
	}
	for k, v := range f.refused {
		s.Refused[k] = v
	}
	return s
}

// Devices are the fleet's, by user.
func (f *Fleet) Devices() []*device.Device {
	var out []*device.Device
	for _, m := range f.devices {
		out = append(out, m.Device)
	}
	return out
}

// Close lets go of connections.
func (f *Fleet) Close() { f.cfg.Server.Transport.CloseIdleConnections() }
