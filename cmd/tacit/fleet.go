package main

import (
	"context"
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
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
)

// fleetFlags are the flags of a fleet.
type fleetFlags struct {
	connectFlags
	serve        serveFlags
	users        int
	hosts        int
	arrive       time.Duration
	checkInEvery time.Duration
	drop         float64
	leave        []float64
	slow         time.Duration
	lie          float64
	chaos        string
	parity       bool
	dataDir      string
	stay         bool
	days         int
	churn        float64
}

const fleetLong = `
It runs one device per user of a data set, all in this process, over real sockets. If the coordinator
has no run, the fleet starts one with the settings given here. Devices can drop out (--drop), be
slow (--slow) or send invalid reports (--lie).`

const fleetDetails = `
--chaos starts its own coordinator, kills it at random moments with SIGKILL and restarts it, fills its
disk (diskfull=2) and sets its clock (clock=3). It then compares acknowledged with counted reports, and
the model with that of an undisturbed simulation. It exits with 1 if a report was lost or counted
twice, or if the model differs. --parity does the same without disturbances. If devices choose when to
check in, the simulation uses the cohorts that formed. --days 365 lets a federation live for a
simulated year: one run a day while devices leave and join (--churn). It then composes the privacy
budget of each device independently, and shows the size of the state over time. Rounds whose cohort is
a secret sample last until their deadline, in real time: use a short --deadline for them.`

func (a *app) fleetCmd() *cobra.Command {
	var f fleetFlags
	c := &cobra.Command{
		Use: "fleet [key=value ...]", Short: "Run many simulated devices against a coordinator", Long: fleetLong,
		Example: `  tacit fleet -d ml-100k
  tacit fleet -d world --drop 0.1 --lie 0.05 --slow 50ms
  tacit fleet -d ml-100k -m pfedrec --rounds 10 --parity
  tacit fleet -d ml-100k --chaos kills=20,diskfull=2,clock=3,seed=1`,
	}
	fl := c.Flags()
	settings := networkSettingFlags(fl)
	f.connectFlags.flags(c, enrolToken)
	fl.IntVar(&f.users, "users", 0, "number of devices: the first users of the data set; 0 means all")
	fl.IntVar(&f.hosts, "hosts", runtime.NumCPU(), "devices that compute at the same time")
	fl.DurationVar(&f.arrive, "arrive", 0, "time over which devices first connect")
	fl.DurationVar(&f.checkInEvery, "check-in-every", 0, "median time between check-ins; 0: when the coordinator asks")
	oldFlag(fl, "comes", "check-in-every")
	fl.Float64Var(&f.drop, "drop", 0, "fraction of devices that drop out of a round")
	fl.Float64SliceVar(&f.leave, "leave", nil,
		"fractions that drop out before each of the four steps of a masked round")
	fl.DurationVar(&f.slow, "slow", 0, "mean delay before a device sends its report")
	fl.Float64Var(&f.lie, "lie", 0, "fraction of devices that send invalid reports")
	fl.StringVar(&f.chaos, "chaos", "", "disturb a coordinator: kills=20,diskfull=2,clock=3,seed=1")
	fl.BoolVar(&f.parity, "parity", false, "compare the model with a simulation's, bit by bit")
	fl.IntVar(&f.days, "days", 0, "live for a number of simulated days in this process, with one run a day")
	fl.Float64Var(&f.churn, "churn", 0.02, "with --days: fraction of devices that leave and join a day")
	fl.BoolVar(&f.stay, "stay", false, "keep running after the last round")
	dataDirFlag(c.Flags(), &f.dataDir)
	f.serve.runFlags(c)
	a.describe(c, fleetDetails,
		flagsUnder("Devices", "data users", "hosts arrive check-in-every stay data-dir columns min-rows world sep "+
			"header time-format threshold dedup k-core"),
		flagsUnder("Faults", "drop slow lie chaos parity days", "leave churn"),
		flagsUnder("Run", "method rounds cohort", "devices deadline goal min-share user-column row-column "+
			"deterministic "+
			"preset protocol batch negatives mean server keep bits seed"),
		flagsUnder("Privacy", "dp secagg eval-every", "count-items group-size runs"),
		connectGroup)
	c.RunE = func(c *cobra.Command, words []string) error {
		spec, err := networkSpec(c, words, settings, &f.serve)
		if err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return err
		}
		if f.days > 0 {
			return a.liveDays(c.Context(), spec, &f)
		}
		if f.chaos != "" || f.parity {
			return a.chaos(c.Context(), spec, &f, words, settings)
		}
		return a.fleet(c.Context(), spec, &f)
	}
	return c
}

func (f *fleetFlags) config(split *data.Split, w *localAccess, seed uint64) (fleet.Config, error) {
	cfg := fleet.Config{
		Server: f.options(w), Token: w.Token, Split: split, Users: f.users, Workers: f.hosts,
		Deterministic: f.serve.deterministic, Seed: seed,
		Arrive: f.arrive, CheckInEvery: f.checkInEvery, Drop: f.drop, Slow: f.slow, Malicious: f.lie,
	}
	copy(cfg.Leave[:], f.leave)
	return cfg, nil
}

