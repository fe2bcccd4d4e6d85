package device

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy/account"
)

// Everything that the cost of a report depends on is the same for all runs of a budget period: two plans that split
// the budget between their rounds in another way would cost more than either.
func TestPlanOfABudgetPeriodIsFixed(t *testing.T) {
	describe := func(set ...string) (*Guarantee, []account.Event) {
		v, k := sharesPlan(t, sharesPolicy, set...)
		g, err := v.describe(&pb.Manifest{BudgetPeriod: 1, RunInPeriod: 1})
		if err != nil {
			t.Fatal(err)
		}
		var all []account.Event
		for i := range k.Rounds {
			e, _, err := k.Spends(i)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		return g, all
	}
	old, first := describe("grad-share", "0.01")
	other, second := describe("grad-share", "0.99")
	for i := range first {
		if second[i].Noise < first[i].Noise {
			first[i] = second[i]
		}
	}
	r, err := account.Epsilon(old.Delta, account.Options{}, first...)
	if err != nil || r.Epsilon < 1.2*old.Epsilon {
		t.Fatalf("the mixture costs epsilon %.3g, each plan %.3g (%v)", r.Epsilon, old.Epsilon, err)
	}
	s := spending{Guarantee: old}
	for want, change := range map[string]func(g *Guarantee){
		"":                   func(*Guarantee) {},
		"parameters changed": func(g *Guarantee) { g.Params = other.Params },
		"method":             func(g *Guarantee) { g.Method = "fedmf" },
		"devices":            func(g *Guarantee) { g.Devices++ },
		"cohort":             func(g *Guarantee) { g.Cohort = "3" },
		"masks":              func(g *Guarantee) { g.Masked = false },
		"step size":          func(g *Guarantee) { g.ServerRate = 9 },
		"policy":             func(g *Guarantee) { g.Policy = "none" },
		"evaluations":        func(g *Guarantee) { g.Evaluations++ },
	} {
		g := *old
		change(&g)
		err := s.checkPlan(&g)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
		if g.Period++; s.checkPlan(&g) != nil {
			t.Errorf("%q is refused after a reset", want)
		}
	}
}

// The tally adds up policies with different adjacencies, keeps its epsilon if a policy ends, and says which rounds
// have none.
func TestTallyOfSeveralPolicies(t *testing.T) {
	f, members := start(t, "pfedrec", 20, "dim", "4")
	f.idle = true
	step := func() Tally {
		t.Helper()
		f.publish()
		if _, err := members[0].open().Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		about, err := members[0].open().About()
		if err != nil {
			t.Fatal(err)
		}
		return about.Tally
	}
	next := func(number uint32, policy, cohort string, rounds uint32) Tally {
		t.Helper()
		f.run, f.round, f.period = []byte{byte(number), 15: 0}, 0, number
		f.edit = func(m *pb.Manifest) { m.RunNumber, m.RunInPeriod = number, 1 }
		if f.spec.Policy = "none"; policy != "none" {
			f.protect(policy, cohort)
		}
		f.spec.Rounds, f.plan.Rounds = 50, 50
		step()
		f.round = rounds
		return step()
	}
	a := next(1, "epsilon=2", "all", 50) // zero-out
	b := next(2, "epsilon=2", "10", 50)  // replace-one
	c := next(3, "none", "", 7)
	if !(a.Epsilon > 1.9) || math.Abs(b.Epsilon-2*a.Epsilon) > 0.2 || b.Delta != 2*a.Delta || b.Incomplete {
		t.Errorf("epsilon %g after 1 policy, %g after 2: %+v", a.Epsilon, b.Epsilon, b)
	}
	if c.Epsilon != b.Epsilon || c.Unprotected != 7 || c.Rounds != 107 || c.Incomplete {
		t.Errorf("after rounds without a policy: %+v", c)
	}
	about, err := members[0].open().About()
	if err != nil {
		t.Fatal(err)
	}
	last := about.Log[len(about.Log)-1]
	if !strings.Contains(last.Reason, "changes from epsilon=2 to none") ||
		!strings.Contains(last.Reason, "no privacy guarantee") {
		t.Errorf("the log says %q", last.Reason)
	}
}

// A device that missed rounds which were rolled back says that its tally is incomplete.
func TestTallyAfterAMissedRollback(t *testing.T) {
	for _, missed := range []bool{false, true} {
		f, members := start(t, "pfedrec", 1, "dim", "4")
		f.protect("epsilon=2", "all")
		f.idle = true
		step := func() {
			t.Helper()
			f.publish()
			if _, err := members[0].open().Step(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		step()
		f.round = 10
		step()
		f.rollbacks, f.round = 1, 0
		if !missed {
			step()
		} else {
			f.publish()
		}
		f.round = 10
		step()
		about, err := members[0].open().About()
		rounds := 20
		if missed {
			rounds = 10
		}
		if err != nil || about.Tally.Incomplete != missed || about.Tally.Rounds != rounds {
			t.Errorf("missed %t: %+v, %v", missed, about.Tally, err)
		}
	}
}

// A device counts each tree once, in which its reports may be: whichever versions it adopts, and however many runs
// it misses.
func TestTallyOfTrees(t *testing.T) {
	const epoch, rounds = 4, 10
	f := newFake(t, "fedmf", 20)
	f.spec.ReportEvery, f.spec.Rounds = epoch, rounds
	k := f.protect("epsilon=2,delta=1e-5,mechanism=tree", "checkin:5/4")
	manifest := func(i int) *pb.Manifest { // after i rounds of all runs
		run, round := i/rounds, i%rounds
		return &pb.Manifest{
			Version: uint64(i) + 1, Run: []byte{byte(run), 15: 0}, RunNumber: uint32(run) + 1, Round: uint32(round),
			BudgetPeriod: 1, RunInPeriod: uint32(run) + 1,
		}
	}
	for first := range rounds {
		for _, every := range []int{1, 2, 3, 5, 7, 23} { // rounds between two versions that the device adopts
			s, old := spending{}, (*pb.Manifest)(nil)
			last := first
			for i := first; i <= first+23; i += every {
				m := manifest(i)
				s.adopt(old, m, &Guarantee{}, k)
				old, last = m, i
			}
			trees := map[[2]int]bool{}
			if first%epoch != 0 { // it may join the tree that has started
				trees[[2]int{0, first / epoch}] = true
			}
			for i := first; i < last; i++ {
				trees[[2]int{i / rounds, i % rounds / epoch}] = true
			}
			counted := int64(0)
			for _, e := range s.Tally.Events {
				counted += e.Rounds
			}
			if total := s.total(); counted != int64(len(trees)) || total.Rounds != last-first || total.Incomplete {
				t.Errorf("from round %d, every %d: %d trees, want %d: %+v", first, every, counted, len(trees), total)
			}
		}
	}
	s := spending{}
	s.adopt(nil, manifest(0), &Guarantee{}, k)
	for i := 1; i < rounds; i++ {
		s.adopt(manifest(i-1), manifest(i), &Guarantee{}, k)
	}
	if is, want := s.total().Epsilon, k.Total.Epsilon; is < 0.9*want || is > 1.1*want {
		t.Errorf("a run of which every version was adopted costs epsilon %g instead of %g", is, want)
	}
}

// The operator may set the noise: then epsilon also limits evaluations.
func TestEvaluationsCountAgainstEpsilon(t *testing.T) {
	f := newFake(t, "pfedrec", 20, "dim", "4")
	f.spec.Policy, f.spec.Cohort, f.spec.Evaluations = "epsilon=8,noise=1,metrics=1", "all", 4
	f.spec.Rounds, f.plan.Rounds = 6, 6
	v := &vetted{spec: f.spec, plan: f.plan}
	k, err := v.guarantee()
	if err != nil {
		t.Fatal(err)
	}
	s, answers := spending{}, 0
	for _, kind := range []pb.Kind{pb.Kind_TRAIN, pb.Kind_EVALUATE} {
		for s.noteReport(&pb.Task{Kind: kind, Run: f.run}, v) == nil {
			answers++
		}
	}
	r, err := account.Epsilon(k.Delta, k.Options(), s.Answered...)
	if err != nil || answers == 0 || r.Epsilon > k.Limit()*(1+1e-6) {
		t.Errorf("%d answers cost epsilon %v of %v (%v)", answers, r.Epsilon, k.Limit(), err)
	}
}

// A privacy policy has a budget period, so that the first period is not a second budget.
func TestAPolicyHasABudgetPeriod(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.protect("epsilon=2", "all")
	f.edit = func(m *pb.Manifest) { m.BudgetPeriod, m.RunInPeriod = 0, 1 }
	if out := f.offer(t, members[0], 0); out.Action == "trained" || !strings.Contains(out.Reason, "budget period") {
		t.Errorf("period 0: %s, %s", out.Action, out.Reason)
	}
}
