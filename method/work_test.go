package method

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// work makes a device with one plain slot and one item table, whose local block
// of n rows starts at row 2 of the arena.
func work(n int) *Work {
	w := &Work{View: make([]View, 2)}
	w.View[0] = View{
		Slot: Slot{Rows: 1, Dim: 3}, Stride: 8, Val: make([]float32, 8), Grad: make([]float32, 8),
		Scale: 1,
	}
	v := View{Slot: Slot{PerItem: true, Dim: 3}, Stride: 8, Local: 2, Scale: 1}
	v.Arena, v.GradRows, v.RowScale = make([]float32, (2+n)*8), make([]float32, n*8), make([]float64, n)
	for p := range v.RowScale {
		v.RowScale[p] = 1
	}
	for i := range v.Arena {
		v.Arena[i] = float32(i)
	}
	w.View[1] = v
	w.Samples.Rd, w.Samples.Wr = make([][]uint32, 2), make([][]uint32, 2)
	return w
}

func (w *Work) give(pos ...uint32) {
	s := &w.Samples
	s.Item, s.Y, s.Pos = slices.Clone(pos), make([]float32, len(pos)), pos
	s.Rd[1] = make([]uint32, len(pos))
	for x, p := range pos {
		s.Y[x], s.Rd[1][x] = float32(x), w.View[1].Local+p
	}
	s.Wr[1] = s.Rd[1]
}

func TestABatchIsARunOfTheSamples(t *testing.T) {
	w := work(6)
	w.give(5, 0, 5, 3, 3, 1)
	b := w.Batch(1, 5)
	if b.Lo != 1 || b.N != 4 || !slices.Equal(b.Item, []uint32{0, 5, 3, 3}) ||
		!slices.Equal(b.Y, []float32{1, 2, 3, 4}) {
		t.Errorf("samples 1 to 5 are %d at %d: items %v, labels %v", b.N, b.Lo, b.Item, b.Y)
	}
	if !slices.Equal(b.Pos, []uint32{0, 5, 3, 3}) || !slices.Equal(b.Rd[1], []uint32{2, 7, 5, 5}) ||
		!slices.Equal(b.Wr[1], b.Rd[1]) {
		t.Errorf("their positions are %v, read rows %v, write rows %v", b.Pos, b.Rd[1], b.Wr[1])
	}
	if b.Rd[0] != nil || b.Wr[0] != nil {
		t.Errorf("a plain slot has rows %v and %v, want none", b.Rd[0], b.Wr[0])
	}
	if !slices.Equal(b.Rows, []uint32{0, 5, 3}) {
		t.Errorf("the distinct positions are %v, want [0 5 3]", b.Rows)
	}
}

func TestRowsAreTheDistinctPositionsInTheOrderOfFirstUse(t *testing.T) {
	r := rng.New(rng.Test)
	w := work(40)
	for range 300 {
		pos := make([]uint32, 1+r.Uint32n(30))
		for i := range pos {
			pos[i] = r.Uint32n(40)
		}
		w.give(pos...)
		var want []uint32
		for _, p := range pos {
			if !slices.Contains(want, p) {
				want = append(want, p)
			}
		}
		if got := w.Batch(0, len(pos)).Rows; !slices.Equal(got, want) {
			t.Fatalf("the distinct of %v are %v, want %v", pos, got, want)
		}
	}
	w.Samples.stamp = math.MaxUint32 // the counter wraps: an old mark must not count
	w.give(1, 1, 2)
	for range 3 {
		if got := w.Batch(0, 3).Rows; !slices.Equal(got, []uint32{1, 2}) {
			t.Errorf("after the counter has wrapped they are %v, want [1 2]", got)
		}
	}
}

func TestBatchesDoNotAllocate(t *testing.T) {
	w := work(6)
	w.give(5, 0, 5, 3, 3, 1)
	w.Batch(0, 6)
	if n := testing.AllocsPerRun(20, func() { w.ClearGrads(w.Batch(0, 3)); w.Batch(3, 6) }); n != 0 {
		t.Errorf("making a batch allocates %g times, want 0", n)
	}
}

