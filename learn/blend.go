package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Blend shows a score function item rows that are l parts the device's own and 1-l
// parts frozen ones. Own and Frozen are slots. Where they are the same, the frozen
// row is the one that was downloaded: the first rows of an arena are the
// coordinator's, by item, so no device copies the table. Where they are two, the
// score function must add their rows, and both learn.
type Blend struct {
	Own, Frozen int
	PerItem     bool  // every item has an l of its own: |own|^2 / (|own|^2 + |frozen|^2)
	Score       Score // where it has hidden layers, NTK looks at the last of them
}

// blendSpace is what show and takeGrads put aside: the device's own rows, how much they
// weigh, and the gradients so far.
type blendSpace struct{ own, weights, grads method.Buffer }

// blended walks the distinct rows of a batch. Of a batch that is scored, and not
// trained on, only rows that the device changed are its own.
type blended struct {
	Blend
	w     *method.Work
	b     *method.Batch
	x, k  int // the next sample, and the rows seen
	local uint32
}

func (m Blend) walk(w *method.Work, b *method.Batch) blended {
	return blended{Blend: m, w: w, b: b, local: w.View[m.Own].Local}
}

// next moves on to the first sample of another row.
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

// rows returns the device's own row of a sample, and the frozen one.
func (m Blend) rows(w *method.Work, b *method.Batch, x int) (own, frozen []float32) {
	own = w.View[m.Own].Row(b.Rd[m.Own][x])
	if m.Own == m.Frozen {
		return own, w.View[m.Own].Row(b.Item[x])
	}
	return own, w.View[m.Frozen].Row(b.Rd[m.Frozen][x])
}

// weight is l for one row.
func (m Blend) weight(l float32, own, frozen []float32) float32 {
	if !m.PerItem {
		return l
	}
	return share(float64(vec.Dot(own, own)), float64(vec.Dot(frozen, frozen)))
}

// share is a/(a+b), and a half where there is nothing to share.
func share(a, b float64) float32 {
	if !(a+b > 0) {
		return 0.5
	}
	return float32(a / (a + b))
}

// show puts blended rows in place of the batch's own, and hide puts those back.
// The weights are kept too, in the order of the walk.
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
		back := 1 - l // of the frozen row
		if m.Own != m.Frozen {
			back = -l // it is added once more by the score function
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

// Logits are those of a method that is shown blended rows.
func (m Blend) Logits(of method.Method, w *method.Work, b *method.Batch, l float32, out []float32) {
	m.show(w, b, l)
	of.Logits(w, b, out)
	m.hide(w, b)
}

// Back is that of a method that is shown blended rows. l is a constant to it.
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

// tables lists the slots whose rows learn, without a repetition.
func (m Blend) tables() ([2]int, int) {
	if m.Own == m.Frozen {
		return [2]int{m.Own}, 1
	}
	return [2]int{m.Own, m.Frozen}, 2
}

// takeGrads puts the gradients of the batch's rows aside and clears them.
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

// giveGrads weighs what has come since, and adds what was there before.
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
