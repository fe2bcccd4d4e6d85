package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Score is the basic score function. Without hidden layers it is the bilinear head: item row .
// user vector + bias. With hidden layers it is a ReLU network on the concatenation of the user's
// vector and the item's row. It uses the first slots of a method: ItemSlot, UserSlot, then the
// bias, or the weights and bias of each layer.
type Score struct {
	Dim    int
	Hidden Layers
}

const (
	ItemSlot  = iota
	UserSlot  // the user's vector, or the weights of the bilinear head
	LayerSlot // the bilinear head's bias, or the first layer's weights
)

// isPrivate reports whether a layer of a network stays on the device. Layers are counted from 1;
// the output layer is the last.
type isPrivate func(layer int) bool

// Slots returns the slots: item rows are shared; the user's vector and the layers for which
// stays returns true are private.
func (s Score) Slots(stays isPrivate) []method.Slot {
	unit := method.Init{Kind: method.Normal, A: 1}
	item := method.Slot{
		Name: "item", Scope: method.Shared, PerItem: true, Dim: s.Dim, Init: unit,
		Doc: "item embeddings",
	}
	if len(s.Hidden) == 0 {
		linear := Layers{}.Slots(s.Dim)
		weight, bias := linear[0], linear[1]
		weight.Name, weight.Doc, weight.Scope = "score", "weights of the score function", method.Private
		bias.Name, bias.Doc, bias.Scope = "bias", "bias of the score function", method.Private
		return []method.Slot{item, weight, bias}
	}
	user := method.Slot{Name: "user", Scope: method.Private, Rows: 1, Dim: s.Dim, Init: unit, Doc: "the user's vector"}
	layers := s.Hidden.Slots(2 * s.Dim)
	for i := range layers {
		if layers[i].Scope = method.Shared; stays(i/2 + 1) {
			layers[i].Scope = method.Private
		}
	}
	return append([]method.Slot{item, user}, layers...)
}

// Head returns the bilinear head, or nil if there are hidden layers.
func (s Score) Head() *method.Head {
	if len(s.Hidden) > 0 {
		return nil
	}
	return &method.Head{Item: ItemSlot, Vector: UserSlot, Bias: LayerSlot}
}

// Layers returns the number of layers.
func (s Score) Layers() int { return len(s.Hidden) + 1 }

// Logits sets out to the logits of a batch.
func (s Score) Logits(w *method.Work, b *method.Batch, out []float32) {
	if h := s.Head(); h != nil {
		Dot(*h).Logits(w, b, out)
		return
	}
	s.tower().logits(w, b, out)
}

// Back adds the gradients of all slots for dz.
func (s Score) Back(w *method.Work, b *method.Batch, dz []float32) {
	if h := s.Head(); h != nil {
		Dot(*h).Back(w, b, dz)
		return
	}
	s.tower().back(w, b, dz)
}

// Features returns the input of the last layer for each sample of the batch, one row per sample.
// It must follow Logits on the same batch, and there must be hidden layers.
func (s Score) Features(w *method.Work, b *method.Batch) vec.Mat { return s.tower().features(w, b) }

func (s Score) tower() tower { return tower{ItemSlot, UserSlot, LayerSlot, s.Dim, s.Hidden} }
