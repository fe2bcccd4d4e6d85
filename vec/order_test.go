package vec

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// The functions below implement the package comment literally, without regard to speed. SIMD
// code must return the same bits.

func dotInWords(a, b []float32) float32 {
	var acc [4][8]float32
	for i := range a {
		block, lane := i/8, i%8
		acc[block%4][lane] += float32(a[i] * b[i])
	}
	var lanes [8]float32
	for l := range lanes {
		lanes[l] = float32(acc[0][l]+acc[2][l]) + float32(acc[1][l]+acc[3][l])
	}
	return foldByHalves(lanes)
}

func foldByHalves(p [8]float32) float32 {
	for half := 4; half > 0; half /= 2 {
		for l := range half {
			p[l] += p[l+half]
		}
	}
	return p[0]
}

func wsumInWords(arena []float32, stride int, rd []uint32, g, dst []float32) {
	for l := range stride {
		var acc [2]float32
		for x, r := range rd {
			acc[x%2] += float32(g[x] * arena[int(r)*stride+l])
		}
		dst[l] += float32(acc[0] + acc[1])
	}
}

func scatInWords(arena []float32, stride int, wr []uint32, g, v []float32) {
	for x, r := range wr {
		for l := range stride {
			arena[int(r)*stride+l] -= float32(g[x] * v[l])
		}
	}
}

// wild returns numbers whose sum depends on the order: magnitudes from 1e-20 to 1e20.
func wild(r *rng.Rand, xs []float32) {
	for i := range xs {
		xs[i] *= float32(math.Pow(10, 40*r.Float64()-20))
	}
}

func TestDotSumsInDocumentedOrder(t *testing.T) {
	r := rng.New(rng.Test, 10)
	for n := range 200 {
		for k := range 10 {
			a, b := random(&r, n), random(&r, n)
			if k > 4 {
				wild(&r, a)
			}
			want := dotInWords(a, b)
			if got := dotAny(a, b); math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("dotAny of %d is %x, want %x", n, got, want)
			}
			if got := Dot(a, b); math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("Dot of %d is %x, want %x", n, got, want)
			}
		}
	}
}

func TestDot32IsDotAnyToTheBit(t *testing.T) {
	r := rng.New(rng.Test, 11)
	for k := range 2000 {
		a, b := random(&r, 32), random(&r, 32)
		if k%2 == 1 {
			wild(&r, a)
		}
		got, want := dot32((*[32]float32)(a), (*[32]float32)(b)), dotAny(a, b)
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("dot32 is %x, dotAny %x", got, want)
		}
	}
}

// A row of 20 floats with a stride of 24 must score like the 20 floats alone.
func TestPaddingDoesNotChangeADot(t *testing.T) {
	r := rng.New(rng.Test, 12)
	for n := range 130 {
		a, b := random(&r, n), random(&r, n)
		p, q := make([]float32, Pad(n)), make([]float32, Pad(n))
		copy(p, a)
		copy(q, b)
		if got, want := Dot(p, q), Dot(a, b); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("Dot of %d floats is %x padded, %x alone", n, got, want)
		}
	}
}

func TestSumHasEightLanes(t *testing.T) {
	r := rng.New(rng.Test, 13)
	for n := range 100 {
		a := random(&r, n)
		wild(&r, a)
		var lanes [8]float32
		for i, x := range a {
			lanes[i%8] += x
		}
		if got, want := Sum(a), foldByHalves(lanes); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("Sum of %d is %x, want %x", n, got, want)
		}
	}
}

func TestWSumAndScatHaveOneOrderForEveryStride(t *testing.T) {
	r := rng.New(rng.Test, 14)
	for _, stride := range strides {
		for n := range 40 {
			what := fmt.Sprintf("stride %d, batch of %d", stride, n)
			arena, rd, g, v := random(&r, 12*stride), picks(&r, n, 12), random(&r, n), random(&r, stride)
			wild(&r, g)
			got := random(&r, stride)
			want := slices.Clone(got)
			WSum(arena, stride, rd, g, got)
			wsumInWords(arena, stride, rd, g, want)
			sameBits(t, "WSum, "+what, got, want)
			again := slices.Clone(arena)
			Scat(arena, stride, rd, g, v)
			scatInWords(again, stride, rd, g, v)
			sameBits(t, "Scat, "+what, arena, again)
		}
	}
}

