package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
	"github.com/tacit-rec/tacit/wire"
	"google.golang.org/protobuf/proto"
)

// trial is what chaos came to.
type trial struct {
	Method  string `json:"method"`
	Dataset string `json:"dataset"`
	Devices int    `json:"devices"`
	Rounds  int    `json:"rounds"`
	Kills   int    `json:"kills"`
	Acked   int    `json:"acked"`
	Counted int    `json:"counted"`
	// rounds of a device that were acknowledged with two contents; what is twice in a sum shows in the model
	Duplicated int              `json:"duplicated"`
	Lost       int              `json:"lost"` // acknowledged, and in no sum
	Late       int64            `json:"late"` // told that the round was over, or full
	LedgerOK   bool             `json:"ledger_ok"`
	Epsilon    *float64         `json:"epsilon,omitempty"`
	Equal      bool             `json:"metrics_equal"` // the model is the simulation's, bit by bit
	Differs    []string         `json:"differs,omitempty"`
	SyncAlways bool             `json:"sync_always"`
	Syncs      uint64           `json:"syncs"` // since the last start
	Seconds    float64          `json:"seconds"`
	Errors     int64            `json:"calls_made_again"`
	Refused    map[string]int64 `json:"refused"`
}

func (t *trial) ok() bool { return t.Duplicated == 0 && t.Lost == 0 && t.LedgerOK && t.Equal }

// tried runs a fleet against a coordinator of its own, which may be killed, and compares.
func (a *app) tried(ctx context.Context, spec *experiment.Spec, f *fleetFlags, words []string,
	settings func() []experiment.Setting,
) error {
	var chaos fleet.Chaos
	if f.chaos != "" {
		var err error
		if chaos, err = fleet.ParseChaos(f.chaos); err != nil {
			return input(err, "")
		}
	}
	split, err := f.triable(spec)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tacit-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f.state, f.url, f.serve.rehearsal = filepath.Join(dir, "state"), "", true
	v, err := a.victim(spec, f, words, settings)
	if err != nil {
		return err
	}
	defer v.Kill()
	if err := v.Begin(ctx); err != nil {
		return err
	}
	w, err := f.find(true)
	if err != nil {
		return err
	}
	start := time.Now()
	acks, t := &acks{by: map[fleet.Counted]int{}, late: map[[2]uint32]bool{}},
		&trial{Method: spec.Method, Dataset: spec.Data, Devices: split.Users(), Rounds: spec.Rounds}
	cfg, err := f.config(split, w, spec.Seed)
	if err != nil {
		return err
	}
	cfg.Counted, cfg.Late = acks.add, acks.missed
	fl, err := fleet.New(cfg)
	if err != nil {
		return input(err, "")
	}
	defer fl.Close()
	stop := a.watch(ctx, fl, f)
	each := spec.Cohort.Expected(split.Users())
	err = a.endure(ctx, fl, v, chaos, uint32(spec.Rounds), each*float64(spec.Rounds))
	stop()
	if err != nil {
		return err
	}
	t.Kills, t.Seconds, t.Errors, t.Refused, t.Late = v.Kills, time.Since(start).Seconds(), fl.Stats().Errors,
		fl.Stats().Refused, fl.Stats().Closed
	if err := a.judge(ctx, spec, split, f, acks, t); err != nil {
		return err
	}
	return a.verdict(t)
}

// triable is the data of a trial, if its coordinator can begin and be compared with.
func (f *fleetFlags) triable(spec *experiment.Spec) (*data.Split, error) {
	if f.users > 0 {
		return nil, input(errors.New("--users: a simulation has all users of a data set, so there is nothing to "+
			"compare with"), "leave --users out")
	}
	if err := f.leavable(spec); err != nil {
		return nil, err
	}
	split, err := splitOf(spec, f.dataDir)
	if err != nil {
		return nil, err
	}
	all := f.serve
	all.devices = split.Users()
	if s := federated(spec, &all); s.Check() != nil {
		return nil, input(s.Check(), "")
	}
	return split, nil
}

