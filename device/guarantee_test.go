package device

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy/account"
)

// guaranteeTask is a device with a model under a policy, and the task that an honest coordinator assigns.
func guaranteeTask(t *testing.T, mode guaranteeMode) (*Device, *pb.Task) {
	t.Helper()
	f := newFake(t, "pfedrec", mode.devices, "dim", "4")
	f.spec.ReportEvery, f.spec.Masked, f.spec.Evaluations = mode.every, mode.masked, mode.evaluations
	if mode.policy != "none" {
		f.protect(mode.policy, mode.cohort)
	}
	least := 0
	if k := (&vetted{spec: f.spec, plan: f.plan}); mode.masked || mode.kind != pb.Kind_TRAIN {
		if _, err := k.guarantee(); err != nil {
			t.Fatal(err)
		}
		least = k.minDevices(mode.kind)
	}
	if mode.masked && mode.policy == "none" {
		f.bound = &pb.Bound{Clip: 1, Levels: 1 << 20, Max: 1<<20 + 1}
	}
	switch f.kind = mode.kind; mode.kind {
	case pb.Kind_EVALUATE:
		f.bound, _ = evaluationBound()
	case pb.Kind_COUNT:
		counting(f)
	}
	f.publish()
	dev := f.device(0)
	task := &pb.Task{
		Kind: f.kind, Run: f.run, Round: f.round, Bound: f.bound, ModelVersion: f.version, RemainingMs: 60000,
		Length: uint64(f.numbers()),
	}
	if least > 0 {
		task = dev.maskedTask(mode.devices)
		task.Masking.MinDevices = uint32(max(least, int(task.Masking.Threshold)))
		if want, err := (&vetted{spec: f.spec, plan: f.plan}).planMasks(maskedSize{
			mode.devices, int(task.Length), task.Bound.Max, false,
		}); err != nil {
			t.Fatal(err)
		} else {
			task.Masking.MinDevices = max(task.Masking.MinDevices, uint32(want.MinDevices))
		}
	}
	d := dev.open()
	f.idle = true
	if _, err := d.Step(context.Background()); err != nil {
		t.Fatalf("%+v: %v", mode, err)
	}
	return d, task
}

type guaranteeMode struct {
	policy, cohort string
	devices        int
	masked         bool
	every          uint32
	kind           pb.Kind
	evaluations    uint32
}

var guaranteeModes = map[string]guaranteeMode{
	"no policy":           {"none", "all", 3, false, 0, pb.Kind_TRAIN, 0},
	"masked, no policy":   {"none", "all", 14, true, 0, pb.Kind_TRAIN, 0},
	"central":             {"epsilon=2", "all", 20, false, 0, pb.Kind_TRAIN, 0},
	"central count":       {"epsilon=2", "10", 20, false, 0, pb.Kind_TRAIN, 0},
	"central share":       {"epsilon=2", "50%", 20, false, 0, pb.Kind_TRAIN, 0},
	"central poisson":     {"epsilon=2", "poisson:0.5", 20, false, 0, pb.Kind_TRAIN, 0},
	"central adaptive":    {"epsilon=2,adaptive=geometric,bit-noise=40", "all", 20, false, 0, pb.Kind_TRAIN, 0},
	"central masked":      {"epsilon=2", "all", 14, true, 0, pb.Kind_TRAIN, 0},
	"distributed":         {"epsilon=2,trust=distributed,min-devices=12", "all", 20, true, 0, pb.Kind_TRAIN, 0},
	"distributed, sparse": {"epsilon=2,trust=distributed,min-devices=60", "all", 150, true, 0, pb.Kind_TRAIN, 0},
	"distributed adaptive": {
		"epsilon=2,trust=distributed,min-devices=12,adaptive=geometric,bit-noise=60", "all", 20, true, 0,
		pb.Kind_TRAIN, 0,
	},
	"tree, cycle":            {"epsilon=2,mechanism=tree", "cycle:5", 20, false, 4, pb.Kind_TRAIN, 0},
	"tree, checkin":          {"epsilon=2,mechanism=tree", "checkin:5/7", 20, false, 7, pb.Kind_TRAIN, 0},
	"evaluation":             {"none", "all", 14, false, 0, pb.Kind_EVALUATE, 2},
	"evaluation with policy": {"epsilon=2,metrics=20", "all", 14, false, 0, pb.Kind_EVALUATE, 2},
	"count":                  {"none", "all", 14, false, 0, pb.Kind_COUNT, 0},
}

