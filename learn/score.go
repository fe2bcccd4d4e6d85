package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Score is the score function of this field's first family. Without hidden layers
// it is the bilinear head: item row . user vector + bias. With them it is a network
// on the user's vector and the item's row side by side, with ReLU between layers.
// It owns the first slots of a method: ItemSlot, UserSlot, then the bias or the
// layers' weights and biases in turn.
type Score struct {
	Dim    int
	Hidden Layers
}

const (
	ItemSlot  = iota
	UserSlot  // the user's vector; of the bilinear head, its weights
	LayerSlot // the bilinear head's bias, or the first layer's weights
)

// Private says which layers of a network stay on the device, counted from 1 with
// the output last.
type Private func(layer int) bool

// Slots declares the parameters: item rows are shared, the user's vector stays,
// and so do the layers that are private.
func (s Score) Slots(stays Private) []method.Slot {
	unit := method.Init{Kind: method.Normal, A: 1}
	item := method.Slot{Name: "item", Scope: method.Shared, PerItem: true, Dim: s.Dim, Init: unit, Doc: "item embeddings"}
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

// Head is the bilinear head, or nil where there are hidden layers.
func (s Score) Head() *method.Head {
	if len(s.Hidden) > 0 {
		return nil
	}
	return &method.Head{Item: ItemSlot, Vector: UserSlot, Bias: LayerSlot}
}

// Layers is the number of layers.
func (s Score) Layers() int { return len(s.Hidden) + 1 }

// Logits scores a batch.
func (s Score) Logits(w *method.Work, b *method.Batch, out []float32) {
	if h := s.Head(); h != nil {
		Dot(*h).Logits(w, b, out)
		return
	}
	var m mlp
	x := s.lay(w, b, &m)
	it := &w.View[ItemSlot]
	for i, r := range b.Rd[ItemSlot] {
		copy(x.Data[i*it.Stride:(i+1)*it.Stride], it.Row(r))
	}
	// What the user's vector adds to the first layer is the same for every sample:
	// it goes into that layer's bias.
	first, user := &m.at[0], w.View[UserSlot].Val[:s.Dim]
	offset := w.Room(offsetRoom, vec.Pad(first.out))
	copy(offset, first.b)
	for o, weight := 0, w.View[LayerSlot].Val; o < first.out; o++ {
		offset[o] += vec.Dot(weight[o*first.stride:][:s.Dim], user)
	}
	first.b = offset
	m.forward(x, out[:b.N])
}

// Back adds the gradients.
func (s Score) Back(w *method.Work, b *method.Batch, dz []float32) {
	if h := s.Head(); h != nil {
		Dot(*h).Back(w, b, dz)
		return
	}
	var m mlp
	x := s.lay(w, b, &m)
	it := &w.View[ItemSlot]
	var dx *vec.Mat
	if !w.Skips(ItemSlot) {
		to := vec.Rows(w.Room(gradRoom, b.N*it.Stride), it.Stride)
		dx = &to
	}
	d := m.backward(x, dz[:b.N], dx)
	if dx != nil {
		for i, p := range b.Pos {
			vec.Add(dx.Data[i*it.Stride:(i+1)*it.Stride], it.GradRow(p))
		}
	}
	s.userBack(w, d)
}

// Features returns what the last layer reads of each sample that Logits has just
// scored, a row for each. There must be hidden layers.
func (s Score) Features(w *method.Work, b *method.Batch) vec.Mat {
	var m mlp
	s.lay(w, b, &m)
	last := len(s.Hidden) - 1
	return vec.Rows(m.at[last].h, vec.Pad(s.Hidden[last]))
}

// lay lays the network out on the slots, with the item's row as its input. It
// returns the room of the input and leaves it as it is.
func (s Score) lay(w *method.Work, b *method.Batch, m *mlp) vec.Mat {
	m.Scratch = &w.Scratch
	m.open(s.Hidden, b.N)
	for i := range m.layers {
		weight, bias := &w.View[LayerSlot+2*i], &w.View[LayerSlot+2*i+1]
		l := &m.at[i]
		l.in, l.out, l.stride = weight.Slot.Dim, weight.Slot.Rows, weight.Stride
		l.w, l.b = weight.Val, bias.Val
		if !w.Skips(LayerSlot + 2*i) {
			l.gw = weight.Grad
		}
		if !w.Skips(LayerSlot + 2*i + 1) {
			l.gb = bias.Grad
		}
	}
	first, stride := &m.at[0], w.View[ItemSlot].Stride
	first.in, first.w = s.Dim, first.w[s.Dim:]
	if first.gw != nil {
		first.gw = first.gw[s.Dim:]
	}
	return vec.Rows(w.Room(inputRoom, b.N*stride), stride)
}

// userBack adds what d, the gradient by what the first layer adds up, makes of the
// user's vector and of the weights on it.
func (s Score) userBack(w *method.Work, d []float32) {
	if w.Skips(UserSlot) && w.Skips(LayerSlot) {
		return
	}
	weight, user := &w.View[LayerSlot], &w.View[UserSlot]
	sum := w.Room(offsetRoom, vec.Pad(weight.Slot.Rows))
	clear(sum)
	vec.Columns(d, sum)
	for o := range weight.Slot.Rows {
		row := o * weight.Stride
		if !w.Skips(UserSlot) {
			vec.Axpy(sum[o], weight.Val[row:][:s.Dim], user.Grad[:s.Dim])
		}
		if !w.Skips(LayerSlot) {
			vec.Axpy(sum[o], user.Val[:s.Dim], weight.Grad[row:][:s.Dim])
		}
	}
}
