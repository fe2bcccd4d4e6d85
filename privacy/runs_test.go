package privacy

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/privacy/account"
)

// threeRuns are runs of each kind of accounting, three of which share a budget.
func threeRuns(kind string) (text string, s Run) {
	s = Run{
		Method: "m", Sends: true, Users: 6000, Expected: 600, Sampler: account.Poisson, Q: 0.1, Rounds: 7, Numbers: 100,
		Mean: "fixed", Step: 1, Runs: 3,
	}
	switch kind {
	case "fixed":
		s.Sampler = account.WithoutReplacement
	case "shares":
		s = rationed(1, 9, 1, 4)
		s.Runs = 3
		return "epsilon=8", s
	case "tree":
		s.Sampler, s.Q, s.Epoch = account.None, 1, 3 // the last of three trees has one round
		return "epsilon=8,mechanism=tree", s
	case "metrics":
		s.Metrics = 2
		return "epsilon=8,metrics=20", s
	case "distributed":
		s.Sampler, s.Q, s.Masked, s.Drawn = account.None, 1, true, true
		return "epsilon=8,trust=distributed,min-devices=300", s
	}
	return "epsilon=8", s
}

// What the releases of three runs cost, one by one, is what the noise was calibrated for: at most the
// budget, and nearly all of it. Each release is on plan, and none of a fourth run is.
func TestRunsShareTheBudget(t *testing.T) {
	for _, kind := range []string{"poisson", "fixed", "shares", "tree", "metrics", "distributed"} {
		text, s := threeRuns(kind)
		k, err := Build(policy(t, text), s)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		spent := account.Spent{Options: k.Options()}
		for run := range s.Runs + 1 {
			for round := range s.Rounds {
				if on := k.OnPlan(round, 0, spent.Events()); on != (run < s.Runs) {
					t.Fatalf("%s: run %d, round %d: on plan is %t", kind, run+1, round+1, on)
				}
				if run == s.Runs {
					break
				}
				e, spends, err := k.Spends(round)
				if err == nil && spends {
					err = spent.Spend(e)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for range s.Metrics {
				if run == s.Runs {
					break
				}
				if err := spent.Spend(k.MetricEvent()); err != nil {
					t.Fatal(err)
				}
			}
		}
		r, err := spent.Epsilon(k.Delta)
		if err != nil || r.Epsilon > k.Epsilon*(1+1e-9) || r.Epsilon < 0.99*k.Epsilon ||
			math.Abs(r.Epsilon/k.Total.Epsilon-1) > 1e-9 {
			t.Errorf("%s: the releases of %d runs cost %v (%v), and %v of %v was planned", kind, s.Runs, r.Epsilon, err,
				k.Total.Epsilon, k.Epsilon)
		}
		alone := s
		alone.Runs = 1
		one, err := Build(policy(t, text), alone)
		if err != nil {
			t.Fatal(err)
		}
		if one.Noise >= k.Noise {
			t.Errorf("%s: the noise of one run is %v, of three %v", kind, one.Noise, k.Noise)
		}
	}
}

// The accountant's answer for N runs of T Gaussian releases, checked against the exact curve of
// one Gaussian with noise z/sqrt(N*T) (Balle and Wang 2018), and the exact accountant equals it.
func TestRunsAgainstTheExactCurve(t *testing.T) {
	s := rationed(1, 1, 1, 1, 1)
	for _, runs := range []int{1, 4, 365} {
		s.Runs = runs
		k, err := Build(policy(t, "epsilon=8"), s)
		if err != nil {
			t.Fatal(err)
		}
		mu := math.Sqrt(float64(runs*s.Rounds)) / k.Noise
		phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
		delta := phi(mu/2-k.Epsilon/mu) - math.Exp(k.Epsilon)*phi(-mu/2-k.Epsilon/mu)
		if delta > k.Delta*(1+1e-6) || delta < 0.99*k.Delta {
			t.Errorf("%d runs: at epsilon %v the exact delta is %v, and %v was asked for", runs, k.Epsilon, delta,
				k.Delta)
		}
	}
}

// A run that repeats rounds after a roll back leaves the plan, and so does one with other noise.
func TestRunsThatLeaveThePlan(t *testing.T) {
	_, s := threeRuns("poisson")
	k, err := Build(policy(t, "epsilon=8"), s)
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := k.Spends(0)
	if err != nil {
		t.Fatal(err)
	}
	e.Rounds = int64(3*s.Rounds - 1)
	if !k.OnPlan(s.Rounds-1, 0, []account.Event{e}) || k.OnPlan(s.Rounds-2, 0, []account.Event{e}) {
		t.Error("two rounds were left, and three do not fit")
	}
	e.Rounds, e.Noise = 1, e.Noise/2
	if k.OnPlan(1, 0, []account.Event{e}) {
		t.Error("a release with half the noise is on plan")
	}
	s.Runs = -1
	if _, err := Build(policy(t, "epsilon=8"), s); err == nil {
		t.Error("-1 runs are accepted")
	}
}
