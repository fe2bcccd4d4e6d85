package vec

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// twins runs f with the kernels of this machine, then without AVX-512 if it has it, then without
// SIMD. f must compare its results with those of the first call.
func twins(f func(how string)) {
	fast, was := simd, wide
	defer func() { simd, wide = fast, was }()
	f("with the widest SIMD")
	if wide {
		wide = false
		f("with AVX2")
	}
	simd = false
	f("without SIMD")
}

// both runs f with and without the SIMD kernels on copies of the same memory, and compares every
// bit.
func both(t *testing.T, what string, mem []float32, f func(mem []float32)) {
	t.Helper()
	if !simd {
		t.Skip("this build or machine has no SIMD kernels to compare")
	}
	var first []float32
	twins(func(how string) {
		now := append([]float32(nil), mem...)
		f(now)
		if first == nil {
			first = now
		}
		for i, y := range now {
			x := first[i]
			a, b := math.Float32bits(x), math.Float32bits(y)
			if a != b && !(x != x && y != y) {
				t.Fatalf("%s: element %d is %x (%g) with the widest SIMD, %x (%g) %s", what, i, a, x, b, y, how)
			}
		}
	})
}

// strange32 lists numbers that break careless kernels.
var strange32 = []float32{
	0, float32(math.Copysign(0, -1)), 1e-45, -1e-45, 1e-39, math.MaxFloat32, -math.MaxFloat32,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 88, -88, 1, -1, 1e30,
}

func fillRows(r *rng.Rand, xs []float32, strange bool) {
	for i := range xs {
		xs[i] = float32(r.Norm())
		if strange && r.Uint32n(6) == 0 {
			xs[i] = strange32[r.Uint32n(uint32(len(strange32)))]
		}
	}
}

func TestSIMDGivesTheBitsOfItsTwin(t *testing.T) {
	r := rng.New(rng.Test, 77)
	for trial := range 400 {
		stride := []int{8, 16, 24, 32, 32, 32, 40, 64, 64, 128}[r.Uint32n(10)]
		n, off := int(r.Uint32n(40)), int(r.Uint32n(4)) // off makes the slices unaligned
		const count = 23
		mem := make([]float32, off+count*stride+2*stride+3*64)
		fillRows(&r, mem, trial%3 == 0)
		rd := make([]uint32, n)
		for x := range rd {
			rd[x] = r.Uint32n(count)
		}
		part := func(m []float32) (arena, v, acc, g, y, z []float32) {
			m = m[off:]
			arena, m = m[:count*stride], m[count*stride:]
			v, m = m[:stride], m[stride:]
			acc, m = m[:stride], m[stride:]
			return arena, v, acc, m[:n], m[64 : 64+n], m[128 : 128+n]
		}
		both(t, "Dots", mem, func(m []float32) { a, v, _, _, _, z := part(m); Dots(a, stride, rd, v, 0.25, z) })
		both(t, "DotsAll", mem, func(m []float32) {
			a, v, _, _, _, z := part(m)
			DotsAll(a, stride, v, 0.25,
				z[:min(n, count)])
		})
		both(t, "WSum", mem, func(m []float32) { a, _, acc, g, _, _ := part(m); WSum(a, stride, rd, g, acc) })
		both(t, "Scat", mem, func(m []float32) { a, v, _, g, _, _ := part(m); Scat(a, stride, rd, g, v) })
		both(t, "Spread", mem, func(m []float32) { a, v, _, g, _, _ := part(m); Spread(a, stride, rd, g, v) })
		both(t, "BCEGrad", mem, func(m []float32) { _, _, _, _, y, z := part(m); BCEGrad(y, 0.3, z) })
		both(t, "Axpy", mem, func(m []float32) { _, _, _, g, _, z := part(m); Axpy(0.7, g, z) })
		both(t, "Add", mem, func(m []float32) { _, _, _, g, _, z := part(m); Add(g, z) })
		both(t, "Sum", mem, func(m []float32) { _, _, _, g, _, z := part(m); m[0] = Sum(g) + Sum(z) })
		both(t, "Gather", mem, func(m []float32) { a, _, _, _, _, _ := part(m); Gather(a, stride, rd[:min(n, 3)], 20) })
		both(t, "ScaleEach", mem, func(m []float32) { a, _, _, g, _, _ := part(m); ScaleEach(g, rd, stride, a) })
		both(t, "Fold", mem, func(m []float32) {
			a, _, _, _, _, _ := part(m)
			Fold(a, stride, []uint32{1, 0, 1}, 0.9,
				6, 12)
		})
		both(t, "ScaleTo", mem, func(m []float32) { _, _, _, g, _, z := part(m); ScaleTo(0.7, g, z) })
		both(t, "Adam", mem, func(m []float32) {
			_, _, _, g, y, z := part(m)
			for i := range y {
				y[i] = y[i] * y[i]
			}
			Adam(g, 0.1, 0.9, 0.999, 1e-8, append([]float32(nil), z...), y, z)
		})
		both(t, "Scale", mem, func(m []float32) { _, _, _, g, _, _ := part(m); Scale(0.3, g) })
		both(t, "Count", mem, func(m []float32) {
			a, v, _, _, _, _ := part(m)
			below, equal := Count(a, a[3])
			v[0], v[1] = float32(below), float32(equal)
		})
		both(t, "TopK", mem, func(m []float32) {
			a, v, _, _, _, _ := part(m)
			var top [7]uint32
			v[0] = float32(TopK(a, top[:]))
			for i, x := range top {
				v[1+i] = float32(x)
			}
		})
		both(t, "Merge", mem, func(m []float32) { a, v, _, _, _, _ := part(m); Merge(a, 3*stride, 5, v) })
	}
}

