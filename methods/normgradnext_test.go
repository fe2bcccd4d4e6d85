package methods_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/methods"
)

// Without a gradient for next items the update is that of norm-grad, up to rounding.
func TestNormGradNextWithoutNextItemsIsNormGrad(t *testing.T) {
	const items = 40
	train := []uint32{1, 30, 2, 19, 4, 7, 8, 22}
	_, want := newDevice(t, with(t, &methods.NormGrad{}, "dim=5"), items, 1).send(train, 1, 0)
	for next, same := range map[string]bool{"next=0": true, "next=0.5": false} {
		_, got := newDevice(t, with(t, &methods.NormGradNext{}, "dim=5", next), items, 1).send(train, 1, 0)
		far := 0.0
		for i := range want {
			far = math.Max(far, math.Abs(float64(got[i]-want[i])))
		}
		if near := far <= 4; near != same {
			t.Errorf("%s: a number differs by %g of %d from that of norm-grad, want equal: %v", next, far, 1<<20, same)
		}
	}
}

// The update for next items is the sum of (y - p.q) p, at unit norm: the reference has two
// items, one position and no negatives that it could choose from.
func TestNormGradNextPredictsWhatFollows(t *testing.T) {
	const items = 40
	m := with(t, &methods.NormGradNext{}, "dim=5", "next=1", "cuts=1", "window=1").(*methods.NormGradNext)
	l := newDevice(t, m, items, 1)
	_, got := l.send([]uint32{3, 17}, 1, 0)
	rows, stride := l.mem.Value(0), 8
	gradient := func(i int) []float64 {
		out := make([]float64, m.Dim)
		for k := range out {
			out[k] = float64(got[i*m.Dim+k])
		}
		return out
	}
	cosine := func(a []float64, b []float32) float64 {
		ab, aa, bb := 0.0, 0.0, 0.0
		for k := range a {
			ab, aa, bb = ab+a[k]*float64(b[k]), aa+a[k]*a[k], bb+float64(b[k])*float64(b[k])
		}
		return ab / math.Sqrt(aa*bb)
	}
	// With one row q the solution of (a0 I + w q q' + r I) p = w q is parallel to q, because
	// newDevice sets the Gram matrix to I.
	if c := cosine(gradient(17), rows[3*stride:][:m.Dim]); math.Abs(math.Abs(c)-1) > 1e-3 {
		t.Errorf("the gradient of the second item and the row of the first have the cosine %g, want 1 or -1", c)
	}
	if slices.ContainsFunc(gradient(3), func(x float64) bool { return x != 0 }) {
		t.Errorf("the gradient of the first item is %v, want 0: nothing precedes it", gradient(3))
	}
}

// The rounds of the methods whose updates have norm 1 compose to one Gaussian release: with
// mu = sqrt(sum 1/z²), delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)
// (Balle and Wang 2018, theorem 8). This is computed here from the noise of each round.
func TestComposedEpsilonMatchesTheGaussianFormula(t *testing.T) {
	const epsilon, delta, rounds = 3, 1e-4, 5
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for name, m := range budgeted(t) {
		r, err := budgetRun(t, smallWorld(t), m, "epsilon=3,delta=1e-4", rounds, 1)
		if err != nil {
			t.Fatal(err)
		}
		square := 0.0
		for round := range rounds {
			event, spends, err := r.Stack().Spends(round)
			if err != nil || !spends {
				t.Fatalf("%s: round %d spends nothing (%v)", name, round+1, err)
			}
			square += 1 / (event.Noise * event.Noise)
		}
		mu := math.Sqrt(square)
		got := phi(mu/2-epsilon/mu) - math.Exp(epsilon)*phi(-mu/2-epsilon/mu)
		if got > delta*(1+1e-6) || got < 0.99*delta {
			t.Errorf("%s: at epsilon %v the rounds have delta %g, want %g", name, float64(epsilon), got, delta)
		}
	}
}
