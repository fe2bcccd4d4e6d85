package account

import (
	"math"
	"sort"
	"testing"
)

type miscFile struct {
	Tree struct {
		Cases []struct {
			Kind          string
			Noise         float64 `json:"noise_multiplier"`
			Steps         []int64 `json:"steps_list"`
			TotalSteps    int64   `json:"total_steps"`
			Participation int64   `json:"max_participation"`
			Separation    int64   `json:"min_separation"`
			SumSquares    float64 `json:"sum_sq_sensitivity"`
			Orders, RDP   []float64
			Epsilon       float64 `json:"eps_1e-5_improved"`
		}
	} `json:"tree_aggregation"`
	Gaussian struct {
		Cases []struct{ Sigma, Delta, Eps float64 }
	} `json:"analytic_gaussian"`
	Audit struct {
		Cases []struct {
			M, R, V           int
			Delta, Confidence float64
			Lower             float64 `json:"eps_lower"`
			P                 float64 `json:"p_value_at_eps_1"`
		}
	} `json:"one_run_audit"`
}

func TestTreesAreThoseOfTheVectors(t *testing.T) {
	var f miscFile
	vectors(t, "dp_misc.json", &f)
	w := &worst{t: t, what: "tree"}
	var orders []float64
	for a := 11; a < 110; a++ {
		orders = append(orders, float64(a)/10)
	}
	orders = append(orders, integers(12, 256)...)
	for _, c := range f.Tree.Cases {
		nodes, err := TreeRestarts(c.Steps...)
		if c.Kind == "single_tree" {
			nodes, err = TreeOnce(c.TotalSteps, c.Participation, c.Separation)
			if nodes != c.SumSquares {
				t.Errorf("%d steps, %d participations, separation %d: %g, want %g", c.TotalSteps, c.Participation,
					c.Separation, nodes, c.SumSquares)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		e := Event{Mechanism: Tree, Adjacency: ZeroOut, Sampler: None, Noise: c.Noise, Nodes: nodes, Rounds: 1}
		for i, a := range c.Orders {
			got, err := e.RDP(a)
			if err != nil {
				t.Fatal(err)
			}
			w.near(c.Kind, got, c.RDP[i], 1e-12, 0)
		}
		if c.Epsilon > 0 {
			w.near(c.Kind, epsilonOf(t, 1e-5, Options{Orders: orders}, e).Epsilon, c.Epsilon, 1e-9, 0)
		}
	}
	w.log()
}

// bruteTree tries every set of steps.
func bruteTree(steps, participations, separation int) float64 {
	best := 0.0
	for set := range 1 << steps {
		count, last, ok := 0, -separation-1, true
		for i := range steps {
			if set>>i&1 == 1 {
				count++
				ok = ok && i-last > separation
				last = i
			}
		}
		if !ok || count > participations {
			continue
		}
		sum := 0.0
		for size := 1; size <= steps; size *= 2 {
			for from := 0; from+size <= steps; from += size {
				n := 0
				for i := from; i < from+size; i++ {
					n += set >> i & 1
				}
				sum += float64(n * n)
			}
		}
		best = max(best, sum)
	}
	return best
}

func TestTreeOnceAgainstEverySetOfSteps(t *testing.T) {
	for steps := range 13 {
		for participations := range 6 {
			for separation := range 5 {
				got, err := TreeOnce(int64(steps), int64(participations), int64(separation))
				if want := bruteTree(steps, participations, separation); err != nil || got != want {
					t.Errorf("%d steps, %d participations, separation %d: %g (%v), want %g", steps, participations,
						separation, got, err, want)
				}
			}
		}
	}
	if _, err := TreeOnce(1<<40, 1<<30, 1<<20); err == nil {
		t.Error("a tree too large to search is not refused")
	}
}

func TestExactGaussianIsThatOfTheVectors(t *testing.T) {
	var f miscFile
	vectors(t, "dp_misc.json", &f)
	w := &worst{t: t, what: "exact epsilon"}
	for _, c := range f.Gaussian.Cases {
		got, err := GaussianEpsilon(c.Sigma, c.Delta)
		if err != nil {
			t.Fatal(err)
		}
		w.near("gaussian", got, c.Eps, 1e-9, 0)
		// Four releases with twice the noise are one.
		e := Event{Mechanism: Gaussian, Adjacency: AddRemove, Sampler: None, Noise: 2 * c.Sigma, Rounds: 4}
		w.near("composed", epsilonOf(t, c.Delta, Options{Accountant: PLD}, e).Epsilon, c.Eps, 1e-9, 0)
	}
	w.log()
}

func TestExactGaussianAgainstTheIntegral(t *testing.T) {
	for _, sigma := range []float64{0.05, 0.3, 1, 4, 50, 1e4, 1e12} {
		for _, delta := range []float64{0.2, 1e-3, 1e-8, 1e-13, 1e-30, 1e-200} {
			eps, err := GaussianEpsilon(sigma, delta)
			if err != nil {
				t.Fatal(err)
			}
			if eps == 0 {
				continue
			}
			// δ = ∫ φ(t)·(1-e^(ε-l(t))) over l > ε, l = t/σ + 1/2σ².
			from, sum := (eps-1/(2*sigma*sigma))*sigma, 0.0
			const n = 200000
			h := 40 / max(1, from) / n
			for i := range n {
				x := (float64(i) + 0.5) * h
				sum -= math.Exp(-(from+x)*(from+x)/2) * math.Expm1(-x/sigma) * h
			}
			if got := sum / math.Sqrt(2*math.Pi); math.Abs(got-delta) > 1e-6*delta {
				t.Errorf("sigma %g, delta %g: epsilon %g has delta %g by the integral", sigma, delta, eps, got)
			}
		}
	}
}

func TestTheAuditIsThatOfTheVectors(t *testing.T) {
	var f miscFile
	vectors(t, "dp_misc.json", &f)
	lower, p := &worst{t: t, what: "lower bound"}, &worst{t: t, what: "p-value"}
	for _, c := range f.Audit.Cases {
		got, err := AuditLower(c.M, c.R, c.V, c.Delta, c.Confidence)
		if err != nil {
			t.Fatal(err)
		}
		lower.near("audit", got, c.Lower, 1e-6, 1e-9)
		if got, err = AuditP(c.M, c.R, c.V, 1, c.Delta); err != nil {
			t.Fatal(err)
		}
		p.near("audit", got, c.P, 1e-6, 0)
	}
	lower.log()
	p.log()
}

// Randomised response is audited by its own answers: the exact chance that the
// bound stays below the truth.
func TestTheAuditCoversRandomisedResponse(t *testing.T) {
	const r = 1000
	refuted := sort.Search(r, func(v int) bool { // the first count that refutes the truth
		lower, err := AuditLower(r, r, v, 0, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		return lower > 1
	})
	cover := 0.0
	for v := range refuted {
		cover += math.Exp(logChoose(r, v) - float64(v)*softplus(-1) - float64(r-v)*softplus(1))
	}
	if cover < 0.95 || cover > 0.96 {
		t.Errorf("the bound holds with chance %.4f, want just above 0.95", cover)
	}
}

func TestJointQueriesAreOne(t *testing.T) {
	for _, c := range []struct {
		zs   []float64
		want float64
	}{
		{[]float64{1 / math.Sqrt(0.3), 1 / math.Sqrt(0.7)}, 1},
		{[]float64{3, 4}, 2.4},
		{[]float64{1e-200, 1e200}, 1e-200},
		{[]float64{2, math.Inf(1)}, 2},
		{[]float64{1, 0}, 0},
		{nil, math.Inf(1)},
	} {
		if got := Joint(c.zs...); got != c.want && math.Abs(got/c.want-1) > 1e-15 {
			t.Errorf("Joint(%v) is %g, want %g", c.zs, got, c.want)
		}
	}
}
