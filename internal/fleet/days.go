package fleet

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/privacy/account"
)

// Days is a federation that lives for a number of days in this process, with one run a day, while devices leave and
// join.
type Days struct {
	Days     int
	Churn    float64 // fraction of devices that leave and join a day
	Dir      string  // of the coordinator's state
	Split    *data.Split
	Settings coordinator.Settings
	Options  coordinator.Options // Dir, Now and Event are set
	Items    []*pb.Item
	Seed     uint64
	// Progress is called after each day, with the newest version and the number of devices that left; may be nil.
	Progress func(day int, version uint64, left int)
}

// DaysResult is the result of Days.
type DaysResult struct {
	Days       int         `json:"days"`
	Devices    int         `json:"devices"` // at any time
	Joined     int         `json:"joined"`
	Left       int         `json:"left"`
	Runs       int         `json:"runs"`
	Version    uint64      `json:"version"`
	Reports    int         `json:"reports"`
	Epsilon    *float64    `json:"epsilon,omitempty"`
	MaxEpsilon *float64    `json:"max_device_epsilon,omitempty"`
	Checked    int         `json:"devices_checked"` // whose budget was composed independently
	Wrong      []string    `json:"wrong"`           // budgets that differ
	Growth     []DaySample `json:"growth"`
	Seconds    float64     `json:"seconds"`
}

// DaySample is the size of things at the end of a day.
type DaySample struct {
	Day    int   `json:"day"`
	Folder int64 `json:"folder_bytes"`
	Ledger int64 `json:"ledger_bytes"`
	Heap   int64 `json:"heap_bytes"`
}

// federation is one that lives for many days, in this process, on a clock of its own.
type federation struct {
	Days
	c       *coordinator.Coordinator
	server  rpc.Options
	token   string
	blobs   device.Blobs
	space   device.Workspace
	offset  atomic.Int64 // of the clock
	rand    rng.Rand
	members []*dayDevice
	result  DaysResult
	reports atomic.Int64
}

// dayDevice is a device and how much of the ledger was written when it enrolled.
type dayDevice struct {
	*device.Device
	lines int
}

func (d *federation) now() time.Time { return time.Now().Add(time.Duration(d.offset.Load())) }

// Live runs the federation. It returns an error if the coordinator ended.
func (y Days) Live(ctx context.Context) (*DaysResult, error) {
	d := &federation{
		Days: y, blobs: device.NewMemoryBlobs(), space: device.Workspace{Memory: 8 << 30, Features: y.Options.Features},
		rand: rng.New(y.Seed, rng.Fleet, 365),
	}
	d.result = DaysResult{Days: y.Days, Devices: y.Split.Users(), Wrong: []string{}}
	start := time.Now()
	if err := d.open(); err != nil {
		return nil, err
	}
	defer d.c.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.c.Run(ctx) }()
	for day := range y.Days {
		if err := d.live(ctx, day); err != nil {
			return nil, err
		}
		select {
		case err := <-ended:
			return nil, errors.Join(errors.New("the coordinator ended"), err)
		default:
		}
		if y.Progress != nil {
			y.Progress(day+1, d.c.Status().Version, d.result.Left)
		}
	}
	d.settle(ctx)
	if err := d.checkBudgets(); err != nil {
		return nil, err
	}
	s := d.c.Status()
	d.result.Runs, d.result.Version, d.result.Epsilon = s.RunNumber, s.Version, s.Epsilon
	d.result.Reports, d.result.Seconds = int(d.reports.Load()), time.Since(start).Seconds()
	return &d.result, nil
}

// open starts the coordinator with its first run.
func (d *federation) open() (err error) {
	o := d.Options
	o.Dir, o.Now = d.Dir, d.now
	if d.c, err = coordinator.Open(o); err != nil {
		return err
	}
	if err = d.c.Begin(d.Settings, d.Items); err == nil {
		d.token, err = d.c.Token(1<<20, 10*365*24*time.Hour, "days")
	}
	config := d.c.Config()
	config.Limits = rpc.Limits{AddressRate: -1, KeyRate: -1}
	var server *rpc.Server
	if err == nil {
		server, err = rpc.NewServer(config)
	}
	if err != nil {
		return errors.Join(err, d.c.Close())
	}
	t := &http.Transport{}
	t.RegisterProtocol("http", inProcess{server.Handler()})
	d.server = rpc.Options{URL: "http://127.0.0.1:1", Insecure: true, Transport: t}
	return nil
}

// join adds a device with the history of a user.
func (d *federation) join(ctx context.Context, user int) error {
	m := &dayDevice{}
	var err error
	m.Device, err = device.Open(device.Options{
		Dial: func(key ed25519.PrivateKey) (device.Conn, error) {
			o := d.server
			o.Key = key
			return rpc.Dial(o)
		},
		Blobs: d.blobs, Workspace: &d.space, Source: SourceOf(d.Split, user), Token: d.token, Now: d.now,
	})
	if err != nil {
		return err
	}
	m.lines = d.c.Budget().LedgerLines
	d.members = append(d.members, m)
	d.result.Joined++
	_, err = m.Step(ctx) // it enrols
	return err
}

