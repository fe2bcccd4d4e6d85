package vec

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// strides lists the row widths under test: below, at and above the width with a specialised
// kernel, and with every remainder mod four blocks.
var strides = []int{8, 16, 24, 32, 40, 48, 64, 72, 96, 128}

func random(r *rng.Rand, n int) []float32 {
	xs := make([]float32, n)
	for i := range xs {
		xs[i] = float32(r.Norm())
	}
	return xs
}

// picks draws n rows below m, with repetitions.
func picks(r *rng.Rand, n, m int) []uint32 {
	xs := make([]uint32, n)
	for i := range xs {
		xs[i] = r.Uint32n(uint32(m))
		if r.Uint32n(4) == 0 {
			xs[i] %= 3
		}
	}
	return xs
}

// near reports whether got equals want up to the rounding of sums whose terms have magnitudes
// that add up to size.
func near(got float32, want, size float64) bool {
	return math.Abs(float64(got)-want) <= 4e-7*size+1e-30
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %x, want %x", what, i, got[i], want[i])
		}
	}
}

// kernelCase is a random arena with a batch of row numbers and weights.
type kernelCase struct {
	name   string
	stride int
	rows   int
	arena  []float32
	rd     []uint32
	g, v   []float32
}

// eachCase calls f with random shapes: every stride, empty and odd batches, and batches with
// repeated rows.
func eachCase(f func(c *kernelCase)) {
	r := rng.New(rng.Test)
	for _, stride := range strides {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 31, 100} {
			c := &kernelCase{name: fmt.Sprintf("stride %d, batch of %d", stride, n), stride: stride, rows: 4 +
				int(r.Uint32n(40))}
			c.arena = random(&r, c.rows*stride)
			c.rd, c.g, c.v = picks(&r, n, c.rows), random(&r, n), random(&r, stride)
			f(c)
		}
	}
}

func (c *kernelCase) at(x, l int) float64 { return float64(c.arena[int(c.rd[x])*c.stride+l]) }

func TestDotsAreTheSumsOfProducts(t *testing.T) {
	eachCase(func(c *kernelCase) {
		dst := random(&rng.Rand{}, len(c.rd))
		Dots(c.arena, c.stride, c.rd, c.v, 0.25, dst)
		for x := range dst {
			want, size := 0.25, 0.25
			for l, v := range c.v {
				want += c.at(x, l) * float64(v)
				size += math.Abs(c.at(x, l) * float64(v))
			}
			if !near(dst[x], want, size) {
				t.Fatalf("%s: dot %d is %g, want %g", c.name, x, dst[x], want)
			}
		}
	})
}

func TestDotsAllIsDotsOfEveryRowAndDot(t *testing.T) {
	eachCase(func(c *kernelCase) {
		all := make([]uint32, c.rows)
		for i := range all {
			all[i] = uint32(i)
		}
		got, want, one := make([]float32, c.rows), make([]float32, c.rows), make([]float32, c.rows)
		DotsAll(c.arena, c.stride, c.v, 3, got)
		Dots(c.arena, c.stride, all, c.v, 3, want)
		for i := range one {
			one[i] = Dot(c.arena[i*c.stride:(i+1)*c.stride], c.v) + 3
		}
		sameBits(t, c.name+": DotsAll against Dots", got, want)
		sameBits(t, c.name+": Dot against Dots", one, want)
		DotsAll(c.arena, c.stride, c.v, 3, got[:0])
	})
}

func TestWSumAddsTheWeightedRows(t *testing.T) {
	eachCase(func(c *kernelCase) {
		before := random(&rng.Rand{}, c.stride)
		dst := slices.Clone(before)
		WSum(c.arena, c.stride, c.rd, c.g, dst)
		for l := range dst {
			want := float64(before[l])
			size := math.Abs(want)
			for x := range c.rd {
				want += c.at(x, l) * float64(c.g[x])
				size += math.Abs(c.at(x, l) * float64(c.g[x]))
			}
			if !near(dst[l], want, size) {
				t.Fatalf("%s: element %d is %g, want %g", c.name, l, dst[l], want)
			}
		}
	})
}

func TestScatUpdatesEveryListedRow(t *testing.T) {
	eachCase(func(c *kernelCase) {
		want, size := make([]float64, len(c.arena)), make([]float64, len(c.arena))
		for i, a := range c.arena {
			want[i], size[i] = float64(a), math.Abs(float64(a))
		}
		for x, r := range c.rd {
			for l, v := range c.v {
				want[int(r)*c.stride+l] -= float64(c.g[x]) * float64(v)
				size[int(r)*c.stride+l] += math.Abs(float64(c.g[x]) * float64(v))
			}
		}
		Scat(c.arena, c.stride, c.rd, c.g, c.v)
		for i, got := range c.arena {
			if !near(got, want[i], size[i]) {
				t.Fatalf("%s: row %d element %d is %g, want %g", c.name, i/c.stride, i%c.stride, got, want[i])
			}
		}
	})
}

