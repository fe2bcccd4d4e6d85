package vec

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

const sigmoidBound = 1.2e-7 // as documented

func TestSigmoidIsWithinItsBound(t *testing.T) {
	worst, at := 0.0, float32(0)
	check := func(x float32) {
		got, want := float64(Sigmoid(x)), 1/(1+math.Exp(-float64(x)))
		if !(got >= 0 && got <= 1) {
			t.Fatalf("Sigmoid(%v) is %v, want a number in [0, 1]", x, got)
		}
		if d := math.Abs(got - want); d > worst {
			worst, at = d, x
		}
	}
	const n = 3_000_000
	for i := range n + 1 {
		check(float32(-100 + 200*float64(i)/n))
	}
	for b := uint32(0); b < 0x7f800000; b += 2039 { // every magnitude of a float32
		check(math.Float32frombits(b))
		check(-math.Float32frombits(b))
	}
	for _, x := range []float32{80, 88.7, 89, 100, 104, 1e30, math.MaxFloat32, float32(math.Inf(1))} {
		for _, y := range []float32{x, math.Nextafter32(x, 0), -x, -math.Nextafter32(x, 0)} {
			check(y)
		}
	}
	if worst > sigmoidBound {
		t.Errorf("the error of Sigmoid(%v) is %.3g, want at most %g", at, worst, sigmoidBound)
	}
	t.Logf("largest error %.3g, at %v", worst, at)
}

func TestSigmoidOfNaNIsNaN(t *testing.T) {
	for _, payload := range []uint32{
		0x7fc00000, 0xffc00000, 0x7f800001, 0x7fc00001, 0x7fc00101, 0x7fffffff,
		0xffffffff, 0x7fc001ff,
	} {
		if got := Sigmoid(math.Float32frombits(payload)); got == got {
			t.Errorf("Sigmoid of the NaN %#x is %v, want NaN", payload, got)
		}
	}
}

func TestSigmoidIsOneHalfAtZeroAndSaturates(t *testing.T) {
	inf := float32(math.Inf(1))
	for x, want := range map[float32]float32{0: 0.5, inf: 1, 17: 1, 1e9: 1} {
		if got := Sigmoid(x); got != want {
			t.Errorf("Sigmoid(%v) is %v, want %v", x, got, want)
		}
	}
	if got := Sigmoid(-inf); got > 1e-30 {
		t.Errorf("Sigmoid(-Inf) is %v, want 0 or almost 0", got)
	}
}

func TestSigmoidsAndBCEGradAreSigmoid(t *testing.T) {
	r := rng.New(rng.Test, 20)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for n := range 60 {
		if n >= 40 {
			n += 500 // more than one block
		}
		z := append(random(&r, n), nan, inf, -inf, 0, 200, -200)
		Scale(20, z[:n])
		y, s, g := make([]float32, len(z)), slices.Clone(z), slices.Clone(z)
		for i := range y {
			y[i] = float32(r.Uint32n(2))
		}
		Sigmoids(s)
		BCEGrad(y, 0.125, g)
		for i, x := range z {
			if want := Sigmoid(x); math.Float32bits(s[i]) != math.Float32bits(want) {
				t.Fatalf("Sigmoids makes %x of %g, Sigmoid %x", s[i], x, want)
			}
			if want := (Sigmoid(x) - y[i]) * 0.125; math.Float32bits(g[i]) != math.Float32bits(want) {
				t.Fatalf("BCEGrad makes %x of %g with label %g, want %x", g[i], x, y[i], want)
			}
		}
	}
}

func TestTopKIsAStableSort(t *testing.T) {
	r := rng.New(rng.Test, 21)
	special := []float32{float32(math.NaN()), float32(math.Inf(-1)), float32(math.Inf(1)), -math.MaxFloat32, 0}
	for k := range 2000 {
		score := make([]float32, r.Uint32n(40))
		for i := range score {
			score[i] = float32(r.Uint32n(1 + uint32(k%12))) // ties; for k%12 = 0 all scores are equal
			if r.Uint32n(5) == 0 {
				score[i] = special[r.Uint32n(uint32(len(special)))]
			}
		}
		var want []uint32
		for i, s := range score {
			if s == s && s != special[1] {
				want = append(want, uint32(i))
			}
		}
		slices.SortStableFunc(want, func(a, b uint32) int { return cmp.Compare(score[b], score[a]) })
		dst := make([]uint32, r.Uint32n(12))
		want = want[:min(len(want), len(dst))]
		if n := TopK(score, dst); !slices.Equal(dst[:n], want) {
			t.Fatalf("the best %d of %v are %v, want %v", len(dst), score, dst[:n], want)
		}
		best, n := make([]float32, len(dst)), 0
		for lo, hi := 0, 0; lo < len(score); lo = hi {
			hi = min(lo+1+int(r.Uint32n(20)), len(score))
			n = TopKNext(score[lo:hi], uint32(lo), n, best, dst)
		}
		if !slices.Equal(dst[:n], want) {
			t.Fatalf("the best %d of the pieces of %v are %v, want %v", len(dst), score, dst[:n], want)
		}
	}
}