// A device recomputes noise, clipping, quantisation and masks from the plan. It answers honest tasks of
// every mode, and declines every task that is weaker in one of them, with the reason in its log.
func TestDevicesCheckTheGuarantee(t *testing.T) {
	weaken := map[string]func(*pb.Task){
		"noise":        func(t *pb.Task) { t.Bound.Noise-- },
		"no noise":     func(t *pb.Task) { t.Bound.Noise = 0 },
		"bit noise":    func(t *pb.Task) { t.Bound.BitNoise-- },
		"clip":         func(t *pb.Task) { t.Bound.Clip *= 2 },
		"levels":       func(t *pb.Task) { t.Bound.Levels *= 2 },
		"row clip":     func(t *pb.Task) { t.Bound.Row = 0.5 },
		"no bit":       func(t *pb.Task) { t.Bound.Bit = !t.Bound.Bit },
		"late bit":     func(t *pb.Task) { t.Bound.Late = true },
		"cut noise":    func(t *pb.Task) { t.Bound.Max--; t.Masking.Max-- },
		"no bound":     func(t *pb.Task) { t.Bound = &pb.Bound{PerSlot: true, Max: 100} },
		"least":        func(t *pb.Task) { t.Masking.MinDevices-- },
		"degree":       func(t *pb.Task) { t.Masking.Degree -= 2 },
		"threshold":    func(t *pb.Task) { t.Masking.Threshold-- },
		"no masks":     func(t *pb.Task) { t.Masking = nil },
		"later rounds": func(t *pb.Task) { t.Round = 50 },
		"other run":    func(t *pb.Task) { t.Run = []byte("another run.....") },
	}
	applies := map[string][]string{ // the modes in which something is weaker; all others of the table above
		"noise":     {"distributed", "distributed, sparse", "distributed adaptive"},
		"no noise":  {"distributed", "distributed, sparse", "distributed adaptive"},
		"bit noise": {"distributed adaptive"},
		"clip":      {"central", "central count", "central masked", "distributed", "tree, cycle", "tree, checkin"},
		"levels":    {"central", "central poisson", "central adaptive", "distributed", "tree, cycle"},
		"row clip":  {"central", "distributed"},
		"no bit":    {"central", "central adaptive", "distributed adaptive"},
		"late bit":  {"central adaptive"},
		"cut noise": {"distributed"},
		"no bound":  {"central", "distributed"},
		"least": {
			"masked, no policy", "central masked", "distributed", "distributed, sparse", "evaluation",
			"evaluation with policy", "count",
		},
		"degree":       {"distributed, sparse"},
		"threshold":    {"masked, no policy", "central masked", "distributed", "distributed, sparse", "count"},
		"no masks":     {"masked, no policy", "central masked", "distributed", "evaluation", "count"},
		"later rounds": {"central", "distributed", "tree, checkin"},
		"other run":    {"no policy", "central", "evaluation"},
	}
	for name, mode := range guaranteeModes {
		d, honest := guaranteeTask(t, mode)
		for what, change := range weaken {
			for _, in := range applies[what] {
				if in != name {
					continue
				}
				task := proto.Clone(honest).(*pb.Task)
				change(task)
				out, err := d.perform(context.Background(), task)
				if err != nil || out.Action != "declined" || *d.record.report(task.Kind) != nil {
					t.Errorf("%s with weaker %s: %+v, %v", name, what, out, err)
				}
				if what != "other run" && mode.kind == pb.Kind_TRAIN && !slices.ContainsFunc(d.record.Log,
					func(e LogEntry) bool { return e.State == declined && e.Reason == out.Reason }) {
					t.Errorf("%s with weaker %s: %q is not in the log", name, what, out.Reason)
				}
			}
		}
		honest.Attempt += 3 // the fake coordinator has no such attempt and ends it
		out, err := d.perform(context.Background(), honest)
		if err != nil || out.Action == "declined" || *d.record.report(honest.Kind) == nil {
			t.Errorf("%s: the honest task: %+v, %v", name, out, err)
		}
		g := d.record.Guarantee
		if g.On() != (mode.policy != "none") || g.On() && !(g.Epsilon > 1.5 && g.Epsilon <= 2) {
			t.Errorf("%s: the device has computed %+v", name, g)
		}
	}
}

