package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
)

// fleetFlags are those of a fleet.
type fleetFlags struct {
	reach
	serve   serveFlags
	users   int
	hosts   int
	arrive  time.Duration
	comes   time.Duration
	drop    float64
	leave   []float64
	slow    time.Duration
	lie     float64
	chaos   string
	parity  bool
	dataDir string
	stay    bool
}

const fleetLong = `Run a device for each user of a data set, all in one process, over real sockets, against
a real coordinator: the one on this machine, or --coordinator. If the coordinator waits for
a run, the fleet begins one with the method and settings given here.

Devices may come late (--arrive) or by themselves, some more eager than others (--comes), vanish (--drop), leave masked rounds half-way (--leave),
dawdle (--slow) and lie (--lie).

--chaos kills=20,seed=1 starts a coordinator of its own, kills it with -9 at so many random
moments, starts it again, and then compares: what was acknowledged with what was
counted, and the model with that of a simulation that nobody disturbed. It exits with 1
if anything was lost, counted twice or changed.

--parity does the same without kills. Where devices choose themselves (--cohort come:N/E), the
simulation has those in each round who came.`

func (a *app) fleetCmd() *cobra.Command {
	var f fleetFlags
	c := &cobra.Command{
		Use: "fleet [key=value ...]", Short: "Run many devices against a coordinator", Long: fleetLong,
		Example: `  tacit fleet -d ml-100k
  tacit fleet -d ml-100k --chaos kills=20,seed=1 --format json
  tacit fleet -d ml-100k -m pfedrec --rounds 10 --parity
  tacit fleet -d ml-100k -m fedmf --rounds 20 --cohort come:50/10 --dp epsilon=8,mechanism=tree --parity
  tacit fleet -d world --drop 0.1 --lie 0.05 --slow 50ms`,
	}
	settings := settingFlags(c.Flags())
	f.flags(c, "to enrol with")
	fl := c.Flags()
	fl.IntVar(&f.users, "users", 0, "devices, of the first users of the data set; 0 means all")
	fl.IntVar(&f.hosts, "hosts", runtime.NumCPU(), "devices that compute at a time")
	fl.DurationVar(&f.arrive, "arrive", 0, "devices come for the first time within so long")
	fl.DurationVar(&f.comes, "comes", 0, "the device in the middle comes by itself once in so long, eager ones more "+
		"often; 0 means when the coordinator says")
	fl.Float64Var(&f.drop, "drop", 0, "share of devices that vanish in a round")
	fl.Float64SliceVar(&f.leave, "leave", nil, "shares of devices that leave a masked round before each of its four "+
		"steps, such as 0.1,0,0.1,0")
	fl.DurationVar(&f.slow, "slow", 0, "how long a device waits before it sends, on average")
	fl.Float64Var(&f.lie, "lie", 0, "share of devices that send what must be refused")
	fl.StringVar(&f.chaos, "chaos", "", "kill the coordinator: kills=20,seed=1")
	fl.BoolVar(&f.parity, "parity", false, "compare the model with a simulation's, bit by bit")
	fl.BoolVar(&f.stay, "stay", false, "go on when all rounds are done")
	dataDirFlag(c.Flags(), &f.dataDir)
	f.serve.runFlags(c)
	c.RunE = func(c *cobra.Command, words []string) error {
		spec, err := networked(words, settings)
		if err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return err
		}
		if f.chaos != "" || f.parity {
			return a.tried(c.Context(), spec, &f, words, settings)
		}
		return a.fleet(c.Context(), spec, &f)
	}
	return c
}

func (f *fleetFlags) config(split *data.Split, w *welcome, seed uint64) (fleet.Config, error) {
	cfg := fleet.Config{
		Server: f.options(w), Token: w.Token, Split: split, Users: f.users, Workers: f.hosts,
		Deterministic: f.serve.rehearsal, Seed: seed,
		Arrive: f.arrive, CheckInEvery: f.comes, Drop: f.drop, Slow: f.slow, Malicious: f.lie,
	}
	copy(cfg.Leave[:], f.leave)
	return cfg, nil
}

// check refuses devices that there cannot be.
func (f *fleetFlags) check() error {
	share := func(x float64) bool { return x >= 0 && x <= 1 }
	switch {
	case !share(f.drop):
		return input(fmt.Errorf("--drop %g: want a share from 0 to 1", f.drop), "")
	case !share(f.lie):
		return input(fmt.Errorf("--lie %g: want a share from 0 to 1", f.lie), "")
	case f.comes < 0 || f.arrive < 0 || f.slow < 0:
		return input(fmt.Errorf("--comes %v, --arrive %v, --slow %v: want 0 or more", f.comes, f.arrive, f.slow), "")
	case f.users < 0 || f.hosts < 1:
		return input(fmt.Errorf("--users %d, --hosts %d: want 0 or more, and 1 or more", f.users, f.hosts), "")
	case len(f.leave) != 0 && (len(f.leave) != 4 ||
		slices.ContainsFunc(f.leave, func(x float64) bool { return !share(x) })):
		return input(fmt.Errorf("--leave %v: want four shares from 0 to 1, one for each step of a masked sum",
			f.leave), "such as --leave 0.1,0,0.1,0")
	}
	return nil
}

