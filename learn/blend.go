package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Blend presents blended item rows to a score function: l times the device's own row plus 1-l
// times a frozen row. Own and Frozen are slots. If they are the same slot, the frozen row is the
// downloaded one: an arena starts with the coordinator's rows, indexed by item, so devices do
// not copy the table. If they differ, the score function must add the two rows, and both are
// trained.
type Blend struct {
	Own, Frozen int
	PerItem     bool  // l differs by item: |own|^2 / (|own|^2 + |frozen|^2)
	Score       Score // if it has hidden layers, NTK uses the last of them
}

// blendSpace holds what show and takeGrads save: the device's own rows, their weights, and the
// gradients accumulated so far.
type blendSpace struct{ own, weights, grads method.Buffer }

// blended iterates over the distinct rows of a batch. In a batch that is scored without
// training, only the rows that the device changed are its own.
type blended struct {
	Blend
	w     *method.Work
	b     *method.Batch
	x, k  int // the next sample, and the number of rows seen
	local uint32
}

func (m Blend) walk(w *method.Work, b *method.Batch) blended {
	return blended{Blend: m, w: w, b: b, local: w.View[m.Own].Local}
}

// next returns the first sample of the next distinct row, or false at the end.
func (d *blended) next() (x int, ok bool) {
	for ; d.x < d.b.N; d.x++ {
		if d.b.Pos != nil && (d.k == len(d.b.Rows) || d.b.Pos[d.x] != d.b.Rows[d.k]) ||
			d.b.Pos == nil && d.b.Rd[d.Own][d.x] < d.local {
			continue
		}
		d.x++
		d.k++
		return d.x - 1, true
	}
	return 0, false
}

// rows returns the device's own row of a sample and the frozen row.
func (m Blend) rows(w *method.Work, b *method.Batch, x int) (own, frozen []float32) {
	own = w.View[m.Own].Row(b.Rd[m.Own][x])
	if m.Own == m.Frozen {
		return own, w.View[m.Own].Row(b.Item[x])
	}
	return own, w.View[m.Frozen].Row(b.Rd[m.Frozen][x])
}

// weight returns l for one row.
func (m Blend) weight(l float32, own, frozen []float32) float32 {
	if !m.PerItem {
		return l
	}
	return share(float64(vec.Dot(own, own)), float64(vec.Dot(frozen, frozen)))
}

// share returns a/(a+b), or one half if the sum is not positive.
func share(a, b float64) float32 {
	if !(a+b > 0) {
		return 0.5
	}
	return float32(a / (a + b))
}

// show replaces the batch's own rows by blended rows; hide restores them. It also saves the
// weights, in iteration order.
func (m Blend) show(w *method.Work, b *method.Batch, l float32) {
	stride := w.View[m.Own].Stride
	space := method.Workspace[blendSpace](&w.Scratch)
	kept, weights := space.own.Floats(b.N*stride), space.weights.Floats(b.N)
	for d := m.walk(w, b); ; {
		x, ok := d.next()
		if !ok {
			return
		}
		own, frozen := m.rows(w, b, x)
		l := m.weight(l, own, frozen)
		weights[d.k-1] = l
		copy(kept[(d.k-1)*stride:d.k*stride], own)
		back := 1 - l // weight of the frozen row
		if m.Own != m.Frozen {
			back = -l // the score function adds the frozen row again
		}
		vec.Scale(l, own)
		vec.Axpy(back, frozen, own)
	}
}

func (m Blend) hide(w *method.Work, b *method.Batch) {
	stride := w.View[m.Own].Stride
	kept := method.Workspace[blendSpace](&w.Scratch).own.Floats(b.N * stride)
	for d := m.walk(w, b); ; {
		x, ok := d.next()
		if !ok {
			return
		}
		copy(w.View[m.Own].Row(b.Rd[m.Own][x]), kept[(d.k-1)*stride:d.k*stride])
	}
}

// Logits sets out to the logits that the method computes from blended rows.
func (m Blend) Logits(of method.Method, w *method.Work, b *method.Batch, l float32, out []float32) {
	m.show(w, b, l)
	of.Logits(w, b, out)
	m.hide(w, b)
}

// Back adds the gradients that the learner computes from blended rows. It treats l as a
// constant.
func (m Blend) Back(of method.Learner, w *method.Work, b *method.Batch, l float32, dz []float32) {
	m.show(w, b, l)
	if w.SkipsGrad(m.Own) && w.SkipsGrad(m.Frozen) {
		of.Back(w, b, dz)
	} else {
		m.takeGrads(w, b)
		of.Back(w, b, dz)
		m.giveGrads(w, b)
	}
	m.hide(w, b)
}

// tables returns the distinct slots whose rows are trained, and their number.
func (m Blend) tables() ([2]int, int) {
	if m.Own == m.Frozen {
		return [2]int{m.Own}, 1
	}
	return [2]int{m.Own, m.Frozen}, 2
}

// takeGrads saves the gradients of the batch's rows and clears them.
func (m Blend) takeGrads(w *method.Work, b *method.Batch) {
	slots, n := m.tables()
	stride := w.View[m.Own].Stride
	kept := method.Workspace[blendSpace](&w.Scratch).grads.Floats(n * len(b.Rows) * stride)
	for t, slot := range slots[:n] {
		for k, p := range b.Rows {
			g := w.View[slot].GradRow(p)
			copy(kept[(t*len(b.Rows)+k)*stride:][:stride], g)
			clear(g)
		}
	}
}

// giveGrads scales the gradients added since takeGrads by the blend weights and adds the saved
// ones.
func (m Blend) giveGrads(w *method.Work, b *method.Batch) {
	slots, n := m.tables()
	stride := w.View[m.Own].Stride
	space := method.Workspace[blendSpace](&w.Scratch)
	kept, weights := space.grads.Floats(n*len(b.Rows)*stride), space.weights.Floats(b.N)
	for t, slot := range slots[:n] {
		for k, p := range b.Rows {
			g, l := w.View[slot].GradRow(p), weights[k]
			if t == 1 {
				l = 1 - l
			}
			vec.Scale(l, g)
			vec.Add(kept[(t*len(b.Rows)+k)*stride:][:stride], g)
		}
	}
}
