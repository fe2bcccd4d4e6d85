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

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
	"github.com/tacit-rec/tacit/wire"
)

// chaosResult is the result of tacit fleet --chaos or --parity.
type chaosResult struct {
	Method  string `json:"method"`
	Dataset string `json:"dataset"`
	Devices int    `json:"devices"`
	Rounds  int    `json:"rounds"`
	Kills   int    `json:"kills"`
	Fills   int    `json:"disk_full"`   // times that the disk was full
	Steps   int    `json:"clock_steps"` // of the coordinator's clock
	Acked   int    `json:"acked"`
	Counted int    `json:"counted"`
	// Duplicated counts reports that were acknowledged with two contents. A report that is in a sum twice
	// changes the model.
	Duplicated int              `json:"duplicated"`
	Lost       int              `json:"lost"` // acknowledged, but in no sum
	Late       int64            `json:"late"` // refused because the round was over or full
	LedgerOK   bool             `json:"ledger_ok"`
	Epsilon    *float64         `json:"epsilon,omitempty"`
	Equal      bool             `json:"metrics_equal"` // the model equals the simulation's, bit by bit
	Differs    []string         `json:"differs,omitempty"`
	SyncAlways bool             `json:"sync_always"`
	Syncs      uint64           `json:"syncs"` // since the last start
	Seconds    float64          `json:"seconds"`
	Errors     int64            `json:"calls_made_again"`
	Refused    map[string]int64 `json:"refused"`
}

func (t *chaosResult) ok() bool { return t.Duplicated == 0 && t.Lost == 0 && t.LedgerOK && t.Equal }

// chaos runs a fleet against its own coordinator, which it may kill, and compares the result with a simulation.
func (a *app) chaos(ctx context.Context, spec *experiment.Spec, f *fleetFlags, words []string,
	settings func() []experiment.Setting,
) error {
	var chaos fleet.Chaos
	if f.chaos != "" {
		var err error
		if chaos, err = fleet.ParseChaos(f.chaos); err != nil {
			return input(err, "")
		}
	}
	split, err := f.chaosSplit(spec)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tacit-chaos-")
	if err != nil {
		return err
	}
	defer a.cleanups.add(func() { os.RemoveAll(dir) })()
	machine, err := newTestMachine(dir, chaos.DiskFull > 0)
	if err != nil {
		return err
	}
	defer a.cleanups.add(machine.close)()
	f.state, f.url = filepath.Join(machine.disk, "state"), ""
	f.serve.deterministic = true
	v, err := a.killableCoordinator(spec, f, words, settings, machine)
	if err != nil {
		return err
	}
	defer a.cleanups.add(func() { v.Kill() })()
	if err := v.Begin(ctx); err != nil {
		return err
	}
	w, err := f.find(true)
	if err != nil {
		return err
	}
	start := time.Now()
	acks := &acks{by: map[fleet.Counted]int{}, late: map[reportKey]bool{}}
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
	err = a.runUnderKills(ctx, fl, v, chaos, uint32(spec.Rounds), each*float64(spec.Rounds))
	stop()
	if err != nil {
		return err
	}
	stats := fl.Stats()
	t := &chaosResult{
		Method: spec.Method, Dataset: spec.Data, Devices: split.Users(), Rounds: spec.Rounds, Kills: v.Kills,
		Fills: v.Fills, Steps: v.Steps,
		Seconds: time.Since(start).Seconds(), Errors: stats.Errors, Refused: stats.Refused, Late: stats.Closed,
	}
	if err := a.compareChaos(ctx, spec, split, f, acks, t); err != nil {
		return err
	}
	return a.printChaos(t)
}

// chaosSplit returns the data, after checking that the run can start and be compared.
func (f *fleetFlags) chaosSplit(spec *experiment.Spec) (*data.Split, error) {
	if f.users > 0 {
		return nil, input(errors.New("--users cannot be compared: the simulation uses all users of the data set"),
			"omit --users")
	}
	if err := f.checkLeave(spec); err != nil {
		return nil, err
	}
	split, err := splitOf(spec, f.dataDir)
	if err != nil {
		return nil, err
	}
	all := f.serve
	all.devices = split.Users()
	spec.FitToDevices(all.devices)
	if s := coordinatorSettings(spec, &all); s.Check() != nil {
		return nil, input(s.Check(), "")
	}
	return split, nil
}

