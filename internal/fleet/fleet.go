// Package fleet runs many devices in one process against a real coordinator, over real sockets. Their
// users come from a data set. Some devices drop out, respond slowly or send invalid reports, on
// purpose. Package sim simulates a federation without a network; this package never does.
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

// Config describes the devices and their faults. Fractions are of devices, or of devices and rounds.
type Config struct {
	Server        rpc.Options // the coordinator; each device has its own key
	Token         string
	Split         *data.Split
	Users         int // number of users of the split; 0 means all
	Workers       int // devices that compute at the same time; 0 means 1
	Deterministic bool
	Seed          uint64

	Arrive time.Duration // devices check in for the first time within this time
	// CheckInEvery is the time between check-ins of the median device; others check in more or less
	// often. 0 means when the coordinator says.
	CheckInEvery time.Duration
	Drop         float64       // fraction that computes in a round and sends nothing
	Leave        [4]float64    // fraction that drops out of a masked round before step 0, 1, 2, 3
	Slow         time.Duration // average delay before a device sends
	Malicious    float64       // fraction of devices that send invalid reports
	// Lie, if set, may replace the update of a device before it is sent.
	Lie func(deviceID, round uint32, update []byte) []byte

	// Counted, if set, is called for every counted report, and Late for every report that arrived
	// after the end of the round or of a masked attempt. Many goroutines call them. A late device may
	// take part in a later attempt.
	Counted func(a Counted)
	Late    func(deviceID, round uint32)
}

// Counted is a report that the coordinator counted.
type Counted struct {
	DeviceID uint32
	Round    uint32
	Digest   [8]byte
}

// Stats summarises the work of a fleet so far.
type Stats struct {
	Enrolled  int64            `json:"enrolled"`
	Trained   int64            `json:"trained"`
	Counted   int64            `json:"counted"`
	Closed    int64            `json:"closed"` // reports that arrived too late
	Evaluated int64            `json:"evaluated"`
	Errors    int64            `json:"errors"` // calls that failed and were retried
	Refused   map[string]int64 `json:"refused"`
	Bytes     int64            `json:"bytes_up"`
	Model     uint64           `json:"model"` // newest model version of any device
}

// Fleet is a number of devices. Make one with New.
type Fleet struct {
	cfg        Config
	devices    []*member
	workspaces []*device.Workspace
	blobs      device.Blobs

	enrolled, trained, counted, closed, evaluated, errors, bytes atomic.Int64
	model                                                        atomic.Uint64
	// closed when a device has the last model
	over    chan struct{}
	once    sync.Once
	mu      sync.Mutex
	refused map[string]int64
	uploads chan struct{} // masked updates that are sent at the same time
}

// maxUploads is how many masked updates are sent at the same time: more would each be too slow.
const maxUploads = 32

type member struct {
	*device.Device
	user   int
	rounds atomic.Uint32 // rounds that its model contains
	rand   rng.Rand
}

// New makes one device per user.
func New(cfg Config) (*Fleet, error) {
	if cfg.Users == 0 {
		cfg.Users = cfg.Split.Users()
	}
	if cfg.Users < 1 || cfg.Users > cfg.Split.Users() {
		return nil, fmt.Errorf("devices: %d; must be 1 to %d, the users of the data set", cfg.Users, cfg.Split.Users())
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
	f.uploads = make(chan struct{}, maxUploads)
	for range max(1, cfg.Workers) {
		f.workspaces = append(f.workspaces, &device.Workspace{Features: features, Memory: 8 << 30})
	}
	for u := range cfg.Users {
		m := &member{user: u, rand: rng.New(cfg.Seed, rng.Fleet, uint64(u))}
		id := uint32(u)
		src := &source{split: cfg.Split, user: u}
		m.Device, err = device.Open(device.Options{
			Dial:  func(key ed25519.PrivateKey) (device.Conn, error) { return f.dial(m, key) },
			Blobs: f.blobs, Workspace: f.workspaces[u%len(f.workspaces)], Source: src.fill,
			Token: cfg.Token, DeviceID: &id, Deterministic: cfg.Deterministic, HoldOut: true,
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

// Run runs all devices until ctx is done or, if until is not 0, until each has a model with that many
// rounds.
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

// run steps one device until it is done.
func (f *Fleet) run(ctx context.Context, m *member, until uint32) error {
	pause(ctx, time.Duration(float64(f.cfg.Arrive)*m.rand.Float64()))
	for away := true; ctx.Err() == nil; { // a device stays away after it has enrolled
		result, err := m.Step(ctx)
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
		switch result.Action {
		case "trained":
			f.trained.Add(1)
			f.bytes.Add(int64(result.Bytes))
		case "evaluated":
			f.evaluated.Add(1)
		}
		if result.ModelVersion > f.model.Load() {
			f.model.Store(result.ModelVersion)
		}
		if until > 0 && m.rounds.Load() >= until {
			f.once.Do(func() { close(f.over) })
			if result.Finished { // the last evaluation follows the last model
				return nil
			}
		}
		pause(ctx, result.After)
		if away || result.Action == "trained" {
			f.away(ctx, m)
		}
		away = false
	}
	return nil
}

// away waits until the device checks in by itself, or all rounds are over.
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

// Stats returns the work so far.
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

// Devices returns the devices by user.
func (f *Fleet) Devices() []*device.Device {
	var out []*device.Device
	for _, m := range f.devices {
		out = append(out, m.Device)
	}
	return out
}

// Close closes idle connections.
func (f *Fleet) Close() { f.cfg.Server.Transport.CloseIdleConnections() }
