package vec

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

func TestNetworkKernelsHaveTheBitsOfTheirTwins(t *testing.T) {
	r := rng.New(rng.Test, 90)
	for trial := range 400 {
		n, off := 1+int(r.Uint32n(70)), int(r.Uint32n(4)) // off makes the slices unaligned
		mem := make([]float32, off+7*n+1)
		fillRows(&r, mem, trial%3 == 0)
		Scale([]float32{1, 30}[trial%2], mem[off:off+n])
		part := func(m []float32, i int) []float32 { return m[off+i*n : off+(i+1)*n] }
		both(t, "Max", mem, func(m []float32) { m[len(m)-1] = Max(part(m, 0)) })
		both(t, "Exps", mem, func(m []float32) { m[len(m)-1] = Exps(0.3, 0.7, part(m, 0)) })
		both(t, "Softmax", mem, func(m []float32) {
			top, sum := Softmax(0.7, part(m, 0))
			m[len(m)-1] = top + sum
		})
		both(t, "SoftmaxBack", mem, func(m []float32) { SoftmaxBack(0.7, part(m, 0), part(m, 1)) })
		both(t, "Gelu", mem, func(m []float32) { Gelu(part(m, 0), part(m, 1)) })
		both(t, "GeluBack", mem, func(m []float32) { GeluBack(part(m, 0), part(m, 1)) })
		both(t, "Mul", mem, func(m []float32) { Mul(part(m, 0), part(m, 1)) })
		both(t, "MulAdd", mem, func(m []float32) { MulAdd(part(m, 0), part(m, 1), part(m, 2)) })
		both(t, "Decay", mem, func(m []float32) { Decay(0.9, part(m, 0), part(m, 1), part(m, 2)) })
		both(t, "LayerNorm", mem, func(m []float32) {
			m[len(m)-1] = LayerNorm(part(m, 0), part(m, 1), part(m, 2), part(m, 3), part(m, 4))
		})
		both(t, "LayerNormBack", mem, func(m []float32) {
			LayerNormBack(part(m, 0), part(m, 1), 0.9, part(m, 2), part(m, 3), part(m, 4), part(m, 5))
		})
	}
}

func TestExpIsWithinItsBound(t *testing.T) {
	near, far := 0.0, 0.0
	for i := range 2_000_001 {
		x := float32(-80 + 160*float64(i)/2_000_000)
		want := math.Exp(float64(x))
		d := math.Abs(float64(Exp(x))-want) / want
		far = max(far, d)
		if x > -1 && x < 1 {
			near = max(near, d)
		}
	}
	if near > 2e-7 || far > 6e-6 {
		t.Errorf("the relative error of Exp is %.3g between -1 and 1, and %.3g elsewhere", near, far)
	}
	if x := Exp(float32(math.NaN())); x == x {
		t.Errorf("Exp(NaN) is %v, want NaN", x)
	}
	inf := float32(math.Inf(1))
	if Exp(0) != 1 || Exp(inf) != Exp(80) || Exp(-inf) != Exp(-80) {
		t.Errorf("Exp of 0, +Inf and -Inf is %g, %g and %g", Exp(0), Exp(inf), Exp(-inf))
	}
}

// differs reports whether a float32 result is further from its float64 reference than rounding
// explains.
func differs(got float32, want float64) bool {
	return math.Abs(float64(got)-want) > 3e-5*(1+math.Abs(want))
}

func TestSoftmaxAndItsGradientMatchFloat64(t *testing.T) {
	r := rng.New(rng.Test, 91)
	for n := 1; n < 40; n++ {
		z, dp := random(&r, n), random(&r, n)
		const scale = 0.6
		p, total := make([]float64, n), 0.0
		for i, x := range z {
			p[i] = math.Exp(scale * float64(x))
			total += p[i]
		}
		mean := 0.0
		for i := range p {
			p[i] /= total
			mean += p[i] * float64(dp[i])
		}
		want := make([]float64, n)
		for i := range p {
			want[i] = scale * p[i] * (float64(dp[i]) - mean)
		}
		top, sum := Softmax(scale, z)
		if got := scale*float64(top) + math.Log(float64(sum)); math.Abs(got-math.Log(total)) > 1e-5 {
			t.Fatalf("n %d: the logarithm of the constant is %g, want %g", n, got, math.Log(total))
		}
		SoftmaxBack(scale, z, dp)
		for i := range p {
			if differs(z[i], p[i]) || differs(dp[i], want[i]) {
				t.Fatalf("n %d, element %d: %g with gradient %g, want %g and %g", n, i, z[i], dp[i], p[i], want[i])
			}
		}
	}
}