func TestLayerKernelsHaveTheBitsOfTheirTwins(t *testing.T) {
	r := rng.New(rng.Test)
	for n := range 70 {
		mem := make([]float32, 2*n)
		for i := range mem {
			mem[i] = float32(r.Norm())
		}
		if n > 9 {
			mem[3], mem[9] = float32(math.NaN()), float32(math.Copysign(0, -1))
		}
		both(t, "Relu", mem, func(m []float32) { Relu(m[:n]) })
		both(t, "ReluBack", mem, func(m []float32) { ReluBack(m[:n], m[n:]) })
		both(t, "Outer", mem, func(m []float32) {
			d := make([]float32, n/8*8)
			Outer(m[:n/8], m[n:][:min(n, 8)],
				d)
			copy(m, d)
		})
		both(t, "Columns", mem, func(m []float32) {
			if n > 0 {
				Columns(m[:n], m[n:])
			}
		})
	}
}

func TestSigmoidHasTheBitsOfItsTwinOverAllExponents(t *testing.T) {
	var xs []float32
	for bits := uint64(0); bits < 1<<32; bits += 30011 {
		xs = append(xs, math.Float32frombits(uint32(bits)))
	}
	y := make([]float32, len(xs))
	both(t, "BCEGrad", xs, func(m []float32) { BCEGrad(y, 1, m) })
}

func TestDrawAndResolveHaveTheBitsOfTheirTwins(t *testing.T) {
	if !simd {
		t.Skip("this build or machine has no SIMD kernels to compare")
	}
	r := rng.New(rng.Test, 78)
	for range 200 {
		items := 1 + r.Uint32n(3000)
		taken := make([]uint64, items/64+1)
		for range items / 2 {
			i := r.Uint32n(items)
			taken[i>>6] |= 1 << (i & 63)
		}
		free := r.Uint32n(items)
		taken[free>>6] &^= 1 << (free & 63)
		var a Stream
		for w := range a {
			for l := range a[w] {
				a[w][l] = uint32(r.Uint64()) | 1
			}
		}
		start, n := a, int(r.Uint32n(100))
		x := make([]uint32, n+8)
		Draw(&a, items, taken, n, x)
		twins(func(how string) {
			b, y := start, make([]uint32, n+8)
			Draw(&b, items, taken, n, y)
			if a != b {
				t.Fatalf("the states of the streams differ %s", how)
			}
			for i := range n {
				if x[i] != y[i] || x[i] >= items || taken[x[i]>>6]>>(x[i]&63)&1 == 1 {
					t.Fatalf("draw %d is %d with the widest SIMD, %d %s, of %d items", i, x[i], y[i], how, items)
				}
			}
		})
		resolvesAlike(t, &r, x[:n], items)
	}
}