// A device accepts more noise than the guarantee requires.
func TestAcceptsMoreNoise(t *testing.T) {
	d, task := guaranteeTask(t, guaranteeModes["distributed"])
	task.Bound.Noise++
	task.Attempt += 3
	if out, err := d.perform(context.Background(), task); err != nil || out.Action != "trained" {
		t.Errorf("%+v, %v", out, err)
	}
}

// A plan whose policy does not hold is refused before the device takes its model.
func TestRefusesPlansThatDoNotHold(t *testing.T) {
	for what, c := range map[string]struct {
		edit func(p *pb.Plan)
		want string
	}{
		"noise":        {func(p *pb.Plan) { p.Policy = "epsilon=0.1,noise=0.5" }, "exceeds the budget"},
		"delta":        {func(p *pb.Plan) { p.Policy = "epsilon=2,delta=0.4" }, "delta"},
		"cohort":       {func(p *pb.Plan) { p.Cohort = "everybody" }, "cohort"},
		"no masks":     {func(p *pb.Plan) { p.Policy = "epsilon=2,trust=distributed" }, "secure aggregation"},
		"simulated":    {func(p *pb.Plan) { p.Policy = "epsilon=2,noise-cohort=100000" }, "simulations"},
		"tree":         {func(p *pb.Plan) { p.Policy = "epsilon=2,mechanism=tree" }, "participation"},
		"unreadable":   {func(p *pb.Plan) { p.Policy = "be kind" }, "unknown dp setting"},
		"second run":   {nil, "run 2 of budget period 1"},
		"other policy": {func(p *pb.Plan) { p.Policy = "epsilon=3" }, "policy changed from epsilon=2 to epsilon=3"},
		"no policy":    {func(p *pb.Plan) { p.Policy = "none" }, "policy changed from epsilon=2 to none"},
		"more rounds":  {func(p *pb.Plan) { p.Rounds = 60 }, "rounds changed from 50 to 60"},
		"more runs":    {func(p *pb.Plan) { p.Runs = 3 }, "runs changed from 1 to 3"},
		"other cohort": {func(p *pb.Plan) { p.Cohort = "3" }, "cohort changed from all to 3"},
	} {
		f := newFake(t, "pfedrec", 6, "dim", "4")
		f.protect("epsilon=2", "all")
		f.publish()
		dev := f.device(0)
		if _, err := dev.open().Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		if c.edit != nil {
			c.edit(f.spec)
		} else {
			f.number++
			f.run = []byte("another run.....")
		}
		f.publish()
		d := dev.open()
		_, err := d.Step(context.Background())
		if !errors.Is(err, ErrGuarantee) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", what, err, c.want)
		}
		if m, _ := d.manifest(); m.Version != 1 || d.record.Guarantee.Policy != "epsilon=2" {
			t.Errorf("%s: the device has taken version %d", what, m.Version)
		}
		if e := d.record.Log[len(d.record.Log)-1]; e.Kind != "plan" || e.State != declined {
			t.Errorf("%s: the log says %+v", what, e)
		}
	}
}

