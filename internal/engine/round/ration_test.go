package round

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
)

// rationed is a run of three rounds with 1, 9 and 2 parts of a budget.
func rationed(t *testing.T, policy string) (*Engine, *bounded) {
	t.Helper()
	const wide, users = 4000, 50
	e, v := guarded(t, policy, "all", users, wide)
	s := e.Stack.Run
	s.Rounds, s.Metrics, s.SplitsBudget, e.Plan.Rounds = 3, 0, true, 3
	for _, share := range []float64{1, 9, 2} {
		s.PerRound = append(s.PerRound, privacy.RoundShare{Numbers: wide, Share: share})
	}
	var err error
	if e.Stack, err = privacy.Build(e.Stack.Policy, s); err != nil {
		t.Fatal(err)
	}
	return e, v
}

// Each round has its own noise, and the ledger the price of it: at the end it is the
// budget, and nothing is left. A sample deviation of 4000 numbers is 6 % off with a
// chance below 1e-6.
func TestEachRoundHasTheNoiseOfItsRation(t *testing.T) {
	e, v := rationed(t, "epsilon=3")
	for round, share := range []float64{1, 9, 2} {
		if ok, err := e.Affords(0, round, min(round+1, 2)); err != nil || !ok {
			t.Fatalf("round %d is not affordable: %v", round+1, err)
		}
		clear(e.Value[0])
		v.rep = Report{Devices: 1, Idle: 49}
		step(t, e)
		square := 0.0
		for _, x := range e.Value[0] {
			square += float64(x) * float64(x) * 50 * 50
		}
		got, want := math.Sqrt(square/float64(len(e.Value[0]))), math.Sqrt(12/share)/0.6477
		if math.Abs(got/want-1) > 0.06 {
			t.Errorf("round %d: noise of deviation %.3f, want %.3f", round+1, got, want)
		}
		if math.Abs(e.noise/want-1) > 0.02 {
			t.Errorf("round %d: the method is told of noise of deviation %.3f, want %.3f", round+1, e.noise, want)
		}
	}
	r, err := account.Epsilon(1e-6, e.Stack.Options(), e.Ledger.Events()...)
	if err != nil || r.Epsilon > 3 || r.Epsilon < 2.999 || len(e.Ledger.Events()) != 3 {
		t.Errorf("the ledger's %d events cost %v (%v), want 3 that cost 3", len(e.Ledger.Events()), r.Epsilon, err)
	}
	if _, err := e.Step(context.Background()); !errors.Is(err, ErrBudgetSpent) {
		t.Errorf("a fourth round: %v, want that the budget is spent", err)
	}
}

// A round that was paid for and lost leaves less than the plan has: the run ends early
// rather than late.
func TestALostRoundIsMissingAtTheEnd(t *testing.T) {
	e, _ := rationed(t, "epsilon=3")
	lost, _, err := e.Stack.Spends(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Ledger.Spend(lost); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for ; steps < 3; steps++ {
		if _, err := e.Step(context.Background()); err != nil {
			if !errors.Is(err, ErrBudgetSpent) {
				t.Fatal(err)
			}
			break
		}
	}
	r, err := account.Epsilon(1e-6, e.Stack.Options(), e.Ledger.Events()...)
	if steps != 2 || err != nil || r.Epsilon > 3 {
		t.Errorf("%d rounds were run for %v (%v), want 2 within 3", steps, r.Epsilon, err)
	}
}

func TestTheNumberOfWorkersChangesNoNoise(t *testing.T) {
	run := func(workers int) []float32 {
		e, _ := rationed(t, "epsilon=3")
		e.Workers = workers
		step(t, e)
		return e.Value[0]
	}
	one, five := run(0), run(5)
	for i := range one {
		if math.Float32bits(one[i]) != math.Float32bits(five[i]) {
			t.Fatalf("place %d is %g with one worker, %g with five", i, one[i], five[i])
		}
	}
}
