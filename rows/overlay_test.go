package rows

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/rng"
)

// rowOf reads a row as the comment of Overlay says: Scale*Data where it was
// written, Fade*birth elsewhere.
func rowOf(o *Overlay, birth []float64, stride int, id uint32) []float64 {
	out := make([]float64, stride)
	for i := range out {
		out[i] = o.Fade * birth[i]
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

// A dense table that is multiplied in place is the oracle. The factors are strong
// enough to pass the point at which the stored rows are brought to scale again.
func TestShrinkIsAMultiplicationOfEveryRow(t *testing.T) {
	for _, s := range []float64{0.5, 0.999, 1, -0.25, 0, 1e-7, 1e-20, 1.5} {
		const stride = 8
		birth := []float64{1, -2, 3, 0.5, 0, 7, -1e-3, 4}
		o := NewOverlay()
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
					t.Fatalf("factor %g, step %d: written row, place %d is %g, want %g", s, step, i, got, dense[i])
				}
			}
			for i, got := range rowOf(&o, birth, stride, 9) {
				if want := fade * birth[i]; !near(got, want, 1e-12) {
					t.Fatalf("factor %g, step %d: unwritten row, place %d is %g, want %g", s, step, i, got, want)
				}
			}
			if !(o.Scale >= 1e-12) {
				t.Fatalf("factor %g, step %d: scale is %g, want it kept at 1e-12 or more", s, step, o.Scale)
			}
		}
	}
}

// A map is the oracle of an overlay's rows.
func TestAnOverlayGivesBackWhatWasWritten(t *testing.T) {
	const stride, most = 8, 40
	r := rng.New(rng.Test, 12)
	o := NewOverlay()
	at, want := map[uint32]uint32{}, map[uint32][]float32{}
	for step := range 50 {
		src := make([]float32, 5*stride)
		for i := range src {
			src[i] = float32(r.Norm())
		}
		var ids, fresh, from, to []uint32
		for k := range uint32(5) {
			id := r.Uint32n(most)
			if slices.Contains(ids, id) {
				continue
			}
			ids, from = append(ids, id), append(from, k)
			if _, old := at[id]; !old {
				at[id] = uint32(len(o.IDs) + len(fresh))
				fresh = append(fresh, id)
			}
			to = append(to, at[id])
			want[id] = src[k*stride : (k+1)*stride]
		}
		o.Extend(fresh, stride, most)
		if cap(o.IDs) > most || len(o.Data) != len(o.IDs)*stride {
			t.Fatalf("step %d: room for %d rows and %d numbers in %d rows, want room for at most %d", step, cap(o.IDs), len(o.Data), len(o.IDs), most)
		}
		o.Write(src, from, stride, to)
		got := make([]float32, stride)
		for id, row := range want {
			if o.Read([]uint32{at[id]}, stride, got, []uint32{0}); o.IDs[at[id]] != id || !slices.Equal(got, row) {
				t.Fatalf("step %d: row %d is %v, want %v", step, id, got, row)
			}
		}
	}
}
