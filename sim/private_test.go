package sim

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
)

// promise is a run of FedMF with a policy, and options as the change has them.
func promise(t testing.TB, policy string, jobs int, change func(o *Options)) *Run {
	t.Helper()
	return promised(t, fedmf(t), small(t, "deployed"), policy, jobs, change)
}

func fedmf(t testing.TB) method.Method {
	m := &methods.FedMF{}
	configure(t, m, "dim", "4")
	return m
}

func promised(t testing.TB, m method.Method, s *data.Split, policy string, jobs int, change func(o *Options)) *Run {
	t.Helper()
	o := defaults()
	o.Rounds = 6
	if err := o.DP.UnmarshalText([]byte(policy)); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&o)
	}
	return start(t, m, s, o, jobs)
}

func spent(t testing.TB, r *Run) float64 {
	t.Helper()
	res, _, err := r.Spent()
	if err != nil {
		t.Fatal(err)
	}
	return res.Epsilon
}

func cohort(text string) func(o *Options) {
	return func(o *Options) {
		if err := o.Cohort.UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
	}
}

func TestMasksChangeNoBit(t *testing.T) {
	policies := []string{"noise=0.3,clip=0.5,adaptive=geometric,min-devices=10", "noise=1,clip=0.5"}
	if testing.Short() { // under the race detector: masks are slow
		policies = policies[:1]
	}
	for _, policy := range policies {
		digest := map[string]string{}
		for _, secagg := range []string{"off", "assumed", "on"} {
			r := promise(t, policy, 3, func(o *Options) {
				o.Secagg, o.Rounds, o.Dropout, o.Straggle = secagg, 3, 0.1,
					0.1
			})
			finish(t, r)
			digest[secagg] = r.Digest()
			if r.Dropped == 0 || r.Late == 0 {
				t.Errorf("%d vanish and %d are late: nothing is shown", r.Dropped, r.Late)
			}
		}
		if digest["on"] != digest["off"] || digest["on"] != digest["assumed"] {
			t.Errorf("%s: %v", policy, digest)
		}
	}
}

// A round that too few stay in is a clean end: nothing is released, and it is paid for.
func TestTooManyDropoutsDiscardTheRound(t *testing.T) {
	r := promise(t, "noise=1,clip=0.5", 2, func(o *Options) { o.Secagg, o.Rounds, o.Dropout = "on", 3, 0.8 })
	before := slices.Clone(r.engine.Value[0])
	for _, ev := range finish(t, r) {
		if ev.Devices != 0 {
			t.Errorf("round %d counts %d devices", ev.Round, ev.Devices)
		}
	}
	if r.Discarded != 3 || !slices.Equal(before, r.engine.Value[0]) {
		t.Errorf("%d of 3 rounds were kept back; the model is as before: %t", r.Discarded,
			slices.Equal(before, r.engine.Value[0]))
	}
	whole := promise(t, "noise=1,clip=0.5", 2, func(o *Options) { o.Rounds = 3 })
	finish(t, whole)
	if a, b := spent(t, r), spent(t, whole); a != b || a == 0 {
		t.Errorf("rounds that were kept back cost %g, released ones %g", a, b)
	}
}

// Against the coordinator the count of unclipped devices needs noise as the update
// does: the sum of bits that arrives is not a multiple of a bit, but for a chance below 1%
// in each of eight rounds.
func TestDistributedNoiseIsOnTheBitsToo(t *testing.T) {
	if testing.Short() {
		t.Skip("slow under the race detector (-short); TestMasksChangeNoBit has the same goroutines")
	}
	r := promise(t, "noise=1,clip=0.5,adaptive=geometric,bit-noise=3,trust=distributed,min-devices=30", 2,
		func(o *Options) { o.Secagg = "on" })
	everybody := make([]uint32, r.fleet.Count())
	for u := range everybody {
		everybody[u] = uint32(u)
	}
	bare := 0
	for t0 := range 8 {
		bound := r.engine.Stack.Bound(0)
		sum, _, err := r.fleet.Round(context.Background(), round.Task{Round: t0, Cohort: everybody, Bound: &bound})
		if err != nil {
			t.Fatal(err)
		}
		if sum.Integers[len(sum.Integers)-1]%(privacy.BitLevels/2) == 0 {
			bare++
		}
	}
	if bare > 2 || r.engine.Stack.RemainingCountNoise(0, 40) != 0 {
		t.Errorf("in %d of 8 rounds the sum of bits arrives without noise; the coordinator would add %d", bare,
			r.engine.Stack.RemainingCountNoise(0, 40))
	}
}

