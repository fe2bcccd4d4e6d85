package local_test

import (
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
)

// alternating sends a number for each item in even rounds, and a sparse sum in odd ones.
type alternating struct{}

func (alternating) Slots(int) []method.Slot {
	return []method.Slot{
		{Name: "count", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: 1},
		{Name: "list", Scope: method.Shared, Upload: method.Sum, Sparse: true, Rows: 1, Dim: 1000},
	}
}

func (alternating) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		for _, r := range w.Samples.Wr[0] {
			w.View[0].Row(r)[0]++
		}
		w.View[1].Add(7, 0.5)
		w.View[1].Add(999, -0.25)
	}}
}
func (alternating) Logits(*method.Work, *method.Batch, []float32) {}
func (alternating) Phase(round, _ int) (int, string)              { return round % 2, "alternate" }
func (alternating) Transfers(phase, slot int) bool                { return phase == slot }
func (alternating) Update(*method.Global)                         {}

// Only what travels in a phase is in its vector, under the bound, and in the sums; what
// a visit leaves in another slot is nowhere.
func TestUpdateHoldsTheSlotsOfItsPhase(t *testing.T) {
	const items = 30
	k := setUp(t, alternating{}, local.Options{Items: items, Integers: true, Rounds: 4})
	bound := privacy.Bound{Clip: 10, Levels: 1 << 20}
	k.mem.SetBound(bound)
	if k.plan.UpdateLength(0) != items || k.plan.UpdateLength(1) != 1000 || k.plan.MaxUpdateLength() != 1000 {
		t.Fatalf("rounds have %d and %d numbers, %d at most; want %d, 1000 and 1000", k.plan.UpdateLength(0),
			k.plan.UpdateLength(1), k.plan.MaxUpdateLength(), items)
	}
	for round, want := range []map[int]float32{{3: 1, 9: 1}, {7: 0.5, 999: -0.25}} {
		state := k.mem.NewState(nil)
		k.Visit(&state, &local.Task{Round: round, Train: []uint32{3, 9}}, 0, false)
		flat := make([]int64, k.plan.UpdateLength(round)+1)
		k.mem.TakeSum(flat)
		for slot := range 2 {
			got := make([]float32, len(k.mem.Value(slot)))
			got[0] = 77 // Unseal overwrites
			k.plan.Decode(round, slot, flat, bound.Unit(), got)
			stride := 1
			if slot == 0 {
				stride = 8
			}
			for i, x := range got {
				y := float32(0)
				if slot == round && i%stride == 0 {
					y = want[i/stride]
				}
				if d := x - y; d > 1e-4 || d < -1e-4 {
					t.Errorf("round %d, slot %d, place %d is %g, want %g", round+1, slot, i, x, y)
				}
			}
		}
	}
}

func TestOnlyAPlainSumOfOneRowIsSparse(t *testing.T) {
	for _, s := range []method.Slot{
		{Name: "a", Scope: method.Shared, Upload: method.Delta, Rows: 1, Dim: 3, Sparse: true},
		{Name: "b", Scope: method.Shared, Upload: method.Sum, Rows: 2, Dim: 3, Sparse: true},
		{Name: "c", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: 3, Sparse: true},
		{Name: "d", Scope: method.Private, Upload: method.Sum, Rows: 1, Dim: 3, Sparse: true},
	} {
		if _, err := local.NewPlan(oneSlot{s}, local.Options{Items: 5}); err == nil {
			t.Errorf("slot %+v is taken", s)
		}
	}
}

type oneSlot struct{ slot method.Slot }

func (m oneSlot) Slots(int) []method.Slot                     { return []method.Slot{m.slot} }
func (oneSlot) Visit(int) method.Visit                        { return method.Visit{Run: func(*method.Work) {}} }
func (oneSlot) Logits(*method.Work, *method.Batch, []float32) {}
