package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/privacy/account"
)

// daysResult is the result of tacit fleet --days.
type daysResult struct {
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
	Growth     []daySample `json:"growth"`
	Seconds    float64     `json:"seconds"`
}

// daySample is the size of things at the end of a day.
type daySample struct {
	Day    int   `json:"day"`
	Folder int64 `json:"folder_bytes"`
	Ledger int64 `json:"ledger_bytes"`
	Heap   int64 `json:"heap_bytes"`
}

// days is a federation that lives for many days, in this process, on a clock of its own.
type days struct {
	app     *app
	c       *coordinator.Coordinator
	dir     string
	split   *data.Split
	server  rpc.Options
	token   string
	blobs   device.Blobs
	space   device.Workspace
	offset  atomic.Int64 // of the clock
	rand    rng.Rand
	members []*dayDevice
	result  daysResult
}

// dayDevice is a device and how much of the ledger was written when it enrolled.
type dayDevice struct {
	*device.Device
	lines int
}

func (d *days) now() time.Time { return time.Now().Add(time.Duration(d.offset.Load())) }

// liveDays runs a federation for a number of days, with one run a day, while devices leave and join.
func (a *app) liveDays(ctx context.Context, spec *experiment.Spec, f *fleetFlags) error {
	if !(f.churn >= 0 && f.churn < 1) {
		return input(fmt.Errorf("--churn %g: must be from 0 to below 1", f.churn), "")
	}
	split, err := splitOf(spec, f.dataDir)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tacit-days-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &days{
		app: a, dir: filepath.Join(dir, "state"), split: split, blobs: device.NewMemoryBlobs(),
		space: device.Workspace{Memory: 8 << 30}, rand: rng.New(spec.Seed, rng.Fleet, 365),
	}
	d.result = daysResult{Days: f.days, Devices: split.Users(), Wrong: []string{}}
	start := time.Now()
	if err := d.open(spec, f); err != nil {
		return err
	}
	defer d.c.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.c.Run(ctx) }()
	for day := range f.days {
		if err := d.live(ctx, day, f.churn); err != nil {
			return err
		}
		select {
		case err := <-ended:
			return errors.Join(errors.New("the coordinator ended"), err)
		default:
		}
		if a.format != "json" && !a.quiet && (day+1)%30 == 0 {
			fmt.Fprintf(a.err, "day %d: version %d, %d devices left\n", day+1, d.c.Status().Version, d.result.Left)
		}
	}
	if err := d.checkBudgets(); err != nil {
		return err
	}
	s := d.c.Status()
	d.result.Runs, d.result.Version, d.result.Epsilon = s.RunNumber, s.Version, s.Epsilon
	d.result.Seconds = time.Since(start).Seconds()
	if err := a.result(&d.result, d.result.text); err != nil {
		return err
	}
	if len(d.result.Wrong) > 0 || d.result.Runs != f.days {
		return errDays
	}
	return nil
}

var errDays = errors.New("the privacy budget of a device is wrong, or a run is missing")

// inProcess carries requests to a handler in this process.
type inProcess struct{ h http.Handler }

func (m inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	m.h.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

// open starts the coordinator with its first run.
func (d *days) open(spec *experiment.Spec, f *fleetFlags) (err error) {
	set := f.serve
	if set.devices = d.split.Users(); spec.DP.On() {
		set.runs = f.days
	}
	o := coordinator.Options{Dir: d.dir, Now: d.now, Event: func(e coordinator.Event) { d.result.Reports += e.Counted }}
	if isFeatured(spec.Params) {
		if o.Features, err = d.split.Features(); err != nil {
			return err
		}
		d.space.Features = o.Features
	}
	items := catalogueOf(d.split.Source)
	settings, err := d.app.checkedSettings(spec, &set, len(items), o.Features)
	if err != nil {
		return err
	}
	if d.c, err = coordinator.Open(o); err != nil {
		return err
	}
	if err := d.c.Begin(settings, items); err != nil {
		return input(err, "")
	}
	if d.token, err = d.c.Token(1<<20, 10*365*24*time.Hour, "days"); err != nil {
		return err
	}
	config := d.c.Config()
	config.Limits = rpc.Limits{AddressRate: -1, KeyRate: -1}
	server, err := rpc.NewServer(config)
	if err != nil {
		return err
	}
	t := &http.Transport{}
	t.RegisterProtocol("http", inProcess{server.Handler()})
	d.server = rpc.Options{URL: "http://127.0.0.1:1", Insecure: true, Transport: t}
	return nil
}

// join adds a device with the history of a user.
func (d *days) join(ctx context.Context, user int) error {
	m := &dayDevice{}
	var err error
	m.Device, err = device.Open(device.Options{
		Dial: func(key ed25519.PrivateKey) (device.Conn, error) {
			o := d.server
			o.Key = key
			return rpc.Dial(o)
		},
		Blobs: d.blobs, Workspace: &d.space, Source: fleet.SourceOf(d.split, user), Token: d.token, Now: d.now,
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
func (d *days) live(ctx context.Context, day int, churn float64) error {
	for user := range d.split.Users() {
		if day > 0 {
			break
		}
		if err := d.join(ctx, user); err != nil {
			return err
		}
	}
	if day > 0 {
		d.offset.Add(int64(24 * time.Hour))
		for range int(math.Round(churn * float64(len(d.members)))) {
			if err := d.join(ctx, int(d.rand.Float64()*float64(d.split.Users()))); err != nil {
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
	if every := max(1, d.result.Days/12); (day+1)%every == 0 || day+1 == d.result.Days {
		d.sample(day + 1)
	}
	return nil
}

// train lets all devices take part until the run is over.
func (d *days) train(ctx context.Context, run int) error {
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
func (d *days) step(ctx context.Context) {
	var all sync.WaitGroup
	work := make(chan *dayDevice)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for m := range work {
				_, _ = m.Step(ctx) // it is tried again
			}
		})
	}
	for _, m := range d.members {
		work <- m
	}
	close(work)
	all.Wait()
}

func (d *days) sample(day int) {
	s := daySample{Day: day}
	_ = filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
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
func (d *days) checkBudgets() error {
	policy := d.c.Budget()
	if policy.Delta == nil {
		return nil
	}
	events, err := ledgerEvents(filepath.Join(d.dir, "ledger.jsonl"))
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

func (t *daysResult) text(w io.Writer) error {
	fmt.Fprintf(w, "%d days, %d devices at any time, %d joined, %d left; %d runs, version %d, %d reports, %.1f s\n",
		t.Days, t.Devices, t.Joined, t.Left, t.Runs, t.Version, t.Reports, t.Seconds)
	if t.Epsilon != nil {
		fmt.Fprintf(w, "epsilon %s spent, at most %s by one device; of %d budgets, composed independently, %d differ\n",
			format.Epsilon(*t.Epsilon), format.Epsilon(*t.MaxEpsilon), t.Checked, len(t.Wrong))
	}
	for _, s := range t.Growth {
		fmt.Fprintf(w, "day %3d  folder %.2f MB  ledger %.2f MB  heap %.0f MB\n", s.Day, float64(s.Folder)/1e6,
			float64(s.Ledger)/1e6, float64(s.Heap)/1e6)
	}
	return nil
}