// Noise that is given runs into the budget: the last round that it allows is
// evaluated, whether it is its turn or not, and metrics cost too.
func TestABudgetEndsARunAndTheLastRoundIsEvaluated(t *testing.T) {
	for _, policy := range []string{
		"noise=1,epsilon=3,delta=1e-4", "noise=1,epsilon=3,delta=1e-4,metrics=30",
		"noise=1,epsilon=3,delta=1e-4,metrics=6",
	} {
		r := promise(t, policy, 2, func(o *Options) {
			cohort("poisson:0.1")(o)
			o.Rounds, o.EvalEvery = 200, 7
		})
		events := finish(t, r)
		last := events[len(events)-1]
		if r.BudgetEnd != len(events)+1 || len(events) == 200 || last.Valid == nil || r.Selected == 0 {
			t.Errorf("%s: %d rounds, stopped before %d, the last evaluated: %t, round %d is reported", policy,
				len(events), r.BudgetEnd, last.Valid != nil, r.Selected)
		}
		if e := spent(t, r); e > 3*(1+1e-9) || last.Epsilon == nil || *last.Epsilon != e {
			t.Errorf("%s: a budget of 3 is spent to %v, and the last line says %v", policy, e, last.Epsilon)
		}
		if _, err := r.Step(context.Background()); !errors.Is(err, round.ErrBudgetSpent) && r.DP.Metrics == 0 {
			t.Errorf("%s: another round: %v", policy, err)
		}
		for _, ev := range events {
			if (ev.Released != nil) != (r.DP.Metrics > 0 && ev.Valid != nil) {
				t.Errorf("%s: round %d releases %v", policy, ev.Round, ev.Released)
			}
		}
	}
	o := defaults()
	if err := o.DP.UnmarshalText([]byte("noise=0.1,epsilon=1")); err != nil {
		t.Fatal(err)
	}
	if _, err := New(fedmf(t), small(t, "deployed"), o, 1, 1); err == nil {
		t.Error("a budget that the first round would pass is taken")
	}
}

// All that was planned is affordable, and is all that is spent.
func TestACalibratedRunSpendsItsBudgetAndNoMore(t *testing.T) {
	for _, c := range []struct{ policy, cohort string }{
		{"epsilon=8", "all"},
		{"epsilon=8", "poisson:0.2"},
		{"epsilon=8", "10"},
		{"epsilon=8,metrics=40", "poisson:0.2"},
		{"epsilon=8,mechanism=tree", "cycle:9"},
		{"epsilon=8,mechanism=tree", "checkin:9/4"},
		{"epsilon=8,adaptive=geometric,bit-noise=30", "poisson:0.2"},
	} {
		r := promise(t, c.policy, 2, func(o *Options) { cohort(c.cohort)(o); o.Rounds, o.EvalEvery = 11, 3 })
		events := finish(t, r)
		if e := spent(t, r); len(events) != 11 || r.BudgetEnd != 0 || e > 8*(1+1e-9) || e < 7.9 {
			t.Errorf("%s with %s: %d rounds cost %g of 8", c.policy, c.cohort, len(events), e)
		}
		if whole := r.engine.Stack.Total.Epsilon; math.Abs(whole-spent(t, r)) > 1e-9 {
			t.Errorf("%s with %s: %g was announced, and %g spent", c.policy, c.cohort, whole, spent(t, r))
		}
	}
}

// Where released metrics choose, noise may make all of them negative: a round is
// reported all the same. Where nothing is released, the last one is.
func TestTheReportedRoundIsChosenByWhatWasReleased(t *testing.T) {
	best := map[int]bool{}
	for _, policy := range []string{"noise=1,metrics=1e3", "noise=1"} {
		r := promise(t, policy, 2, nil)
		top, at := math.Inf(-1), 0
		for _, ev := range finish(t, r) {
			if ev.Released != nil && ev.Released.HR10 >= top {
				top, at = ev.Released.HR10, ev.Round
			}
		}
		if r.DP.Metrics == 0 {
			at = r.Rounds
		}
		if r.Selected != at {
			t.Errorf("%s: round %d is reported, want %d", policy, r.Selected, at)
		}
		best[r.Selected] = true
	}
	if best[0] {
		t.Error("no round is reported")
	}
}

