package local_test

import (
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// twin decays two shared tables of different widths, and moves the first.
type twin struct{ *dual }

func (m twin) Visit(int) method.Visit {
	return learn.Epochs(1, 0, learn.Descend(learn.BCE(m),
		learn.SGD(dualItem, learn.Const(6), 0.01), learn.SGD(dualBias+1, learn.Const(3), 0.02)))
}

// What a guarded device adds to the flat sum is what it adds to the shards' sums
// without a guard, decay of every row included, in every table.
func TestEncodedUpdateDecodesToTheDelta(t *testing.T) {
	const items = 50
	m := twin{newDual(5)}
	m.extra = []method.Slot{
		{Name: "second", Scope: method.Shared, PerItem: true, Dim: 3, Init: method.Init{Kind: method.Normal, A: 1}},
		{Name: "plain", Scope: method.Shared, Rows: 2, Dim: 3, Init: method.Init{Kind: method.Normal, A: 1}},
	}
	open := setUp(t, m, local.Options{Items: items, Negatives: 2})
	shut := setUp(t, m, local.Options{Items: items, Negatives: 2, Integers: true})
	bound := privacy.Bound{Clip: 1000, Levels: 1 << 30}
	shut.mem.SetBound(bound)
	for u := range 3 {
		task := &local.Task{Device: uint32(u), Train: []uint32{3, 7, 11, uint32(20 + u)}}
		a, b := open.mem.NewState(nil), shut.mem.NewState(nil)
		open.Visit(&a, task, 0, false)
		if out := shut.Visit(&b, task, 0, false); out.Norm == 0 {
			t.Fatal("an update without a length")
		}
	}
	flat := make([]int64, shut.plan.UpdateLength(0)+1)
	shut.mem.TakeSum(flat)
	for _, slot := range shut.plan.SentSlots() {
		want := open.sums(slot)
		vec.Axpy(float32(open.mem.TakeShrinkage(slot)), open.mem.Value(slot), want)
		got := make([]float32, len(want))
		shut.plan.Decode(0, slot, flat, bound.Unit(), got)
		alike(t, "slot "+shut.plan.Slots[slot].Name, got, want, 1e-4)
	}
}
