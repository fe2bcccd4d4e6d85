package vec

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// pulled returns two tables of 12 rows, a list of rows and the other arguments of Pull.
func pulled(seed uint64, stride int) (c, d []float32, pos []uint32, s, n, u []float32) {
	r := rng.New(rng.Test, seed)
	norm := func(k int) []float32 {
		out := make([]float32, k)
		for i := range out {
			out[i] = float32(r.Norm())
		}
		return out
	}
	c, d, u = norm(12*stride), norm(12*stride), norm(stride)
	for i := 0; i < len(c); i += 7 {
		c[i] = 0 // the sign of 0 is 0
	}
	for _, p := range []uint32{11, 0, 3, 4, 9} {
		pos = append(pos, p)
		s, n = append(s, float32(r.Norm())), append(n, float32(1+r.Uint32n(4)))
	}
	return c, d, pos, s, n, u
}

func TestPullHasTheBitsOfItsTwin(t *testing.T) {
	for i, stride := range []int{8, 16, 32, 40, 64, 8, 32, 40} {
		k := &PullRates{0.98, 0.3, 0.97, 0.2, 0.013, 0.02, 0.005}
		if i >= 5 {
			k.L2 = 0 // uses a separate kernel
		}
		c, d, pos, s, n, u := pulled(uint64(stride), stride)
		mem := append(append([]float32(nil), c...), d...)
		both(t, "Pull", append(mem, make([]float32, 3*Lanes)...), func(m []float32) {
			var sums [3 * Lanes]float32
			Pull(m[:len(c)], m[len(c):2*len(c)], stride, pos, s, n, u, k, &sums)
			copy(m[2*len(c):], sums[:])
		})
	}
}

// The loss is the sum over rows of s*(c+d).u - n*a/2*|d-c|^2 + n*l1*|c| + n*l2/2*|c|^2, with the
// separation term in both tables; the rows move along its derivative.
func TestPullMatchesFormula(t *testing.T) {
	const stride = 8
	k := &PullRates{0.9, 0.3, 0.8, 0.2, 0.05, 0.04, 0.01}
	c, d, pos, s, n, u := pulled(1, stride)
	oldC, oldD := append([]float32(nil), c...), append([]float32(nil), d...)
	var sums [3 * Lanes]float32
	Pull(c, d, stride, pos, s, n, u, k, &sums)
	touched := map[uint32]int{}
	square, size, power := 0.0, 0.0, 0.0
	for x, p := range pos {
		touched[p] = x
	}
	for i := range oldC {
		x, ok := touched[uint32(i/stride)]
		wantC, wantD := float64(oldC[i]), float64(oldD[i])
		if ok {
			co, do := wantC, wantD
			g, many := float64(s[x])*float64(u[i%stride]), float64(n[x])
			sign := 0.0
			if co != 0 {
				sign = math.Copysign(1, co)
			}
			wantC = 0.9*co - 0.3*(g+many*0.05*(do-co)+many*0.04*sign+many*0.01*co)
			wantD = 0.8*do - 0.2*(g-many*0.05*(do-co))
			square += many * (do - co) * (do - co)
			size += many * math.Abs(co)
			power += many * co * co
		}
		if math.Abs(float64(c[i])-wantC) > 1e-5 || math.Abs(float64(d[i])-wantD) > 1e-5 {
			t.Fatalf("element %d is %g and %g, the formula gives %g and %g", i, c[i], d[i], wantC, wantD)
		}
	}
	gotSquare, gotSize := float64(Sum(sums[:Lanes])), float64(Sum(sums[Lanes:2*Lanes]))
	gotPower := float64(Sum(sums[2*Lanes:]))
	if math.Abs(gotSquare-square) > 1e-4*square || math.Abs(gotSize-size) > 1e-4*size ||
		math.Abs(gotPower-power) > 1e-4*power {
		t.Errorf("the sums are %g and %g, the formula gives %g and %g", gotSquare, gotSize, square, size)
	}
}

func BenchmarkPull(b *testing.B) {
	c, d, u := make([]float32, 500*32), make([]float32, 500*32), make([]float32, 32)
	pos, s, n := make([]uint32, 500), make([]float32, 500), make([]float32, 500)
	for i := range pos {
		pos[i], n[i] = uint32(i), 1
	}
	k, sums := &PullRates{1, 0, 1, 0, 0, 0, 0}, [3 * Lanes]float32{}
	for b.Loop() {
		Pull(c, d, 32, pos, s, n, u, k, &sums)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/row")
}
