package learn

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// The item as a feature is a category column with one category per item, in a table of its own kind.
func TestAnIdentityNetIsAFeatureNetWithACategoryPerItem(t *testing.T) {
	const dim, items = 3, 4
	f := sideData()
	column := *f
	column.Item = append(slices.Clone(f.Item), rows.Column{Name: "item", Card: items, Code: []uint32{0, 1, 2, 3}})
	plain, err := NewFeatureNet(&column, dim, Layers{6, 5}, "relu", 0.8)
	if err != nil {
		t.Fatal(err)
	}
	own, err := NewIdentityNet(f, dim, Layers{6, 5}, "relu", 0.8)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(own.slots, func(s method.Slot) bool { return s.PerItem })
	if at < 0 || len(own.slots) != len(plain.slots) || own.in != plain.in {
		t.Fatalf("the networks have the slots %+v and %+v", own.slots, plain.slots)
	}
	r := rng.New(rng.Test, 7)
	a, b := &method.Work{Device: 1}, &method.Work{Device: 1}
	for i, slot := range plain.slots {
		n := slot.Rows * vec.Pad(slot.Dim)
		val := make([]float32, n)
		for k := range val {
			if k%vec.Pad(slot.Dim) < slot.Dim {
				val[k] = float32(r.Norm())
			}
		}
		a.View = append(a.View, method.View{Slot: slot, Val: val, Grad: make([]float32, n)})
		v := method.View{Slot: own.slots[i], Val: val, Grad: make([]float32, n)}
		if i == at {
			v = method.View{Slot: own.slots[i], Stride: vec.Pad(dim), Arena: val, GradRows: make([]float32, n)}
		}
		b.View = append(b.View, v)
	}
	batch := &method.Batch{N: 5, Item: []uint32{3, 0, 3, 2, 1}, Row: []uint32{0, 1, 2, 3, 4}}
	batch.Pos, batch.Rd = batch.Item, make([][]uint32, len(own.slots))
	batch.Rd[at] = batch.Item
	dz := []float32{0.5, -1, 2, 0.25, -0.75}
	var want, got [5]float32
	plain.Logits(a, batch, want[:])
	own.Logits(b, batch, got[:])
	if want != got || want[0] == want[1] {
		t.Errorf("logits are %v, want %v, which differ between items", got, want)
	}
	plain.Back(a, batch, dz)
	own.Back(b, batch, slices.Clone(dz))
	for i := range plain.slots {
		g := b.View[i].Grad
		if i == at {
			g = b.View[i].GradRows
		}
		if !slices.Equal(g, a.View[i].Grad) {
			t.Errorf("the gradient of %s is %v, want %v", plain.slots[i].Name, g, a.View[i].Grad)
		}
	}
	batch.Inference = true
	own.Logits(b, batch, got[:])
	plain.Logits(a, batch, want[:])
	if got != want {
		t.Errorf("logits at inference are %v, want %v", got, want)
	}
}