// verdict prints what a trial came to. One that failed has an error in its envelope beside
// the data.
func (a *app) verdict(t *trial) error {
	if t.ok() {
		return a.result(t, t.text)
	}
	var err error
	if a.format != "json" {
		err = t.text(a.out)
	} else {
		err = a.print(envelope{
			Schema: result.Schema, Status: "error", Exit: exitFailed, Data: t,
			Error: &failure{Code: "failed", Message: errChaosFailed.Error()},
		})
	}
	return errors.Join(errChaosFailed, err)
}

// errChaosFailed makes the exit code 1; the result was printed.
var errChaosFailed = errors.New("something was lost, counted twice or changed")

// victim is a coordinator in a process of its own, with the settings of this command.
func (a *app) victim(spec *experiment.Spec, f *fleetFlags, words []string,
	settings func() []experiment.Setting,
) (*fleet.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(f.state + ".log")
	if err != nil {
		return nil, err
	}
	args := []string{
		"serve", "-q", "--state", f.state, "--listen", port, "--rehearsal", "--deadline",
		f.serve.deadline.String(), "--goal", fmt.Sprint(f.serve.goal), "--least-share", fmt.Sprint(f.serve.least),
		"--bucket", fmt.Sprint(f.serve.bucket), "--readout", fmt.Sprint(f.serve.readout), "--data", spec.Data,
	}
	if f.dataDir != "" {
		args = append(args, "--data-dir", f.dataDir)
	}
	for _, s := range settings() {
		if s.Key != "data" {
			args = append(args, "--"+s.Key, s.Value)
		}
	}
	args = append(args, words...)
	return &fleet.Process{
		Start: func() *exec.Cmd {
			c := exec.Command(self, args...)
			c.Stdout, c.Stderr = log, log
			return c
		},
		Ready: func(ctx context.Context) error {
			admin, err := f.admin()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			if _, err = admin.Status(ctx, &pb.StatusRequest{}); err != nil {
				if b, _ := os.ReadFile(log.Name()); len(b) > 0 {
					err = fmt.Errorf("%w: %s", err, tail(b, 500))
				}
			}
			return err
		},
	}, nil
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// endure lets the fleet live while the coordinator dies.
func (a *app) endure(ctx context.Context, fl *fleet.Fleet, v *fleet.Process, chaos fleet.Chaos, rounds uint32,
	reports float64,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var ended atomic.Bool
	wg.Go(func() {
		progress := func() float64 {
			if ended.Load() {
				return 1
			}
			return float64(fl.Stats().Counted) / max(1, reports)
		}
		err := v.RandomKills(ctx, chaos, progress, func(kills int) {
			if !a.quiet {
				fmt.Fprintf(a.err, "killed %d of %d\n", kills, chaos.Kills)
			}
		})
		if err != nil {
			cancel(err)
		}
	})
	err := fl.Run(ctx, rounds)
	ended.Store(true)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	wg.Wait()
	return err
}

// acks is what the devices were told.
type acks struct {
	mu   sync.Mutex
	by   map[fleet.Counted]int
	late map[[2]uint32]bool // by round and seat: reports that are in no sum
}

func (k *acks) missed(seat, round uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.late[[2]uint32{round, seat}] = true
}

func (k *acks) add(a fleet.Counted) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.by[a]++
}

// judge compares what was acknowledged with what was counted, and the model with a
// simulation's.
func (a *app) judge(ctx context.Context, spec *experiment.Spec, split *data.Split, f *fleetFlags, k *acks,
	t *trial,
) error {
	admin, err := f.admin()
	if err != nil {
		return err
	}
	counted, came := map[fleet.Counted]int{}, make([][]uint32, spec.Rounds)
	for round := range uint32(spec.Rounds) {
		r, err := admin.Counted(ctx, &pb.CountedRequest{Round: round})
		if err != nil {
			return networkError(err)
		}
		came[round] = r.DeviceIds
		for i, seat := range r.DeviceIds {
			counted[fleet.Counted{DeviceID: seat, Round: round, Digest: [8]byte(r.Digests[i])}]++
			t.Counted++
		}
	}
	said := map[[2]uint32]int{}
	for ack := range k.by {
		t.Acked++
		said[[2]uint32{ack.Round, ack.DeviceID}]++
		if counted[ack] == 0 {
			t.Lost++
		}
	}
	for _, n := range said {
		t.Duplicated += n - 1
	}
	s, err := f.status(ctx)
	if err != nil {
		return err
	}
	t.SyncAlways, t.Syncs, t.Epsilon, t.Lost = s.SyncAll, s.Synced.Syncs, s.Epsilon, t.Lost+s.Lost
	t.LedgerOK = s.LedgerOK
	h, err := admin.History(ctx, &pb.HistoryRequest{})
	if err != nil {
		return networkError(err)
	}
	same := *spec
	if same.EvalEvery = spec.Rounds; f.serve.readout > 0 { // metrics that are released share the budget
		same.EvalEvery = f.serve.readout
	}
	t.Differs, err = a.differs(ctx, &same, split, came, k.late, h.Manifests[len(h.Manifests)-1])
	t.Equal = err == nil && len(t.Differs) == 0
	return err
}