func resolvesAlike(t *testing.T, r *rng.Rand, raw []uint32, items uint32) {
	t.Helper()
	n := len(raw)
	tab := make([]int32, items)
	for i := range tab {
		tab[i] = int32(r.Uint32n(3)) * 9000 * int32(1-2*int(r.Uint32n(2)))
	}
	for i := range raw {
		raw[i] |= r.Uint32n(2) << 31
	}
	again := func() ([]uint32, int, []int32) {
		count := make([]int32, items)
		list, distinct := Repeats(raw, count, 5000, nil)
		return list, distinct, count
	}
	a, an, ac := again()
	twins(func(how string) {
		b, bn, bc := again()
		if an != bn || !slices.Equal(a, b) || !slices.Equal(ac, bc) {
			t.Fatalf("repeats are %v of %d distinct with the widest SIMD, %v of %d %s", a, an, b, bn, how)
		}
	})
	type out struct {
		item, rd, wr []uint32
		y            []float32
	}
	resolve := func() out {
		o := out{make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]float32, n)}
		Resolve(raw, tab, 4000, o.item, o.y, o.rd, o.wr)
		return o
	}
	fast := resolve()
	twins(func(how string) {
		if slow := resolve(); !reflect.DeepEqual(fast, slow) {
			t.Fatalf("samples resolve differently %s", how)
		}
	})
}

func TestGemmIsTheProductAndHasTheBitsOfItsTwin(t *testing.T) {
	r := rng.New(rng.Test, 79)
	for trial := range 120 {
		m, n, k := int(r.Uint32n(20)), int(r.Uint32n(50)), int(r.Uint32n(40))
		a, b := make([]float32, m*k+1), make([]float32, k*n+1)
		fillRows(&r, a, trial%4 == 0)
		fillRows(&r, b, trial%4 == 0)
		room, start := make([]float32, GemmRoom(k)), make([]float32, m*n+1)
		fillRows(&r, start, false)
		for _, tr := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
			ma, mb := Rows(a, k), Rows(b, n)
			if tr[0] {
				ma = Rows(a, m).T()
			}
			if tr[1] {
				mb = Rows(b, k).T()
			}
			both(t, "Gemm", start, func(c []float32) { Gemm(m, n, k, ma, mb, room, Rows(c, n)) })
			if trial%4 == 0 {
				continue // the reference product is meaningless for special numbers
			}
			c := append([]float32(nil), start...)
			Gemm(m, n, k, ma, mb, room, Rows(c, n))
			for i := range m {
				for j := range n {
					want := float64(start[i*n+j])
					for p := range k {
						want += float64(ma.Data[i*ma.Row+p*ma.Col]) * float64(mb.Data[p*mb.Row+j*mb.Col])
					}
					if got := float64(c[i*n+j]); math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
						t.Fatalf("%dx%dx%d, transposed %v: element (%d, %d) is %g, want %g", m, n, k, tr, i, j, got,
							want)
					}
				}
			}
		}
	}
}

func TestSpreadAddsOuterProductAndKeepsFactors(t *testing.T) {
	r := rng.New(rng.Test, 80)
	for _, stride := range []int{8, 32, 40} {
		a, v, g := make([]float32, 9*stride), make([]float32, stride), make([]float32, 13)
		fillRows(&r, a, false)
		fillRows(&r, v, false)
		fillRows(&r, g, false)
		want, was := make([]float64, len(a)), slices.Clone(g)
		for i, x := range a {
			want[i] = float64(x)
		}
		wr := make([]uint32, len(g))
		for x := range wr {
			wr[x] = r.Uint32n(9)
			for i := range v {
				want[int(wr[x])*stride+i] += float64(g[x]) * float64(v[i])
			}
		}
		Spread(a, stride, wr, g, v)
		for i := range a {
			if math.Abs(float64(a[i])-want[i]) > 1e-5 {
				t.Fatalf("stride %d: element %d is %g, want %g", stride, i, a[i], want[i])
			}
		}
		if !slices.Equal(g, was) {
			t.Errorf("stride %d: the factors are %v, and were %v", stride, g, was)
		}
	}
}

func TestScaleRowsHasTheBitsOfItsTwin(t *testing.T) {
	r := rng.New(rng.Test, 78)
	from, to := []uint32{3, 0, 9, 1, 10, 4, 2, 7, 5, 8, 6}, []uint32{12, 22, 14, 15, 21, 17, 11, 19, 20, 16, 13}
	for _, stride := range []int{8, 24, 32, 64} {
		mem := make([]float32, 23*stride)
		fillRows(&r, mem, stride == 24)
		for n := range len(from) + 1 {
			both(t, "ScaleRows", mem, func(m []float32) { ScaleRows(-1.3, m, from[:n], stride, m, to[:n]) })
			got := slices.Clone(mem)
			ScaleRows(-1.3, got, from[:n], stride, got, to[:n])
			for x := range n {
				for i, v := range mem[from[x]*uint32(stride):][:stride] {
					if g := got[int(to[x])*stride+i]; g != -1.3*v && v == v {
						t.Fatalf("element %d of row %d is %g, want -1.3 times %g", i, to[x], g, v)
					}
				}
			}
		}
	}
}