// check rejects impossible devices.
func (f *fleetFlags) check() error {
	isFraction := func(x float64) bool { return x >= 0 && x <= 1 }
	switch {
	case !isFraction(f.drop):
		return input(fmt.Errorf("--drop %g: must be from 0 to 1", f.drop), "")
	case !isFraction(f.lie):
		return input(fmt.Errorf("--lie %g: must be from 0 to 1", f.lie), "")
	case f.checkInEvery < 0 || f.arrive < 0 || f.slow < 0:
		return input(fmt.Errorf("--check-in-every %v, --arrive %v, --slow %v: must be 0 or more", f.checkInEvery,
			f.arrive, f.slow), "")
	case f.users < 0 || f.hosts < 1:
		return input(fmt.Errorf("--users %d, --hosts %d: must be at least 0 and 1", f.users, f.hosts), "")
	case f.days > 0 && (f.chaos != "" || f.parity):
		return input(errors.New("--days works without --chaos and --parity: it has a coordinator of its own"),
			"run them one after the other")
	case f.days < 0 || !(f.churn >= 0 && f.churn < 1):
		return input(fmt.Errorf("--days %d, --churn %g: must be at least 0, and from 0 to below 1", f.days, f.churn),
			"")
	case len(f.leave) != 0 && (len(f.leave) != 4 ||
		slices.ContainsFunc(f.leave, func(x float64) bool { return !isFraction(x) })):
		return input(fmt.Errorf("--leave %v: must be four fractions from 0 to 1, one for each step of a masked round",
			f.leave), "example: --leave 0.1,0,0.1,0")
	}
	return nil
}

// checkLeave rejects --leave for a run without masked sums.
func (f *fleetFlags) checkLeave(s *experiment.Spec) error {
	if len(f.leave) == 0 || s.Secagg == "on" || f.serve.evalEvery > 0 {
		return nil
	}
	return input(errors.New("--leave needs masked sums, and this run has none"),
		"add --secagg on or --eval-every 5; --drop makes devices drop out of any round")
}

// fleet runs devices against a coordinator that is already running.
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
		s, err := a.ensureRun(ctx, spec, f, split.Items())
		if err != nil {
			return err
		}
		rounds, f.serve.deterministic = uint32(s.Rounds), s.Deterministic
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
			done.Epsilon, done.Evaluations, done.Missed = s.Epsilon, s.Evaluations, s.EvaluationMissed
		}
	}
	return a.result(done, done.text)
}

// fleetResult is what a fleet did, and the budget that the coordinator spent.
type fleetResult struct {
	fleet.Stats
	Epsilon     *float64                 `json:"epsilon,omitempty"`
	Evaluations []coordinator.Evaluation `json:"evaluations,omitempty"`
	Missed      string                   `json:"evaluation_missed,omitempty"`
}

func (r *fleetResult) text(out io.Writer) error {
	for i := range r.Evaluations {
		fmt.Fprintf(out, "evaluation after round %d: %s\n", r.Evaluations[i].Round, evaluationText(&r.Evaluations[i]))
	}
	if r.Missed != "" {
		fmt.Fprintf(out, "no evaluation: %s\n", r.Missed)
	}
	spent := ""
	if r.Epsilon != nil {
		spent = fmt.Sprintf("; epsilon %s spent", format.Epsilon(*r.Epsilon))
	}
	_, err := fmt.Fprintf(out, "%s trained %s; %s counted, %d too late; %.1f MB sent; model version %d%s\n",
		format.Plural(r.Enrolled, "device"), format.Plural(r.Trained, "time"), format.Plural(r.Counted, "report"),
		r.Closed, float64(r.Bytes)/1e6, r.Model, spent)
	return err
}

// status asks the coordinator for its state.
func (f *fleetFlags) status(ctx context.Context) (*coordinator.Status, error) {
	admin, err := f.admin()
	if err != nil {
		return nil, err
	}
	s, err := admin.Status(ctx)
	return s, networkError(err)
}

// ensureRun starts a run on a coordinator that has none.
func (a *app) ensureRun(ctx context.Context, spec *experiment.Spec, f *fleetFlags, items int) (*coordinator.Status,
	error,
) {
	s, err := f.status(ctx)
	if err != nil {
		return nil, err
	}
	if s.Method == "" {
		if err := f.checkLeave(spec); err != nil {
			return nil, err
		}
		return a.begin(ctx, &f.connectFlags, spec, &f.serve)
	}
	another := "start another coordinator with tacit serve --state ANOTHER-FOLDER, and add the same --state here"
	switch {
	case s.State.Over() && !f.stay:
		return nil, input(fmt.Errorf("run %d of the coordinator is over (%s)", s.RunNumber, s.Message),
			"tacit admin begin starts another run; or "+another)
	case s.Items < items:
		return nil, input(fmt.Errorf("the coordinator runs %s with %d items, but %s has %d", s.Name, s.Items,
			spec.Data, items), another)
	}
	return s, nil
}

// watch prints the progress of a fleet every two seconds. If it may ask the coordinator, it also shows
// the progress of evaluations.
func (a *app) watch(ctx context.Context, f *fleet.Fleet, flags *fleetFlags) (stop func()) {
	if a.quiet {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		last := ""
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if line := fleetLine(ctx, f, flags); line != last {
					fmt.Fprintln(a.err, line)
					last = line
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// fleetLine describes the progress of a fleet.
func fleetLine(ctx context.Context, f *fleet.Fleet, flags *fleetFlags) string {
	if s, err := flags.status(ctx); err == nil {
		switch s.State {
		case coordinator.Evaluating:
			return evaluationProgress(s)
		case coordinator.WaitingForDevices, coordinator.WaitingForCheckIns:
			return s.Message
		}
	}
	s := f.Stats()
	return fmt.Sprintf("model version %d  %s  %s counted  %.1f MB uploaded  %s retried", s.Model,
		format.Plural(s.Enrolled, "device"), format.Plural(s.Counted, "report"), float64(s.Bytes)/1e6,
		format.Plural(s.Errors, "call"))
}
