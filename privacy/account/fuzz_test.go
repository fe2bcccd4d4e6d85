package account

import (
	"math"
	"testing"
)

// FuzzEpsilon looks for parameters that give NaN, a negative number, a panic, or a
// PLD above RDP.
func FuzzEpsilon(f *testing.F) {
	const slow = uint8(64) // asks for PLD too
	for _, q := range []float64{0, 1, 1e-6, 0.01, 1e-300, 1 - 1e-12, -1, math.NaN()} {
		for _, z := range []float64{0, 1e-300, 1e-3, 0.3, 1, 1e6, 1e300, math.Inf(1), math.NaN()} {
			f.Add(uint8(0), q, z, int64(1000), 1e-6)
			f.Add(uint8(1), q, z, int64(1e9), 1e-12)
		}
	}
	for kind := range uint8(16) {
		f.Add(kind, 0.1, 2.0, int64(10), 1e-5)
		f.Add(kind, 1.0, 2.0, int64(1e9), 0.0)
		f.Add(kind, 1.0, 1e-9, int64(3), 1.0)
		f.Add(kind|slow, 0.1, 3.0, int64(10), 1e-5)
	}
	for _, z := range []float64{0, 0.03, 1e3, 1e200} {
		f.Add(slow, 0.1, z, int64(1e9), 1e-6)
	}
	f.Fuzz(func(t *testing.T, kind uint8, q, z float64, rounds int64, delta float64) {
		mechanisms := []Mechanism{Gaussian, Laplace, Pure, ZCDP, Tree}
		samplers := []Sampler{Poisson, WithoutReplacement, None}
		e := Event{
			Mechanism: Gaussian, Adjacency: ZeroOut, Sampler: samplers[kind%3], Q: q,
			Noise: z, Epsilon: z, Rho: z, Nodes: 3, Rounds: rounds,
		}
		switch e.Sampler {
		case WithoutReplacement:
			e.Adjacency, e.Theorem = ReplaceOne, []int{9, 27, 0}[kind/3%3]
		case None:
			e.Mechanism, e.Q = mechanisms[int(kind/3)%len(mechanisms)], 1
		}
		rdp, err := Epsilon(delta, Options{}, e)
		if err != nil {
			return
		}
		if math.IsNaN(rdp.Epsilon) || rdp.Epsilon < 0 || math.IsNaN(rdp.Order) {
			t.Fatalf("%+v, delta %g: %+v", e, delta, rdp)
		}
		var s Spent
		if err := s.Spend(e); err != nil {
			t.Fatal(err)
		}
		if !math.IsInf(rdp.Epsilon, 1) {
			back, err := s.Delta(rdp.Epsilon)
			if err != nil || math.IsNaN(back.Delta) || back.Delta < 0 || back.Delta > 1 {
				t.Fatalf("%+v: delta of epsilon %g is %+v, %v", e, rdp.Epsilon, back, err)
			}
		}
		if kind&slow == 0 {
			return
		}
		pld, err := Epsilon(delta, Options{Accountant: PLD}, e)
		if err == nil && (math.IsNaN(pld.Epsilon) || pld.Epsilon < 0 || pld.Accountant != Exact &&
			pld.Epsilon > rdp.Epsilon) {
			t.Fatalf("%+v, delta %g: PLD %+v, RDP %+v", e, delta, pld, rdp)
		}
	})
}

// FuzzTree holds the search of a tree against bounds that any answer has.
func FuzzTree(f *testing.F) {
	f.Add(int64(966), int64(6), int64(160))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, steps, participations, separation int64) {
		got, err := TreeOnce(steps, participations, separation)
		if err != nil {
			return
		}
		one, err := TreeOnce(steps, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if k := float64(participations); got > k*k*one || k >= 1 && got < one {
			t.Fatalf("%d steps, %d participations, separation %d: %g, and one participation is %g", steps,
				participations, separation, got, one)
		}
	})
}

func BenchmarkRDP(b *testing.B) {
	for name, e := range map[string]Event{
		"poisson": sgm(0.01, 1, 1000), "wor": wor(0.01, 1, 1000),
		"wor-8": wor(0.01, 8, 1000),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Epsilon(1e-6, Options{}, e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPLD(b *testing.B) {
	for name, e := range map[string]Event{
		"few": sgm(0.01, 1, 1000), "many": sgm(0.001, 0.8, 1e6),
		"tiny-q": sgm(1e-5, 1, 1000),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Epsilon(1e-6, Options{Accountant: PLD}, e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSpendARound(b *testing.B) {
	var s Spent
	for b.Loop() {
		if err := s.Spend(sgm(0.01, 1, 1)); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Epsilon(1e-6); err != nil {
			b.Fatal(err)
		}
	}
}