func TestGatherCopiesRows(t *testing.T) {
	eachCase(func(c *kernelCase) {
		arena := slices.Concat(c.arena, make([]float32, len(c.rd)*c.stride))
		Gather(arena, c.stride, c.rd, uint32(c.rows))
		sameBits(t, c.name+": the source", arena[:len(c.arena)], c.arena)
		for k, r := range c.rd {
			sameBits(t, c.name, row(arena, c.stride, uint32(c.rows+k)), row(c.arena, c.stride, r))
		}
	})
}

func TestFoldAddsRowDifferences(t *testing.T) {
	r := rng.New(rng.Test, 2)
	for _, stride := range strides {
		const items = 9
		item := []uint32{7, 0, 3}
		arena := random(&r, (2*items+len(item))*stride) // values, sums and the device's rows
		for _, s := range []float32{1, 0.5, -2} {
			want := make([]float64, len(arena))
			for i, a := range arena {
				want[i] = float64(a)
			}
			for k, it := range item {
				for l := range stride {
					now, base := arena[(2*items+k)*stride+l], arena[int(it)*stride+l]
					want[(items+int(it))*stride+l] += float64(now) - float64(s)*float64(base)
				}
			}
			Fold(arena, stride, item, s, 2*items, items)
			for i, got := range arena {
				if !near(got, want[i], 10) {
					t.Fatalf("stride %d, shrunk by %g: row %d element %d is %g, want %g", stride, s, i/stride, i%stride,
						got, want[i])
				}
			}
		}
	}
}

func TestMergeAddsTheShardsAndClearsThem(t *testing.T) {
	r := rng.New(rng.Test, 3)
	const step, shards, lo, n = 40, 5, 7, 20
	acc, dst := random(&r, step*shards), random(&r, n)
	old, want := slices.Clone(acc), slices.Clone(dst)
	for s := range shards { // in shard order, because the bits depend on it
		for i := range want {
			want[i] += acc[lo+s*step+i]
		}
	}
	Merge(acc[lo:], step, shards, dst)
	sameBits(t, "sum", dst, want)
	for i, a := range acc {
		if in := i >= lo && (i-lo)%step < n; in && a != 0 || !in && a != old[i] {
			t.Fatalf("element %d of the shards is %g after the merge, and was %g", i, a, old[i])
		}
	}
	Merge(acc[lo:], step, shards, dst)
	sameBits(t, "sum with nothing new", dst, want)
	Merge(nil, step, 0, dst)
	Merge(acc, step, shards, nil)
}

func TestElementwiseKernelsAreTheirFormulas(t *testing.T) {
	r := rng.New(rng.Test, 4)
	for n := range 70 {
		a, b, d := random(&r, n), random(&r, n), random(&r, n)
		sum, axpy := 0.0, slices.Clone(d)
		Axpy(1.5, a, axpy)
		add, diff, scaled := slices.Clone(d), slices.Clone(d), slices.Clone(d)
		Add(a, add)
		AddDiff(a, b, diff)
		Scale(-3, scaled)
		size := 0.0
		for i := range n {
			x, y, z := float64(a[i]), float64(b[i]), float64(d[i])
			sum, size = sum+x, size+math.Abs(x)
			for what, c := range map[string][2]float64{
				"Axpy": {float64(axpy[i]), z + 1.5*x}, "Add": {float64(add[i]), z + x},
				"AddDiff": {float64(diff[i]), z + x - y}, "Scale": {float64(scaled[i]), -3 * z},
			} {
				if math.Abs(c[0]-c[1]) > 1e-5 {
					t.Fatalf("%s of %d: element %d is %g, want %g", what, n, i, c[0], c[1])
				}
			}
		}
		if got := Sum(a); !near(got, sum, size) {
			t.Errorf("Sum of %d is %g, want %g", n, got, sum)
		}
		if got := Pad(n); got%Lanes != 0 || got < n || got >= n+Lanes {
			t.Errorf("Pad(%d) is %d, want the next multiple of %d", n, got, Lanes)
		}
	}
}

// The test takes many steps, so that the moments matter.
func TestAdamFollowsItsFormula(t *testing.T) {
	const n, b1, b2, lr, eps = 13, 0.9, 0.999, 0.05, 1e-8
	r := rng.New(rng.Test, 5)
	m, v, x := make([]float32, n), make([]float32, n), random(&r, n)
	var dm, dv, dx [n]float64
	for i := range x {
		dx[i] = float64(x[i])
	}
	for step := 1; step <= 200; step++ {
		g := random(&r, n)
		c1, c2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
		Adam(g, float32(lr*math.Sqrt(c2)/c1), b1, b2, float32(eps*math.Sqrt(c2)), m, v, x)
		for i := range g {
			gi := float64(g[i])
			dm[i], dv[i] = b1*dm[i]+(1-b1)*gi, b2*dv[i]+(1-b2)*gi*gi
			dx[i] -= lr * (dm[i] / c1) / (math.Sqrt(dv[i]/c2) + eps)
			if math.Abs(float64(x[i])-dx[i]) > 1e-4 {
				t.Fatalf("step %d: element %d is %g, want %g", step, i, x[i], dx[i])
			}
		}
	}
	g0, x0 := make([]float32, 1), []float32{2}
	if Adam(g0, 1, b1, b2, 1e-8, make([]float32, 1), make([]float32, 1), x0); x0[0] != 2 {
		t.Errorf("a zero gradient changes 2 to %g", x0[0])
	}
}
