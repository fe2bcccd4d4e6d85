package rows

import (
	"math"
	"testing"
)

func TestTableRowsArePadded(t *testing.T) {
	for _, dim := range []int{1, 7, 8, 20, 32, 33} {
		tab := NewTable(3, dim)
		if tab.Stride%8 != 0 || tab.Stride < dim || tab.Stride >= dim+8 || len(tab.Data) != 3*tab.Stride {
			t.Errorf("rows of %d have stride %d and %d floats in all", dim, tab.Stride, len(tab.Data))
		}
		for i := range 3 {
			r := tab.Row(uint32(i))
			if len(r) != tab.Stride || cap(r) != tab.Stride || &r[0] != &tab.Data[i*tab.Stride] {
				t.Errorf("row %d of width %d is not %d floats of the table's own", i, dim, tab.Stride)
			}
		}
	}
}

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

func TestCloneSharesNothing(t *testing.T) {
	o := NewOverlay()
	o.IDs, o.Data = []uint32{1}, []float32{2}
	c := o.Clone()
	c.Shrink(0.5)
	c.IDs[0], c.Data[0] = 9, 9
	if o.Scale != 1 || o.Fade != 1 || o.IDs[0] != 1 || o.Data[0] != 2 {
		t.Errorf("a change of the copy makes the original %+v", o)
	}
	if c.Scale != 0.5 || c.Fade != 0.5 {
		t.Errorf("the copy's scale and fade are %g and %g, want 0.5", c.Scale, c.Fade)
	}
}

func TestReserveMakesRoom(t *testing.T) {
	o := NewOverlay()
	o.Reserve(10, 8)
	if n := testing.AllocsPerRun(10, func() {
		o.IDs, o.Data = append(o.IDs[:0], 1, 2, 3), append(o.Data[:0], make([]float32, 80)...)
	}); n != 0 || len(o.IDs) != 3 {
		t.Errorf("writing 10 rows after Reserve(10) allocates %g times, want 0", n)
	}
}