func TestResumedRunKnowsTheBudgetSpent(t *testing.T) {
	r := promise(t, "noise=1,adaptive=geometric", 2, nil)
	step(t, r)
	step(t, r)
	var file bytes.Buffer
	if err := r.Save(&file, "x"); err != nil {
		t.Fatal(err)
	}
	again := promise(t, "noise=1,adaptive=geometric", 1, nil)
	if err := again.Load(bytes.NewReader(file.Bytes()), "x"); err != nil {
		t.Fatal(err)
	}
	if a, b := spent(t, r), spent(t, again); a != b || a == 0 {
		t.Errorf("%g was spent, and after a resumption it is %g", a, b)
	}
	again.engine.Ledger = &account.Spent{} // as a file that has lost its lines
	if err := again.CheckLedger(); err == nil {
		t.Error("a ledger that holds less than the checkpoint is taken")
	}
	if again.engine.Stack.Clip == 1 || again.engine.Stack.Clip != r.engine.Stack.Clip {
		t.Errorf("the bound has moved to %g, and after a resumption it is %g", r.engine.Stack.Clip,
			again.engine.Stack.Clip)
	}
}

func TestARoundsBoundIsTheOneItHad(t *testing.T) {
	r := promise(t, "noise=1,adaptive=geometric,clip=0.25", 2, nil)
	for want := 0.25; !r.Done(); want = r.engine.Stack.Clip {
		if ev := step(t, r); ev.Clip != want {
			t.Errorf("round %d had a bound of %g, and tells %g", ev.Round, want, ev.Clip)
		}
	}
}

// A device that has nothing to learn from sends zeros: no other device's vector holds
// its bit, and masks change no bit.
func TestDeviceWithoutTrainingDataSendsZeros(t *testing.T) {
	if testing.Short() {
		t.Skip("slow under the race detector (-short); TestMasksWithoutNoiseChangeNoBit has the same goroutines")
	}
	s := small(t, "temporal")
	digest := map[string]string{}
	for _, secagg := range []string{"off", "on"} {
		m := &methods.FCF{}
		configure(t, m, "dim", "4")
		r := promised(t, m, s, "noise=0.3,adaptive=geometric", 3, func(o *Options) { o.Secagg, o.Rounds = secagg, 3 })
		finish(t, r)
		if r.Idle == 0 {
			t.Fatal("nobody is idle: nothing is shown")
		}
		digest[secagg] = r.Digest()
	}
	if digest["on"] != digest["off"] {
		t.Errorf("%v", digest)
	}
}

func TestImpossiblePoliciesAreRefused(t *testing.T) {
	s := small(t, "fedrecgel")
	o := defaults()
	if err := o.DP.UnmarshalText([]byte("noise=1,metrics=5")); err != nil {
		t.Fatal(err)
	}
	if _, err := New(fedmf(t), s, o, 1, 1); err == nil {
		t.Error("metrics of a protocol without validation items are promised")
	}
	o = defaults()
	if err := o.DP.UnmarshalText([]byte("noise=1,min-devices=5")); err != nil {
		t.Fatal(err)
	}
	cohort("poisson:0.5")(&o)
	if _, err := New(fedmf(t), small(t, "deployed"), o, 1, 1); err == nil {
		t.Error("a least number of devices is promised beside a secret sample")
	}
}

// A crowd too large for the finest grid has the same one with masks and without.
func TestMasksChangeNoBitOfALargeCohort(t *testing.T) {
	if testing.Short() {
		t.Skip("slow under the race detector (-short); TestMasksChangeNoBit has the same goroutines")
	}
	digest := func(secagg string) string {
		o := defaults()
		o.Rounds, o.Secagg = 2, secagg
		if err := o.DP.UnmarshalText([]byte("noise=1,clip=0.5")); err != nil {
			t.Fatal(err)
		}
		world, err := data.NewWorld(data.WorldConfig{Users: 3000, Items: 60, MeanRows: 8, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		p, err := data.ProtocolNamed("deployed")
		if err != nil {
			t.Fatal(err)
		}
		split, err := data.NewSplit(world, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		r := start(t, fedrap(t, "dim", "4"), split, o, 2)
		finish(t, r)
		return r.Digest()
	}
	if digest("off") != digest("assumed") {
		t.Error("masks change the integers that devices send")
	}
}

// Rows that hide the touched ones cost bytes, and change no sum.
func TestCoverCostsBytesAndChangesNothing(t *testing.T) {
	bytes, digest := map[string]int{}, map[string]bool{}
	for _, cover := range []string{"buckets:1", "buckets:2", "decoys:1", "dense"} {
		r := promise(t, "noise=1,cover="+cover, 2, nil)
		for _, ev := range finish(t, r) {
			bytes[cover] += ev.BytesUp
		}
		digest[r.Digest()] = true
	}
	for _, some := range []string{"buckets:2", "decoys:1"} {
		if bytes[some] <= bytes["buckets:1"] || bytes[some] >= bytes["dense"] {
			t.Errorf("%s sends %d bytes, the touched rows have %d and all have %d", some, bytes[some],
				bytes["buckets:1"], bytes["dense"])
		}
	}
	if len(digest) != 1 {
		t.Error("a cover changes the model")
	}
}
