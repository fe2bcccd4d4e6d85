package method

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

func TestATallyIsTheSamplesOfEachRow(t *testing.T) {
	r := rng.New(rng.Test, 5)
	w := work(12)
	for trial := range 200 {
		pos := make([]uint32, 1+r.Uint32n(30))
		for i := range pos {
			pos[i] = r.Uint32n(12)
		}
		w.give(pos...)
		for x := range w.Samples.Y {
			w.Samples.Y[x] = float32(r.Uint32n(2))
		}
		lo := int(r.Uint32n(uint32(len(pos))))
		b := w.Batch(lo, len(pos))
		got := w.CountRows(b)
		var each []uint32
		for i, p := range b.Rows {
			n, y := float32(0), float32(0)
			for x, q := range b.Pos {
				if p == q {
					n++
					y += b.Y[x]
				}
			}
			if got.Samples[i] != n || got.Labels[i] != y {
				t.Fatalf("trial %d: row %d has %g samples and %g positives, want %g and %g", trial, p, got.Samples[i],
					got.Labels[i], n, y)
			}
			for k := range int(n) {
				e := uint32(2*i + 1)
				if k < int(y) {
					e--
				}
				each = append(each, e)
			}
		}
		if len(got.Samples) != len(b.Rows) || len(got.Labels) != len(b.Rows) || !slices.Equal(got.Each, each) {
			t.Fatalf("trial %d: samples %v of %d rows, want %v of %d", trial, got.Each, len(got.Samples), each,
				len(b.Rows))
		}
	}
}

// While nobody says that the samples are others, a batch and its tally are as they
// were; where nobody counts, nothing is remembered.
func TestABatchIsMadeAgainWhenTheOrderIsAnother(t *testing.T) {
	w := work(6)
	w.Samples.Version = 1
	w.give(1, 1, 2)
	w.CountRows(w.Batch(0, 3))
	w.give(4, 5, 5)
	if b := w.Batch(0, 3); !slices.Equal(b.Rows, []uint32{1, 2}) || !slices.Equal(w.CountRows(b).Samples,
		[]float32{2, 1}) {
		t.Errorf("in the same order the rows are %v, counted %v, want the old [1 2] and [2 1]", b.Rows,
			w.CountRows(b).Samples)
	}
	if b := w.Batch(1, 3); !slices.Equal(b.Rows, []uint32{5}) || !slices.Equal(w.CountRows(b).Samples, []float32{2}) {
		t.Errorf("another batch has rows %v, counted %v, want [5] and [2]", b.Rows, w.CountRows(b).Samples)
	}
	w.Samples.Version++
	if b := w.Batch(0, 3); !slices.Equal(b.Rows, []uint32{4, 5}) || !slices.Equal(w.CountRows(b).Samples,
		[]float32{1, 2}) {
		t.Errorf("in another order the rows are %v, counted %v, want [4 5] and [1 2]", b.Rows, w.CountRows(b).Samples)
	}
	w.Samples.Version = 0
	w.CountRows(w.Batch(0, 3))
	w.give(3, 3, 3)
	if b := w.Batch(0, 3); !slices.Equal(b.Rows, []uint32{3}) || !slices.Equal(w.CountRows(b).Samples, []float32{3}) {
		t.Errorf("where nobody counts the rows are %v, counted %v, want [3] and [3]", b.Rows, w.CountRows(b).Samples)
	}
}

// Rows that are shrunk together need no account each. The oracle keeps one.
func TestShrinkingAllRowsAtOnceIsShrinkingEach(t *testing.T) {
	const n = 4
	r := rng.New(rng.Test, 6)
	for trial := range 100 {
		a, b := work(n), work(n) // a counts its positions
		x, y := &a.View[1], &b.View[1]
		x.Used, x.SameScale = n, true
		for range 30 {
			s := []float32{0.5, 0.9, 1.25, 1, 1e-8, -0.5}[r.Uint32n(6)]
			var list []uint32
			for p := range uint32(n) {
				if r.Uint32n(4) > 0 || trial%2 == 0 {
					list = append(list, p)
				}
			}
			for _, v := range []*View{x, y} {
				if r := v; trial%5 == 0 {
					r.ScaleAll(s)
					continue
				}
				v.Rescale(list)
				for _, p := range list {
					row := v.Row(v.Local + p)
					for i := range row {
						row[i] *= s
					}
				}
				v.RecordScale(s, list)
			}
		}
		x.RescaleAll(n)
		y.RescaleAll(n)
		if x.Scale != y.Scale || !slices.Equal(x.Arena, y.Arena) {
			t.Fatalf("trial %d: shrunk by %g, want %g; rows %v, want %v", trial, x.Scale, y.Scale, x.Arena, y.Arena)
		}
	}
}