// live is one day: devices join and leave, then a run trains.
func (d *federation) live(ctx context.Context, day int) error {
	for user := range d.Split.Users() {
		if day > 0 {
			break
		}
		if err := d.join(ctx, user); err != nil {
			return err
		}
	}
	if day > 0 {
		d.offset.Add(int64(24 * time.Hour))
		for range int(math.Round(d.Churn * float64(len(d.members)))) {
			if err := d.join(ctx, int(d.rand.Float64()*float64(d.Split.Users()))); err != nil {
				return err
			}
			i := int(d.rand.Float64() * float64(len(d.members)-1))
			if err := d.members[i].Forget(ctx); err != nil {
				return err
			}
			d.members = append(d.members[:i], d.members[i+1:]...)
			d.result.Left++
		}
		d.step(ctx) // devices check in at least every hour, so they are active when the run begins
		if err := d.c.BeginNext(); err != nil {
			return fmt.Errorf("day %d: %w", day+1, err)
		}
	}
	if err := d.train(ctx, day+1); err != nil {
		return err
	}
	if every := max(1, d.Days.Days/12); (day+1)%every == 0 || day+1 == d.Days.Days {
		d.sample(day + 1)
	}
	return nil
}

// train lets all devices take part until the run is over.
func (d *federation) train(ctx context.Context, run int) error {
	for end := time.Now().Add(5 * time.Minute); ; {
		s := d.c.Status()
		switch s.State {
		case coordinator.Finished, coordinator.BetweenRuns, coordinator.BudgetSpent:
			if s.RunNumber == run {
				return nil
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("run %d does not end: %s: %s", run, s.State, s.Message)
		}
		d.step(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// step lets each device check in, and do what it is told.
func (d *federation) step(ctx context.Context) {
	var all sync.WaitGroup
	work := make(chan *dayDevice)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for m := range work {
				r, err := m.Step(ctx) // after an error it is tried again
				if err == nil && r.Action == "trained" && r.State != "closed" {
					d.reports.Add(1)
				}
			}
		})
	}
	for _, m := range d.members {
		work <- m
	}
	close(work)
	all.Wait()
}

// settle lets all devices get the newest model: a device counts a release when it has seen it.
func (d *federation) settle(ctx context.Context) {
	newest := d.c.Status().Version
	old := func(m *dayDevice) bool {
		about, err := m.About()
		return err != nil || about.ModelVersion < newest
	}
	for try := 0; try < 20 && slices.ContainsFunc(d.members, old); try++ {
		d.step(ctx)
	}
}

func (d *federation) sample(day int) {
	s := DaySample{Day: day}
	_ = filepath.WalkDir(d.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // a file that was just removed
		}
		if info, err := e.Info(); err == nil {
			s.Folder += info.Size()
			if e.Name() == "ledger.jsonl" {
				s.Ledger = info.Size()
			}
		}
		return nil
	})
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	s.Heap = int64(m.HeapInuse)
	d.result.Growth = append(d.result.Growth, s)
}

// checkBudgets composes what each device was exposed to from the lines of the ledger, and compares it with what
// the coordinator and the device say.
func (d *federation) checkBudgets() error {
	policy := d.c.Budget()
	if policy.Delta == nil {
		return nil
	}
	events, err := ledgerEvents(filepath.Join(d.Dir, "ledger.jsonl"))
	if err != nil {
		return err
	}
	known := map[int]float64{}
	for _, m := range d.members {
		about, err := m.About()
		if err != nil {
			return err
		}
		want, ok := known[m.lines]
		if !ok {
			var since []account.Event
			for line, e := range events {
				if line >= m.lines {
					since = append(since, e)
				}
			}
			r, err := account.Epsilon(*policy.Delta, account.Options{}, since...)
			if err != nil {
				return err
			}
			want = r.Epsilon
			known[m.lines] = want
		}
		got, _ := d.c.DeviceEpsilon(about.DeviceID)
		if d.result.Checked++; math.Abs(got-want) > 1e-6*max(1, want) {
			d.result.Wrong = append(d.result.Wrong, fmt.Sprintf("device %d: %g, independently %g", about.DeviceID, got,
				want))
		}
		if about.Tally.Epsilon < want*(1-1e-6) {
			d.result.Wrong = append(d.result.Wrong, fmt.Sprintf("device %d counts %g itself, independently %g",
				about.DeviceID, about.Tally.Epsilon, want))
		}
		if d.result.MaxEpsilon == nil || got > *d.result.MaxEpsilon {
			d.result.MaxEpsilon = &got
		}
	}
	return nil
}

// ledgerEvents reads the releases of a ledger, by line.
func ledgerEvents(path string) (map[int]account.Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[int]account.Event{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 0; lines.Scan(); n++ {
		var e struct{ Event *account.Event }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		if e.Event != nil {
			out[n] = *e.Event
		}
	}
	return out, lines.Err()
}
