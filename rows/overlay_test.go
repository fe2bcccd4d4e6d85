package rows

import (
	"math"
	"testing"
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