// differs runs the simulation, and names the slots whose values are not those of a
// manifest. Where devices chose themselves, those who came in a round take part in it, and
// who came too late has learnt all the same.
func (a *app) differs(ctx context.Context, spec *experiment.Spec, split *data.Split, came [][]uint32,
	late map[[2]uint32]bool, signed *pb.SignedManifest,
) ([]string, error) {
	var m pb.Manifest
	if err := proto.Unmarshal(signed.Body, &m); err != nil {
		return nil, err
	}
	o := spec.Options
	o.Sums, o.Name = "integer", spec.Method
	if o.DP.On() {
		o.Sums = "float" // with dp they are whole anyhow
	} else {
		o.Secagg = "off" // masks change no bit of a sum
	}
	run, err := sim.New(spec.Params, split, o, spec.Seed, runtime.NumCPU())
	if err != nil {
		return nil, input(err, "")
	}
	if spec.Cohort.ByCheckIn() {
		for t, seats := range came { // who is in the sum was late for an attempt at most
			for _, seat := range seats {
				delete(late, [2]uint32{uint32(t), seat})
			}
		}
		for at := range late {
			came[at[0]] = append(came[at[0]], at[1])
			slices.Sort(came[at[0]])
		}
		run.Fleet.Late = func(t, user int) bool { return late[[2]uint32{uint32(t), uint32(user)}] }
		run.Engine.Who = func(t int, dst []uint32) []uint32 { return append(dst, came[t]...) }
	}
	for !run.Done() {
		if _, err := run.Step(ctx); err != nil {
			return nil, err
		}
	}
	var out []string
	for i, s := range run.Fleet.Plan.Slots {
		if s.Scope != method.Shared || s.Upload == method.Sum {
			continue
		}
		b := wire.AppendRows(nil, run.Engine.Value[i], s.Rows, s.Dim, vec.Pad(s.Dim))
		if h := sha256.Sum256(b); string(h[:]) != string(m.Slots[i].Hash) {
			out = append(out, s.Name)
		}
	}
	if int(m.Round) != spec.Rounds {
		out = append(out, fmt.Sprintf("rounds: %d of %d", m.Round, spec.Rounds))
	}
	return out, nil
}

func (t *trial) text(w io.Writer) error {
	verdict := "the model is the simulation's, bit by bit"
	if !t.Equal {
		verdict = fmt.Sprintf("THE MODEL IS NOT THE SIMULATION'S: %v", t.Differs)
	}
	late, spent := "", ""
	if t.Late > 0 {
		late = fmt.Sprintf(", late %d", t.Late)
	}
	if t.Epsilon != nil {
		spent = fmt.Sprintf("; epsilon %s spent", format.Epsilon(*t.Epsilon))
	}
	_, err := fmt.Fprintf(w, "%s on %s, %d devices, %d rounds, %d kills, %.1f s\nacknowledged %d, counted %d, twice "+
		"%d, lost %d%s; ledger ok %v%s; syncs since the last start %d (always: %v)\n%s\n",
		t.Method, t.Dataset, t.Devices, t.Rounds, t.Kills, t.Seconds, t.Acked, t.Counted, t.Duplicated, t.Lost, late,
		t.LedgerOK, spent, t.Syncs, t.SyncAlways, verdict)
	return err
}
