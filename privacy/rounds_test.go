package privacy

import (
	"math"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/privacy/account"
)

// rationed is a run in which everybody is in every round, and rounds have shares.
func rationed(shares ...float64) Run {
	s := Run{
		Method: "m", Sends: true, Users: 6000, Expected: 6000, Sampler: account.None, Q: 1,
		Rounds: len(shares), Mean: "fixed", Step: 1, SplitsBudget: true,
	}
	for t, share := range shares {
		s.PerRound = append(s.PerRound, RoundShare{Numbers: 100 * (t + 1), Share: share})
		s.Numbers = 100 * (t + 1)
	}
	return s
}

// mu is, for delta 1e-6, the root of what the rounds' 1/z² may add up to: Balle and
// Wang's curve, solved with 60 digits elsewhere.
var mu = map[string]float64{"1": 0.2367, "3": 0.6477, "10": 1.848, "20": 3.235}

func TestBudgetSharesAddUpToTheBudget(t *testing.T) {
	for epsilon, want := range mu {
		for _, shares := range [][]float64{{1}, {1, 9}, {0.1, 0.9}, {5, 20, 3, 3, 3, 3}, {1, 1, 1}} {
			k, err := Build(policy(t, "epsilon="+epsilon), rationed(shares...))
			if err != nil {
				t.Fatal(err)
			}
			total, sum, first := 0.0, 0.0, 0.0
			var spent account.Spent
			spent.Options = k.Options()
			for round, share := range shares {
				e, spends, err := k.Spends(round)
				if err != nil || !spends {
					t.Fatal(err, spends)
				}
				if err := spent.Spend(e); err != nil {
					t.Fatal(err)
				}
				z := 1 / (e.Noise * e.Noise)
				if round == 0 {
					first = z / share
				} else if math.Abs(z/share/first-1) > 1e-12 {
					t.Errorf("epsilon %s, shares %v: round %d takes %g of the budget for each part, round 1 %g",
						epsilon, shares, round+1, z/share, first)
				}
				total, sum = total+z, sum+share
				// The noise drawn is at least the noise claimed.
				b := k.Bound(round)
				if drawn := float64(k.NoiseParts(round,
					6000)[0].Deviation) / b.Sensitivity(k.UpdateLength(round)); drawn < e.Noise ||
					drawn > 1.001*e.Noise {
					t.Errorf("epsilon %s, shares %v, round %d: noise of %g times the sensitivity is drawn, and %g "+
						"claimed", epsilon, shares, round+1, drawn, e.Noise)
				}
			}
			if got := math.Sqrt(total); math.Abs(got/want-1) > 5e-4 {
				t.Errorf("epsilon %s, shares %v: mu is %.5f, want %.4f", epsilon, shares, got, want)
			}
			r, err := spent.Epsilon(k.Delta)
			if err != nil || r.Accountant != account.Exact || r.Epsilon > k.Epsilon || r.Epsilon < 0.999*k.Epsilon ||
				r.Epsilon != k.Total.Epsilon {
				t.Errorf("epsilon %s, shares %v: the events cost %v (%v), and %v was planned", epsilon, shares,
					r.Epsilon, err, k.Total.Epsilon)
			}
		}
	}
}

// The number of noises tells nothing: what counts is how many rounds had each.
func TestARoundThatTookAnothersShareIsOffPlan(t *testing.T) {
	k, err := Build(policy(t, "epsilon=10"), rationed(1, 9, 1))
	if err != nil {
		t.Fatal(err)
	}
	event := func(round int) account.Event {
		e, _, err := k.Spends(round)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	count, gram := event(0), event(1)
	twice := count
	twice.Rounds = 2
	for _, c := range []struct {
		round  int
		events []account.Event
		want   bool
	}{
		{0, nil, true},
		{1, []account.Event{count}, true},
		{1, []account.Event{gram}, false},
		{2, []account.Event{count, gram}, true},
		{2, []account.Event{twice, gram}, false},
		{3, []account.Event{twice, gram}, true},
	} {
		if got := k.OnPlan(c.round, 0, c.events); got != c.want {
			t.Errorf("before round %d, after %v: on plan is %t, want %t", c.round+1, c.events, got, c.want)
		}
	}
	if worst, err := k.Costliest(); err != nil || worst != gram {
		t.Errorf("the costliest release is %v (%v), want %v", worst, err, gram)
	}
}

func TestEqualSharesChangeNothing(t *testing.T) {
	with := rationed(1, 1, 1)
	for i := range with.PerRound {
		with.PerRound[i].Numbers = with.Numbers
	}
	with.SplitsBudget = false
	without := with
	without.PerRound = nil
	for _, text := range []string{
		"epsilon=8", "noise=2", "epsilon=8,adaptive=geometric",
		"epsilon=9,trust=local,mechanism=laplace",
	} {
		a, err := Build(policy(t, text), with)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Build(policy(t, text), without)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 3 {
			if *a.at(round) != *b.at(round) || a.Noise != b.Noise || a.Total.Epsilon != b.Total.Epsilon {
				t.Errorf("%s, round %d: %+v, without rations %+v", text, round+1, *a.at(round), *b.at(round))
			}
		}
	}
}

func TestRefusesInvalidBudgetShares(t *testing.T) {
	for want, change := range map[string]func(*Run){
		"share":               func(s *Run) { s.PerRound[1].Share = 0 },
		"must be above 0":     func(s *Run) { s.PerRound[0].Share = math.NaN() },
		"numbers":             func(s *Run) { s.PerRound[1].Numbers = 0 },
		"shares for":          func(s *Run) { s.Rounds = 7 },
		"send the same slots": func(s *Run) { s.Epoch = 2 },
	} {
		s := rationed(1, 2)
		change(&s)
		text := "epsilon=3"
		if s.Epoch > 0 {
			text += ",mechanism=tree"
		}
		if _, err := Build(policy(t, text), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// A row whose places are scattered is sealed as the same row written out.
func TestScatteredNumbersCountAsOneRow(t *testing.T) {
	b := Bound{Clip: 1, Levels: 1 << 16, RowClip: 0.8}
	scattered, whole := Delta{BitAt: 11}, Delta{BitAt: 11}
	scattered.Add([]float32{0.5, -2, 0.25}, 1, []uint32{0, 4, 9})
	whole.Add([]float32{0.5, 0, 0, 0, -2, 0, 0, 0, 0, 0.25}, 1, nil)
	x, y := make([]int64, 12), make([]int64, 12)
	n, _ := b.Encode(&scattered, x)
	m, _ := b.Encode(&whole, y)
	for i := range x {
		if x[i] != y[i] || n != m {
			t.Fatalf("scattered: %v of length %g, written out: %v of length %g", x, n, y, m)
		}
	}
	if x[5] == 0 {
		t.Error("nothing was sealed")
	}
}