// Rows are shrunk when they are needed. The oracle shrinks all of them at once.
func TestLazyShrinkingIsShrinkingEveryRow(t *testing.T) {
	const n = 5
	for _, factor := range []float32{0.5, 0.9, -0.3, 1, 0, 1.25, 1e-8} {
		r := rng.New(rng.Test, uint64(math.Float32bits(factor)))
		w := work(n)
		v := &w.View[1]
		var want [n][8]float64
		for p := range want {
			for i := range want[p] {
				want[p][i] = float64(v.Row(v.Local + uint32(p))[i])
			}
		}
		total := 1.0
		for step := range 60 {
			p := r.Uint32n(n)
			w.give(p)
			w.Batch(0, 1)
			v.ScaleAll(factor)
			v.Rescale([]uint32{p})
			total *= float64(factor)
			for q := range want {
				for i := range want[q] {
					want[q][i] *= float64(factor)
				}
			}
			v.Row(v.Local + p)[1]++ // as a rule would
			want[p][1]++
			for i, got := range v.Row(v.Local + p) {
				if !near(float64(got), want[p][i]) {
					t.Fatalf("factor %g, step %d: place %d of a touched row is %g, want %g", factor, step, i, got,
						want[p][i])
				}
			}
		}
		v.RescaleAll(n)
		for p := range want {
			for i, got := range v.Row(v.Local + uint32(p)) {
				if !near(float64(got), want[p][i]) {
					t.Errorf("factor %g: at the end row %d place %d is %g, want %g", factor, p, i, got, want[p][i])
				}
			}
		}
		if math.Abs(v.Scale-total) > 1e-6*math.Abs(total)+1e-30 {
			t.Errorf("factor %g: the slot has shrunk by %g, want %g", factor, v.Scale, total)
		}
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-4*math.Abs(want)+1e-20 }

func TestShrinkingAPlainSlotIsAtOnce(t *testing.T) {
	w := work(1)
	copy(w.View[0].Val, []float32{1, 2, 3})
	w.View[0].ScaleAll(0.5)
	if !slices.Equal(w.View[0].Val[:3], []float32{0.5, 1, 1.5}) {
		t.Errorf("half of 1 2 3 is %v", w.View[0].Val[:3])
	}
	w.View[0].Rescale([]uint32{0})
	w.View[0].RescaleAll(3)
}

func TestClearGradsClearsWhatTheBatchTouched(t *testing.T) {
	w := work(4)
	w.give(2, 0, 2)
	v := &w.View[1]
	for i := range v.GradRows {
		v.GradRows[i] = 1
	}
	w.View[0].Grad[1] = 7
	w.ClearGrads(w.Batch(0, 3))
	for p := range uint32(4) {
		want := float32(0)
		if p == 1 || p == 3 { // not of this batch
			want = 1
		}
		if got := v.GradRow(p)[2]; got != want {
			t.Errorf("gradient of position %d is %g, want %g", p, got, want)
		}
	}
	if got := w.View[0].Grad[1]; got != 0 {
		t.Errorf("gradient of the plain slot is %g, want 0", got)
	}
}

func TestMovedIsRecordedForDirectVisitsOnly(t *testing.T) {
	w := work(4)
	w.give(0, 1, 2)
	w.RankOne.G = make([]float32, 3)
	w.RecordMove(1, w.Batch(0, 2), []float32{5, 6}, []float32{1})
	if len(w.RankOne.Lo) != 0 {
		t.Error("a visit that copies its rows keeps moves")
	}
	w.RankOne.On = true
	w.RecordMove(1, w.Batch(0, 2), []float32{5, 6}, []float32{1, 2})
	w.RecordMove(1, w.Batch(2, 3), []float32{7}, []float32{3, 4})
	r := &w.RankOne
	if r.Slot != 1 || r.Width != 2 || !slices.Equal(r.G, []float32{5, 6, 7}) || !slices.Equal(r.Lo, []int{0, 2}) ||
		!slices.Equal(r.V, []float32{1, 2, 3, 4}) {
		t.Errorf("two batches leave %+v", *r)
	}
}

func TestScopesAndUploadsHaveNames(t *testing.T) {
	for s, want := range map[Scope]string{
		Shared: "shared", Private: "private", Ephemeral: "ephemeral",
		Server: "server",
	} {
		if s.String() != want {
			t.Errorf("scope %d is %q, want %q", s, s, want)
		}
	}
	for u, want := range map[Upload]string{Delta: "change", Sum: "sum", Broadcast: "nothing"} {
		if u.String() != want {
			t.Errorf("upload %d is %q, want %q", u, u, want)
		}
	}
}

func TestPlacesOfASparseSlotAscend(t *testing.T) {
	v := View{Slot: Slot{Sparse: true, Rows: 1, Dim: 5}}
	v.Add(1, 2)
	v.Add(4, 3)
	if !slices.Equal(v.Indices, []uint32{1, 4}) || !slices.Equal(v.Values, []float32{2, 3}) {
		t.Errorf("2 at 1 and 3 at 4 are listed as %v at %v", v.Values, v.Indices)
	}
	for _, place := range []uint32{4, 0, 5} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("place %d after 4, of 5, is taken", place)
				}
			}()
			v.Add(place, 1)
		}()
	}
}