// After a reset of the budget another policy may begin. The device logs it, and keeps its tally.
func TestBudgetResetIsLoggedAndTheTallyKept(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.protect("epsilon=2", "all")
	f.publish()
	f.rounds(3, members)
	about, err := members[0].open().About()
	if err != nil || about.Tally.Reports != 3 || about.Tally.Rounds != 2 || !(about.Tally.Epsilon > 0) ||
		!(about.Tally.Epsilon < about.Guarantee.Epsilon) {
		t.Fatalf("%+v, %v", about.Tally, err)
	}
	before := about.Tally.Epsilon
	f.period++
	f.number, f.run, f.round = 0, []byte("another run....."), 0
	f.edit = func(m *pb.Manifest) { m.RunNumber = 2 }
	f.protect("epsilon=3", "all")
	clear(f.counted)
	f.publish()
	f.rounds(5, members)
	about, err = members[0].open().About()
	if err != nil || about.Tally.Reports != 5 || about.Tally.Runs != 2 || about.Tally.Resets != 1 ||
		!(about.Tally.Epsilon > before) || about.Guarantee.Period != 2 || about.Guarantee.Policy != "epsilon=3" {
		t.Errorf("%+v, %+v, %v", about.Tally, about.Guarantee, err)
	}
	logged := false
	for _, e := range about.Log {
		logged = logged || e.Kind == "budget" && strings.Contains(e.Reason, "period 2 begins")
	}
	if !logged {
		t.Error("the log does not mention the reset")
	}
}

// A device answers no more tasks in a budget period than the guarantee covers, however often the
// coordinator rolls back, with calibrated noise and with noise that the operator set.
func TestRollbacksDoNotBuyReports(t *testing.T) {
	for policy, cohort := range map[string]string{
		"epsilon=2": "all", "noise=1": "all", "epsilon=8,noise=1": "all", "epsilon=3,noise=4,metrics=30": "all",
	} {
		f, members := start(t, "pfedrec", 1, "dim", "4")
		f.spec.Rounds = 3
		f.plan.Rounds = 3
		k := f.protect(policy, cohort)
		most := 3
		if k.Policy.Noise > 0 && k.Epsilon > 0 { // as many as the budget covers
			for most = 0; most < 200; most++ {
				e, _, _ := k.Spends(0)
				e.Rounds = int64(most + 1)
				if r, err := account.Epsilon(k.Delta, k.Options(), e); err != nil || r.Epsilon > k.Epsilon {
					break
				}
			}
		}
		for n := range most + 3 {
			f.rollbacks++
			out := f.offer(t, members[0], 0)
			if want := map[bool]string{true: "trained", false: "declined"}[n < most]; out.Action != want {
				t.Fatalf("%s: report %d: %+v, want %s", policy, n+1, out, want)
			}
		}
	}
}

// A device that declines a task tells the coordinator, and does not come again before the round is over
// unless the coordinator says when.
func TestDeclinedTasksAreNotTriedEverySecond(t *testing.T) {
	d, task := guaranteeTask(t, guaranteeModes["central"])
	f := d.conn.(*conn).f
	task.Bound.Clip *= 2
	task.RemainingMs = 90_000
	for _, waits := range []bool{false, true} {
		f.idle = waits
		out, err := d.perform(context.Background(), task)
		got := f.request.Declined
		if err != nil || got == nil || got.Round != task.Round || string(got.Run) != string(task.Run) {
			t.Fatalf("%+v, %v; it told the coordinator %v", out, err, got)
		}
		if !waits && out.After < 90*time.Second || waits && out.After != time.Second {
			t.Errorf("the coordinator says when: %v; the device comes after %v", waits, out.After)
		}
	}
}
