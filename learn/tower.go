package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// tower is a network on the concatenation of the user's vector and the item's row, both dim
// wide. Its slots are consecutive from layer on: weights and bias of each layer, output last.
type tower struct {
	item, user, layer int // slots
	dim               int
	hidden            Layers
}

func (t tower) logits(w *method.Work, b *method.Batch, out []float32) {
	var m mlp
	x := t.lay(w, b, &m)
	it := &w.View[t.item]
	for i, r := range b.Rd[t.item] {
		copy(x.Data[i*it.Stride:(i+1)*it.Stride], it.Row(r))
	}
	// The user's vector contributes the same to the first layer for every sample, so this
	// contribution is added to that layer's bias.
	first, user := &m.at[0], w.View[t.user].Val[:t.dim]
	mark := w.Mark()
	defer w.Release(mark)
	offset := w.Floats(vec.Pad(first.out))
	copy(offset, first.b)
	for o, weight := 0, w.View[t.layer].Val; o < first.out; o++ {
		offset[o] += vec.Dot(weight[o*first.stride:][:t.dim], user)
	}
	first.b = offset
	m.forward(x, out[:b.N])
}

func (t tower) back(w *method.Work, b *method.Batch, dz []float32) {
	var m mlp
	x := t.lay(w, b, &m)
	it := &w.View[t.item]
	mark := w.Mark()
	defer w.Release(mark)
	var dx *vec.Mat
	if !w.SkipsGrad(t.item) {
		to := vec.Rows(w.Floats(b.N*it.Stride), it.Stride)
		dx = &to
	}
	d := m.backward(x, dz[:b.N], dx)
	if dx != nil {
		for i, p := range b.Pos {
			vec.Add(dx.Data[i*it.Stride:(i+1)*it.Stride], it.GradRow(p))
		}
	}
	t.userBack(w, d)
}

// features returns the last layer's input for each sample, one row per sample. It must follow
// logits.
func (t tower) features(w *method.Work, b *method.Batch) vec.Mat {
	var m mlp
	t.lay(w, b, &m)
	last := len(t.hidden) - 1
	return vec.Rows(m.at[last].h, vec.Pad(t.hidden[last]))
}

// lay binds the network to the slots, with the item's row as its input. It returns the most
// recently written input.
func (t tower) lay(w *method.Work, b *method.Batch, m *mlp) vec.Mat {
	m.open(&w.Scratch, t.hidden, b.N)
	for i := range m.layers {
		weight, bias := &w.View[t.layer+2*i], &w.View[t.layer+2*i+1]
		l := &m.at[i]
		l.in, l.out, l.stride = weight.Slot.Dim, weight.Slot.Rows, weight.Stride
		l.w, l.b = weight.Val, bias.Val
		if !w.SkipsGrad(t.layer + 2*i) {
			l.gw = weight.Grad
		}
		if !w.SkipsGrad(t.layer + 2*i + 1) {
			l.gb = bias.Grad
		}
	}
	first, stride := &m.at[0], w.View[t.item].Stride
	first.in, first.w = t.dim, first.w[t.dim:]
	if first.gw != nil {
		first.gw = first.gw[t.dim:]
	}
	return vec.Rows(method.Workspace[networkSpace](&w.Scratch).input.Floats(b.N*stride), stride)
}

// userBack adds the gradients of the user's vector and of its weights, given d, the gradient
// with respect to the first layer's sums.
func (t tower) userBack(w *method.Work, d []float32) {
	if w.SkipsGrad(t.user) && w.SkipsGrad(t.layer) {
		return
	}
	weight, user := &w.View[t.layer], &w.View[t.user]
	sum := w.Floats(vec.Pad(weight.Slot.Rows))
	clear(sum)
	vec.Columns(d, sum)
	for o := range weight.Slot.Rows {
		row := o * weight.Stride
		if !w.SkipsGrad(t.user) {
			vec.Axpy(sum[o], weight.Val[row:][:t.dim], user.Grad[:t.dim])
		}
		if !w.SkipsGrad(t.layer) {
			vec.Axpy(sum[o], user.Val[:t.dim], weight.Grad[row:][:t.dim])
		}
	}
}