// printChaos prints the result. If the comparison failed, the JSON holds both data and error.
func (a *app) printChaos(t *chaosResult) error {
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

// errChaosFailed exits with code 1 after the result was printed.
var errChaosFailed = errors.New("a report was lost or counted twice, or the model differs")

// killableCoordinator is a coordinator in another process, with the settings of this command.
func (a *app) killableCoordinator(spec *experiment.Spec, f *fleetFlags, words []string,
	settings func() []experiment.Setting, machine *testMachine,
) (*fleet.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(machine.dir, "coordinator.log"))
	if err != nil {
		return nil, err
	}
	args := []string{
		"serve", "-q", "--state", f.state, "--listen", port, "--deterministic", "--deadline",
		f.serve.deadline.String(), "--goal", fmt.Sprint(f.serve.goal), "--min-share", fmt.Sprint(f.serve.minShare),
		"--group-size", fmt.Sprint(f.serve.groupSize), "--eval-every", fmt.Sprint(f.serve.evalEvery), "--data",
		spec.Data,
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
			c.Stdout, c.Stderr, c.Env = log, log, append(os.Environ(), machine.environ()...)
			return c
		},
		FillDisk: machine.fillDisk, SetClock: machine.setClock,
		State: func(ctx context.Context) (string, error) {
			s, err := f.status(ctx)
			if err != nil {
				return "", err
			}
			return string(s.State), nil
		},
		Ready: func(ctx context.Context) error {
			admin, err := f.admin()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			if _, err = admin.Status(ctx); err != nil {
				if b, _ := os.ReadFile(log.Name()); len(b) > 0 {
					err = fmt.Errorf("%w: %s", err, tail(b, 500))
				}
			}
			return err
		},
	}, nil
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// runUnderKills runs the fleet while the coordinator is killed and restarted.
func (a *app) runUnderKills(ctx context.Context, fl *fleet.Fleet, v *fleet.Process, chaos fleet.Chaos, rounds uint32,
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
		err := v.Disturb(ctx, chaos, progress, func(what string) {
			if !a.quiet {
				fmt.Fprintln(a.err, what)
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

// reportKey names a device's report of a round.
type reportKey struct{ round, device uint32 }

// acks are the answers that the devices received.
type acks struct {
	mu   sync.Mutex
	by   map[fleet.Counted]int
	late map[reportKey]bool // reports that are in no sum
}

func (k *acks) missed(device, round uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.late[reportKey{round, device}] = true
}

func (k *acks) add(a fleet.Counted) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.by[a]++
}

// compareChaos compares acknowledged with counted reports, and the model with a simulation's.
func (a *app) compareChaos(ctx context.Context, spec *experiment.Spec, split *data.Split, f *fleetFlags, k *acks,
	t *chaosResult,
) error {
	admin, err := f.admin()
	if err != nil {
		return err
	}
	cohorts := make([][]uint32, spec.Rounds)
	counted := map[fleet.Counted]int{}
	for round := range uint32(spec.Rounds) {
		r, err := admin.Counted(ctx, round)
		if err != nil {
			return networkError(err)
		}
		cohorts[round] = r.DeviceIDs
		for i, id := range r.DeviceIDs {
			counted[fleet.Counted{DeviceID: id, Round: round, Digest: r.Digests[i]}]++
			t.Counted++
		}
	}
	t.countAcks(k, counted)
	s, err := f.status(ctx)
	if err != nil {
		return err
	}
	t.Lost += s.Lost
	t.Epsilon = s.Epsilon
	t.LedgerOK = s.LedgerOK
	t.SyncAlways, t.Syncs = s.SyncAll, s.Synced.Syncs
	h, err := admin.History(ctx)
	if err != nil {
		return networkError(err)
	}
	same := *spec
	same.EvalEvery = spec.Rounds
	if f.serve.evalEvery > 0 { // released metrics use up budget
		same.EvalEvery = f.serve.evalEvery
	}
	if !replays(spec, cohorts, split.Users()) {
		cohorts = nil
	}
	t.Differs, err = a.differingSlots(ctx, &same, split, cohorts, k.late, &h[len(h)-1])
	t.Equal = err == nil && len(t.Differs) == 0
	return err
}

// countAcks counts acknowledged, lost and duplicated reports.
func (t *chaosResult) countAcks(k *acks, counted map[fleet.Counted]int) {
	contents := map[reportKey]int{}
	for ack := range k.by {
		t.Acked++
		contents[reportKey{ack.Round, ack.DeviceID}]++
		if counted[ack] == 0 {
			t.Lost++
		}
	}
	for _, n := range contents {
		t.Duplicated += n - 1
	}
}

// replays reports whether a simulation must use the cohorts that formed: devices chose when to check in, or some of
// those that were drawn are in no sum.
func replays(spec *experiment.Spec, cohorts [][]uint32, devices int) bool {
	if spec.Cohort.ByCheckIn() || spec.DP.On() {
		return spec.Cohort.ByCheckIn()
	}
	for t, cohort := range cohorts {
		if len(cohort) < len(spec.Cohort.Draw(spec.Seed, t, devices, nil)) {
			return true
		}
	}
	return false
}

// differingSlots runs the simulation and names the slots whose values differ from a manifest's. It uses the given
// cohorts, if any; late devices trained, but are in no sum.
func (a *app) differingSlots(ctx context.Context, spec *experiment.Spec, split *data.Split, cohorts [][]uint32,
	late map[reportKey]bool, version *coordinator.ModelVersion,
) ([]string, error) {
	m, err := version.Manifest()
	if err != nil {
		return nil, err
	}
	o := spec.Options
	o.Name = spec.Method
	if o.DP.On() {
		o.Sums = "float" // dp quantises anyway
	} else {
		o.Sums = "integer"
		o.Secagg = "off" // masks cancel: the sums are the same
	}
	run, err := sim.New(spec.Params, split, o, spec.Seed, runtime.NumCPU())
	if err != nil {
		return nil, input(err, "")
	}
	if cohorts != nil {
		replayCohorts(run, cohorts, late)
	}
	for !run.Done() {
		if _, err := run.Step(ctx); err != nil {
			return nil, err
		}
	}
	var out []string
	for i, s := range run.Slots() {
		if s.Scope != method.Shared || s.Upload == method.Sum {
			continue
		}
		b := wire.AppendRows(nil, run.Value(i), s.Rows, s.Dim, vec.Pad(s.Dim))
		if h := sha256.Sum256(b); string(h[:]) != string(m.Slots[i].Hash) {
			out = append(out, s.Name)
		}
	}
	if int(m.Round) != spec.Rounds {
		out = append(out, fmt.Sprintf("rounds: %d of %d", m.Round, spec.Rounds))
	}
	return out, nil
}

// replayCohorts makes a simulation use the cohorts that formed on a coordinator.
func replayCohorts(run *sim.Run, cohorts [][]uint32, late map[reportKey]bool) {
	for t, cohort := range cohorts {
		for _, id := range cohort { // a device in the sum was late for an earlier attempt only
			delete(late, reportKey{uint32(t), id})
		}
	}
	for key := range late {
		cohorts[key.round] = append(cohorts[key.round], key.device)
		slices.Sort(cohorts[key.round])
	}
	run.Replay(
		func(t int, dst []uint32) []uint32 { return append(dst, cohorts[t]...) },
		func(t, user int) bool { return late[reportKey{uint32(t), uint32(user)}] },
	)
}

func (t *chaosResult) text(w io.Writer) error {
	verdict := "the model equals the simulation's, bit by bit"
	if !t.Equal {
		verdict = fmt.Sprintf("THE MODEL DIFFERS FROM THE SIMULATION'S: %v", t.Differs)
	}
	late, spent := "", ""
	if t.Late > 0 {
		late = fmt.Sprintf(", late %d", t.Late)
	}
	if t.Epsilon != nil {
		spent = fmt.Sprintf("; epsilon %s spent", format.Epsilon(*t.Epsilon))
	}
	faults := fmt.Sprintf("%d kills", t.Kills)
	if t.Fills+t.Steps > 0 {
		faults += fmt.Sprintf(", disk full %d times, %d clock steps", t.Fills, t.Steps)
	}
	_, err := fmt.Fprintf(w, "%s on %s, %s, %s, %s, %.1f s\nacknowledged %d, counted %d, "+
		"duplicated %d, lost %d%s; ledger ok %v%s; %d syncs since the last start (always: %v)\n%s\n",
		t.Method, t.Dataset, format.Plural(t.Devices, "device"), format.Plural(t.Rounds, "round"),
		faults, t.Seconds, t.Acked, t.Counted, t.Duplicated, t.Lost, late,
		t.LedgerOK, spent, t.Syncs, t.SyncAlways, verdict)
	return err
}
