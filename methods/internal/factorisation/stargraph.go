package factorisation

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// star is a user's graph in FedPerGNN (Wu et al. 2022). Logits fills it, and Back reads
// it.
type star struct {
	h   []float32 // states of a batch's items
	own []float32 // states of the user's items in the batch or, when recommending, in the history
	a   []float32 // attention weights of own
	q   []float32 // the user's state
}

// starSpace holds a star.
type starSpace struct{ h, own, a, q method.Buffer }

// exp returns e^x, with x limited to -16 to 16 and the same bits on every platform.
func exp(x float32) float32 {
	x = min(max(x, -16), 16)
	return vec.Sigmoid(x) / vec.Sigmoid(-x)
}

func (m *FedPerGNN) scale() float32 { return float32(1 / math.Sqrt(float64(m.Dim))) }

// state writes an item's state h to dst. row is the item's row in the arena.
func (m *FedPerGNN) state(w *method.Work, row, item uint32, dst []float32) {
	copy(dst, w.View[learn.ItemSlot].Row(row))
	vec.Axpy(m.Near, w.View[gnnNear].Row(item), dst)
}

// star returns the memory of a batch's graph.
func (m *FedPerGNN) star(w *method.Work, b *method.Batch) star {
	stride, n := w.View[learn.ItemSlot].Stride, len(w.History)
	if b.Pos != nil {
		n = 0
		for _, y := range b.Y {
			n += int(y)
		}
	}
	space := method.Workspace[starSpace](&w.Scratch)
	return star{space.h.Floats(b.N * stride), space.own.Floats(n * stride), space.a.Floats(n), space.q.Floats(stride)}
}

func (m *FedPerGNN) Logits(w *method.Work, b *method.Batch, out []float32) {
	t, stride, u, k := m.star(w, b), w.View[learn.ItemSlot].Stride, w.View[learn.UserSlot].Val, 0
	for x, row := range b.Rd[learn.ItemSlot] {
		h := t.h[x*stride : (x+1)*stride]
		if m.state(w, row, b.Item[x], h); b.Pos != nil && b.Y[x] == 1 {
			copy(t.own[k*stride:], h)
			k++
		}
	}
	for ; k < len(t.a); k++ { // when recommending
		m.state(w, w.History[k], w.History[k], t.own[k*stride:(k+1)*stride])
	}
	vec.DotsAll(t.own, stride, u, 0, t.a)
	softmax(m.scale(), t.a)
	copy(t.q, u)
	for i, a := range t.a {
		vec.Axpy(m.Graph*a, t.own[i*stride:(i+1)*stride], t.q)
	}
	vec.DotsAll(t.h, stride, t.q, w.View[learn.LayerSlot].Val[0], out[:b.N])
}

// softmax replaces a with the softmax of scale*a.
func softmax(scale float32, a []float32) {
	top, sum := float32(math.Inf(-1)), float32(0)
	for _, s := range a {
		top = max(top, s)
	}
	for i := range a {
		a[i] = exp(float32(scale * (a[i] - top)))
		sum += a[i]
	}
	vec.Scale(1/sum, a)
}

func (m *FedPerGNN) Back(w *method.Work, b *method.Batch, dz []float32) {
	t, it, user := m.star(w, b), &w.View[learn.ItemSlot], &w.View[learn.UserSlot]
	w.View[learn.LayerSlot].Grad[0] += vec.Sum(dz[:b.N])
	vec.Spread(it.GradRows, it.Stride, b.Pos, dz[:b.N], t.q)
	mark := w.Mark()
	defer w.Release(mark)
	dq, da := w.Floats(it.Stride), w.Floats(len(t.a))
	clear(dq)
	for x, d := range dz[:b.N] {
		vec.Axpy(d, t.h[x*it.Stride:(x+1)*it.Stride], dq)
	}
	vec.Add(dq, user.Grad)
	vec.Scale(m.Graph, dq)
	vec.DotsAll(t.own, it.Stride, dq, 0, da)
	mean, k := vec.Dot(t.a, da), 0
	for x, p := range b.Pos {
		if b.Y[x] == 1 {
			ds := float32(float32(t.a[k]*(da[k]-mean)) * m.scale())
			vec.Axpy(t.a[k], dq, it.GradRow(p))
			vec.Axpy(ds, user.Val, it.GradRow(p))
			vec.Axpy(ds, t.own[k*it.Stride:(k+1)*it.Stride], user.Grad)
			k++
		}
	}
}