func TestWrongLengthsPanic(t *testing.T) {
	f := func(n int) []float32 { return make([]float32, n) }
	rd := []uint32{0, 1}
	for what, call := range map[string]func(){
		"Dot":           func() { Dot(f(8), f(9)) },
		"Axpy":          func() { Axpy(1, f(3), f(4)) },
		"Add":           func() { Add(f(3), f(4)) },
		"AddDiff a":     func() { AddDiff(f(3), f(4), f(4)) },
		"AddDiff b":     func() { AddDiff(f(4), f(3), f(4)) },
		"Dots v":        func() { Dots(f(64), 32, rd, f(31), 0, f(2)) },
		"Dots dst":      func() { Dots(f(64), 32, rd, f(32), 0, f(1)) },
		"Dots arena":    func() { Dots(f(63), 32, rd, f(32), 0, f(2)) },
		"Dots any":      func() { Dots(f(15), 8, rd, f(8), 0, f(2)) },
		"DotsAll v":     func() { DotsAll(f(64), 32, f(8), 0, f(2)) },
		"DotsAll arena": func() { DotsAll(f(63), 32, f(32), 0, f(2)) },
		"WSum dst":      func() { WSum(f(64), 32, rd, f(2), f(8)) },
		"WSum g":        func() { WSum(f(64), 32, rd, f(3), f(32)) },
		"WSum arena":    func() { WSum(f(63), 32, rd, f(2), f(32)) },
		"Scat v":        func() { Scat(f(64), 32, rd, f(2), f(8)) },
		"Scat g":        func() { Scat(f(64), 32, rd, f(1), f(32)) },
		"Scat arena":    func() { Scat(f(63), 32, rd, f(2), f(32)) },
		"Gather":        func() { Gather(f(63), 32, rd[:1], 1) },
		"Fold":          func() { Fold(f(63), 32, rd[:1], 1, 1, 0) },
		"Merge":         func() { Merge(f(7), 4, 2, f(4)) },
		"BCEGrad":       func() { BCEGrad(f(1), 1, f(2)) },
		"Adam g":        func() { Adam(f(1), 1, 1, 1, 1, f(2), f(2), f(2)) },
		"Adam m":        func() { Adam(f(2), 1, 1, 1, 1, f(1), f(2), f(2)) },
		"Adam v":        func() { Adam(f(2), 1, 1, 1, 1, f(2), f(1), f(2)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic if the slice lengths differ", what)
				}
			}()
			call()
		}()
	}
}

func TestKernelsDoNotAllocate(t *testing.T) {
	r := rng.New(rng.Test, 15)
	for _, stride := range []int{32, 40} {
		arena, rd, g := random(&r, 50*stride), picks(&r, 33, 10), random(&r, 33)
		v, z, top := random(&r, stride), make([]float32, 33), make([]uint32, 5)
		if n := testing.AllocsPerRun(20, func() {
			Dots(arena, stride, rd, v, 0, z)
			DotsAll(arena, stride, v, 0, z)
			WSum(arena, stride, rd, g, v)
			Scat(arena, stride, rd, g, v)
			Gather(arena, stride, rd[:5], 20)
			Fold(arena, stride, rd[:5], 1, 20, 30)
			Merge(arena, stride, 3, v)
			Sigmoids(z)
			BCEGrad(g, 1, z)
			TopK(z, top)
			Adam(g, 1, 0.9, 0.9, 1, z, z, z)
			z[0] = Sum(z) + Dot(v, v)
		}); n != 0 {
			t.Errorf("stride %d: the kernels allocate %g times, want 0", stride, n)
		}
	}
}

func TestRepeatsAndEqualInFoursDoWhatTheySay(t *testing.T) {
	r := rng.New(rng.Test, 81)
	for range 300 {
		const items, row = 40, 100
		raw := make([]uint32, r.Uint32n(70))
		count, second := map[uint32]int{}, []uint32{}
		for x := range raw {
			item := r.Uint32n(items)
			if count[item]++; count[item] == 2 {
				second = append(second, item)
			}
			raw[x] = item | r.Uint32n(2)<<31
		}
		tab := make([]int32, items)
		list, distinct := Repeats(raw, tab, row, []uint32{7})
		if list[0] != 7 || !slices.Equal(list[1:], second) || distinct != len(count) {
			t.Fatalf("the list is %v, want 7 and %v; %d distinct items, want %d", list, second, distinct, len(count))
		}
		for item, got := range tab {
			want := int32(-min(1, count[uint32(item)]))
			if p := slices.Index(second, uint32(item)); p >= 0 {
				want = row + int32(p)
			}
			if got != want {
				t.Fatalf("tab of item %d, which occurs %d times, is %d, want %d", item, count[uint32(item)], got, want)
			}
		}
		want := len(raw)
		for lo := 0; lo+4 <= len(raw) && want == len(raw); lo += 4 {
			group := slices.Sorted(slices.Values(raw[lo : lo+4]))
			if len(slices.Compact(group)) < 4 {
				want = lo
			}
		}
		if got := EqualInFours(raw); got != want {
			t.Fatalf("the first group with equal members of %v is %d, want %d", raw, got, want)
		}
	}
}