func TestGeluAndItsDerivativeMatchFloat64(t *testing.T) {
	gelu := func(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) }
	for i := range 401 {
		x := float32(i-200) / 20
		out, d := []float32{x}, []float32{2}
		Gelu(out, out)
		GeluBack([]float32{x}, d)
		slope := (gelu(float64(x)+1e-5) - gelu(float64(x)-1e-5)) / 2e-5
		if differs(out[0], gelu(float64(x))) || differs(d[0], 2*slope) {
			t.Fatalf("at %g: %g with gradient %g, want %g and %g", x, out[0], d[0], gelu(float64(x)), 2*slope)
		}
	}
}

// layerNorm64 returns dy . LayerNorm(x) in float64.
func layerNorm64(x, gain, offset, dy []float64) float64 {
	mean, variance := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	out := 0.0
	for i, v := range x {
		out += dy[i] * ((v-mean)/math.Sqrt(variance+1e-5)*gain[i] + offset[i])
	}
	return out
}

func wider(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func TestLayerNormAndItsGradientMatchFloat64(t *testing.T) {
	r := rng.New(rng.Test, 92)
	for _, n := range []int{2, 5, 8, 24, 64, 67} {
		x, gain, offset, dy := random(&r, n), random(&r, n), random(&r, n), random(&r, n)
		at := [3][]float64{wider(x), wider(gain), wider(offset)}
		dy64 := wider(dy)
		norm, y := make([]float32, n), make([]float32, n)
		factor := LayerNorm(x, gain, offset, norm, y)
		if got, want := Dot(dy, y), layerNorm64(at[0], at[1], at[2], dy64); differs(got, want) {
			t.Fatalf("width %d: dy . y is %g, want %g", n, got, want)
		}
		var got [3][]float32
		for k := range got {
			got[k] = random(&r, n)
		}
		before := [3][]float64{wider(got[0]), wider(got[1]), wider(got[2])}
		LayerNormBack(norm, gain, factor, dy, got[1], got[2], got[0])
		for k := range got {
			for i := range n {
				const step = 1e-6
				was := at[k][i]
				at[k][i] = was + step
				up := layerNorm64(at[0], at[1], at[2], dy64)
				at[k][i] = was - step
				down := layerNorm64(at[0], at[1], at[2], dy64)
				at[k][i] = was
				want := before[k][i] + (up-down)/(2*step)
				if math.Abs(float64(got[k][i])-want) > 1e-4*(1+math.Abs(want)) {
					t.Fatalf("width %d: gradient %d of element %d is %g, want %g", n, k, i, got[k][i], want)
				}
			}
		}
	}
}

func TestMaxIgnoresNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		x    []float32
		want float32
	}{
		{nil, inf},
		{[]float32{nan}, inf},
		{[]float32{nan, -3, nan, -5}, -3},
		{[]float32{1, 2, 3, 4, 5, 6, 7, 9, nan, 8}, 9},
	} {
		if got := Max(c.x); got != c.want {
			t.Errorf("Max(%v) is %v, want %v", c.x, got, c.want)
		}
	}
}

func BenchmarkSoftmax(b *testing.B) {
	z := make([]float32, 513)
	for b.Loop() {
		for i := range z {
			z[i] = float32(i % 13)
		}
		Softmax(1, z)
	}
}

func BenchmarkGelu(b *testing.B) {
	x := make([]float32, 128)
	y := make([]float32, 128)
	for b.Loop() {
		Gelu(x, y)
		GeluBack(x, y)
	}
}

func BenchmarkLayerNorm(b *testing.B) {
	x, y, norm, gain := make([]float32, 64), make([]float32, 64), make([]float32, 64), make([]float32, 64)
	for i := range x {
		x[i], gain[i] = float32(i%5), 1
	}
	for b.Loop() {
		f := LayerNorm(x, gain, x, norm, y)
		LayerNormBack(norm, gain, f, y, x, x, norm)
	}
}