// leavable refuses devices that leave masked sums of a run that has none.
func (f *fleetFlags) leavable(s *experiment.Spec) error {
	if len(f.leave) == 0 || s.Secagg == "on" || f.serve.readout > 0 {
		return nil
	}
	return input(errors.New("--leave without masks: nobody is in a masked sum that could be left"),
		"add --secagg on, or --readout 5; --drop has devices vanish in any round")
}

// fleet runs devices against a coordinator that somebody else runs.
func (a *app) fleet(ctx context.Context, spec *experiment.Spec, f *fleetFlags) error {
	w, err := f.find(false)
	if err != nil {
		return err
	}
	split, err := splitOf(spec, f.dataDir)
	if err != nil {
		return err
	}
	f.serve.dataDir = f.dataDir
	if f.users > 0 && f.serve.devices == 0 {
		f.serve.devices = f.users
	}
	rounds := uint32(0)
	if w.Admin != "" {
		s, err := a.ensure(ctx, spec, f, split.Items())
		if err != nil {
			return err
		}
		rounds, f.serve.rehearsal = uint32(s.Rounds), s.Rehearsal
	}
	if f.stay {
		rounds = 0
	}
	cfg, err := f.config(split, w, spec.Seed)
	if err != nil {
		return err
	}
	fl, err := fleet.New(cfg)
	if err != nil {
		return input(err, "")
	}
	defer fl.Close()
	stop := a.watch(ctx, fl, f)
	err = fl.Run(ctx, rounds)
	stop()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return networkError(err)
	}
	done := fleetResult{Stats: fl.Stats()}
	if w.Admin != "" {
		if s, err := f.status(ctx); err == nil {
			done.Epsilon, done.Readouts, done.Missed = s.Epsilon, s.Readouts, s.Missed
		}
	}
	return a.result(done, done.text)
}

// fleetResult is what a fleet has done, and what the coordinator says that it has spent.
type fleetResult struct {
	fleet.Stats
	Epsilon  *float64              `json:"epsilon,omitempty"`
	Readouts []coordinator.Readout `json:"readouts,omitempty"`
	Missed   string                `json:"readout_missed,omitempty"`
}

func (r *fleetResult) text(out io.Writer) error {
	for i := range r.Readouts {
		fmt.Fprintf(out, "readout after round %d: %s\n", r.Readouts[i].Round, readoutText(&r.Readouts[i]))
	}
	if r.Missed != "" {
		fmt.Fprintf(out, "no readout: %s\n", r.Missed)
	}
	spent := ""
	if r.Epsilon != nil {
		spent = fmt.Sprintf("; epsilon %s spent", format.Epsilon(*r.Epsilon))
	}
	_, err := fmt.Fprintf(out, "%d devices trained %d times; %d reports counted, %d too late; %.1f MB sent; model "+
		"%d%s\n",
		r.Enrolled, r.Trained, r.Counted, r.Closed, float64(r.Bytes)/1e6, r.Model, spent)
	return err
}

// status is the coordinator's.
func (f *fleetFlags) status(ctx context.Context) (*coordinator.Status, error) {
	admin, err := f.admin()
	if err != nil {
		return nil, err
	}
	r, err := admin.Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return nil, networkError(err)
	}
	s := &coordinator.Status{}
	return s, json.Unmarshal([]byte(r.Json), s)
}

// ensure begins a run on a coordinator that has none.
func (a *app) ensure(ctx context.Context, spec *experiment.Spec, f *fleetFlags, items int) (*coordinator.Status,
	error,
) {
	s, err := f.status(ctx)
	if err != nil {
		return nil, err
	}
	if s.Method == "" {
		if err := f.leavable(spec); err != nil {
			return nil, err
		}
		r, err := a.begin(ctx, &f.reach, spec, &f.serve)
		if err != nil {
			return nil, err
		}
		return s, json.Unmarshal([]byte(r.Json), s)
	}
	another := "begin another run: tacit serve --state ANOTHER-FOLDER, and the same --state here"
	switch {
	case s.Items < items:
		return nil, input(fmt.Errorf("the coordinator's run, %s, has %d items, and %s has %d", s.Name, s.Items,
			spec.Data, items), another)
	case s.Enrolled >= s.Devices:
		return nil, input(fmt.Errorf("all %d seats of the coordinator's run, %s, are taken: devices that come now "+
			"are given models and take no part in it", s.Devices, s.Name), another)
	}
	return s, nil
}

// watch tells now and then how a fleet is doing, and of a readout how far it is, where the
// coordinator tells an operator.
func (a *app) watch(ctx context.Context, f *fleet.Fleet, flags *fleetFlags) (stop func()) {
	if a.quiet {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if s, err := flags.status(ctx); err == nil && evaluating(s) != "" {
					fmt.Fprintln(a.err, evaluating(s))
					continue
				}
				s := f.Stats()
				fmt.Fprintf(a.err, "model %d  %d devices  %d reports counted  ^%.1f MB  %d calls made again\n",
					s.Model, s.Enrolled, s.Counted, float64(s.Bytes)/1e6, s.Errors)
			}
		}
	}()
	return func() { close(done); <-gone }
}
