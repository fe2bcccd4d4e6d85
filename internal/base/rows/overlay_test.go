package rows

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/vec"
)

// rowOf reads a row as documented for Overlay: Scale*Data if it was written, otherwise BaseScale
// times the initial row.
func rowOf(o *Overlay, birth []float64, stride int, id uint32) []float64 {
	out := make([]float64, stride)
	for i := range out {
		out[i] = o.BaseScale * birth[i]
	}
	for at, w := range o.IDs {
		if w == id {
			for i := range out {
				out[i] = o.Scale * float64(o.Data[at*stride+i])
			}
		}
	}
	return out
}

func near(a, b, tol float64) bool {
	return math.Abs(a-b) <= tol*math.Max(math.Abs(a), math.Abs(b))+1e-37
}

// The reference is a dense table that is multiplied in place. The factors are strong enough to
// trigger the rescaling of the stored rows.
func TestShrinkMultipliesEveryRow(t *testing.T) {
	for _, s := range []float64{0.5, 0.999, 1, -0.25, 0, 1e-7, 1e-20, 1.5} {
		const stride = 8
		birth := []float64{1, -2, 3, 0.5, 0, 7, -1e-3, 4}
		o := NewOverlay(F32)
		o.IDs = append(o.IDs, 4)
		dense := make([]float64, stride)
		for i := range dense {
			dense[i] = float64(i) - 2.5
			o.Data = append(o.Data, float32(dense[i]))
		}
		fade := 1.0
		for step := range 60 {
			o.Shrink(s)
			fade *= s
			for i, got := range rowOf(&o, birth, stride, 4) {
				if dense[i] *= s; !near(got, dense[i], 1e-5) && math.Abs(dense[i]) > 1e-36 {
					t.Fatalf("factor %g, step %d: written row, element %d is %g, want %g", s, step, i, got, dense[i])
				}
			}
			for i, got := range rowOf(&o, birth, stride, 9) {
				if want := fade * birth[i]; !near(got, want, 1e-12) {
					t.Fatalf("factor %g, step %d: unwritten row, element %d is %g, want %g", s, step, i, got, want)
				}
			}
			if !(o.Scale >= 1e-12) {
				t.Fatalf("factor %g, step %d: scale is %g, want it kept at 1e-12 or more", s, step, o.Scale)
			}
		}
	}
}

// The reference is a map of rows: equal, or within half of a row's unit.
func TestOverlayReturnsWrittenRows(t *testing.T) {
	for form, tol := range map[Precision]float64{F32: 0, Int16: 0.51 / 32767, Int8: 0.51 / 127} {
		const stride, most = 8, 40
		r := rng.New(rng.Test, 12)
		o := NewOverlay(form)
		at, want := map[uint32]uint32{}, map[uint32][]float32{}
		for step := range 50 {
			var src []float32
			var ids, fresh, from, to []uint32
			for k := range uint32(5) {
				row := make([]float32, stride)
				for i := range row {
					row[i] = float32(r.Norm())
				}
				src = append(src, row...)
				id := r.Uint32n(most)
				if slices.Contains(ids, id) {
					continue
				}
				ids, from = append(ids, id), append(from, k)
				if _, old := at[id]; !old {
					at[id] = uint32(len(o.IDs) + len(fresh))
					fresh = append(fresh, id)
				}
				to, want[id] = append(to, at[id]), row
			}
			o.Extend(fresh, stride, most)
			if cap(o.IDs) > most || cap(o.Data) > most*stride || cap(o.Code) > most*stride/2 {
				t.Fatalf("form %d, step %d: room for %d rows, want room for at most %d", form, step, cap(o.IDs), most)
			}
			o.Write(src, from, stride, to)
			c := o.Clone()
			for id, row := range want {
				got := make([]float32, 2*stride)
				c.Read([]uint32{at[id]}, stride, got, []uint32{1})
				for i, x := range row {
					if g := float64(got[stride+i]); c.IDs[at[id]] != id ||
						math.Abs(g-float64(x)) > tol*float64(vec.Largest(row)) {
						t.Fatalf("form %d, step %d: element %d of row %d is %g, want %g", form, step, i, id, g, x)
					}
				}
			}
		}
	}
}

// The scale holds the decay, so rounding never removes it: after many small steps, a row that is
// not written again has shrunk by the exact factor.
func TestPackedRowShrinks(t *testing.T) {
	for _, form := range []Precision{Int16, Int8} {
		o := NewOverlay(form)
		o.Extend([]uint32{3}, 8, 9)
		o.Write([]float32{127, 1, 2, 3, 4, 5, 6, 7}, []uint32{0}, 8, []uint32{0})
		want := 127.0
		for range 3000 { // enough to trigger rescaling of the stored rows
			o.Shrink(0.99)
			want *= 0.99
		}
		got := make([]float32, 8)
		if o.Read([]uint32{0}, 8, got, []uint32{0}); !near(float64(got[0]), want, 1e-4) ||
			!near(float64(got[7]), want*7/127, 1e-2) {
			t.Errorf("form %d: 127 and 7 have shrunk to %g and %g, want %g and %g", form, got[0], got[7], want,
				want*7/127)
		}
	}
}

func TestPrecisionsHaveNames(t *testing.T) {
	for i, name := range []string{"f32", "int16", "int8"} {
		f, err := ParsePrecision(name)
		if err != nil || int(f) != i || f.RowBytes(32) != []int{128, 68, 36}[i] {
			t.Errorf("%s is precision %d, a row of 32 takes %d bytes: %v", name, f, f.RowBytes(32), err)
		}
	}
	if _, err := ParsePrecision("f64"); err == nil {
		t.Error("f64 is accepted as a precision")
	}
}
