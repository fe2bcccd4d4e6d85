package vec

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

func TestAPackedRowIsWithinHalfAUnit(t *testing.T) {
	r := rng.New(rng.Test, 31)
	for trial := range 300 {
		bits := []int{8, 16}[trial%2]
		row := make([]float32, 8*(1+r.Uint32n(9)))
		size := math.Pow(10, float64(r.Uint32n(40))-20)
		for i := range row {
			row[i] = float32(size * r.Norm())
		}
		packed, back := make([]uint32, len(row)*bits/32), make([]float32, len(row))
		unit := Pack(bits, row, packed)
		Unpack(bits, unit, packed, back)
		want := float64(Largest(row)) / float64(int(1)<<(bits-1)-1)
		if math.Abs(float64(unit)-want) > 1e-6*want {
			t.Fatalf("%d bits: the unit is %g, want %g", bits, unit, want)
		}
		for i, x := range row {
			if e := math.Abs(float64(back[i]) - float64(x)); e > want*0.505 {
				t.Fatalf("%d bits: %g comes back as %g, off by %g of a unit", bits, x, back[i], e/want)
			}
		}
		again := make([]uint32, len(packed))
		Pack(bits, back, again)
		if !slices.Equal(again, packed) {
			t.Fatalf("%d bits: packing an unpacked row gives other numbers", bits)
		}
	}
}

func TestPackHandlesSpecialRows(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name string
		x    float32 // one number of the row
		rest float32
		want func(x, rest float32) bool
	}{
		{"nothing", 0, 0, func(x, rest float32) bool { return x == 0 && rest == 0 }},
		{"not a number", nan, 1, func(x, rest float32) bool { return x != x && rest != rest }},
		{"infinite", -inf, 1, func(x, rest float32) bool { return x != x && rest != rest }},
		{"tiny", 1e-44, 0, func(x, rest float32) bool { return x == 0 && rest == 0 }},
		{"huge", math.MaxFloat32, -1, func(x, rest float32) bool { return x > 3.4e38 && rest == 0 }},
		{"halves go to even", 127, 2.5, func(x, rest float32) bool { return x == 127 && rest == 2 }},
	} {
		row, packed, back := make([]float32, 16), make([]uint32, 4), make([]float32, 16)
		for i := range row {
			row[i] = c.rest
		}
		row[5] = c.x
		Unpack(8, Pack(8, row, packed), packed, back)
		if !c.want(back[5], back[6]) {
			t.Errorf("%s: %g and %g come back as %g and %g", c.name, c.x, c.rest, back[5], back[6])
		}
	}
}

func TestPackingHasTheBitsOfItsTwin(t *testing.T) {
	r := rng.New(rng.Test, 32)
	for trial := range 400 {
		bits, n := []int{8, 16}[trial%2], 8*int(1+r.Uint32n(9))
		mem := make([]float32, 3*n+1)
		fillRows(&r, mem, trial%7 == 0)
		both(t, "Pack and Unpack", mem, func(m []float32) {
			packed := make([]uint32, n*bits/32)
			m[3*n] = Pack(bits, m[:n], packed)
			Unpack(bits, m[3*n], packed, m[n:2*n])
			for i, w := range packed {
				m[2*n+i] = math.Float32frombits(w&0x7fffff | 0x3f800000) // every mantissa bit, but no NaN
				m[2*n+i] += float32(w >> 23)
			}
		})
		both(t, "Largest", mem, func(m []float32) { m[0] = Largest(m) })
	}
}

func BenchmarkPack8(b *testing.B) {
	row, packed := make([]float32, 32), make([]uint32, 8)
	for i := range row {
		row[i] = float32(i)
	}
	for b.Loop() {
		Unpack(8, Pack(8, row, packed), packed, row)
	}
}
