package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Descend takes the oracle's gradient and applies the rules. Gradients of slots
// without a rule are dropped. A plain loss on a Head under SGD without decay of
// the rows is served by fused kernels.
func Descend(o method.Oracle, rules ...Rule) method.Step {
	parts := append([]method.Stateful(nil), o.Parts...)
	for _, r := range rules {
		if s, ok := r.(method.Stateful); ok {
			parts = append(parts, s)
		}
	}
	slots := uint64(0)
	for _, r := range rules {
		slots |= 1 << r.Slot()
	}
	plain := method.Step{
		Parts: parts, MovesRows: true, UsesRatings: o.UsesRatings, Oracles: []method.Oracle{o},
		Do: func(w *method.Work, b *method.Batch) float64 {
			before := w.RestrictGrads(slots)
			loss := o.Grad(w, b)
			w.RestrictGrads(before)
			for _, r := range rules {
				r.Apply(w, b)
			}
			w.ClearGrads(b)
			return loss
		},
	}
	f := fuse(o, rules)
	if f == nil {
		return plain
	}
	return method.Step{
		InPlace: true, MovesRows: f.item != nil, UsesRatings: o.UsesRatings, Oracles: plain.Oracles,
		Do: func(w *method.Work, b *method.Batch) float64 {
			if w.NoFuse {
				return plain.Do(w, b)
			}
			return f.do(w, b)
		},
	}
}

// fused is one step on a Head: any of its three slots may have a rule.
type fused struct {
	*method.HeadLoss
	item, vector, bias *sgd
}

// fuse returns nil where only the general way serves.
func fuse(o method.Oracle, rules []Rule) *fused {
	if o.HeadLoss == nil {
		return nil
	}
	f := &fused{HeadLoss: o.HeadLoss}
	for _, r := range rules {
		s, ok := r.(*sgd)
		if !ok {
			return nil
		}
		switch {
		case s.slot == f.Item && s.decay == 0:
			f.item = s
		case s.slot == f.Vector:
			f.vector = s
		case s.slot == f.Bias:
			f.bias = s
		default:
			return nil
		}
	}
	return f
}

// do reads all rows before it writes one, and moves the rows by the vector as it
// was: the same as Descend's two passes, without a gradient buffer.
func (f *fused) do(w *method.Work, b *method.Batch) float64 {
	it, v := &w.View[f.Item], w.View[f.Vector].Val
	rd, g := b.Rd[f.Item], w.Z[:b.N]
	vec.Dots(it.Arena, it.Stride, rd, v, Dot(f.Head).bias(w), g)
	loss := 0.0
	if w.WantLoss {
		loss = f.Sum(b, g)
	}
	scale := 1 / float32(b.N)
	if f.item != nil && f.vector == nil && f.bias == nil {
		scale = float32(f.item.rate.At(w) * scale) // the rows alone move: one pass less
	}
	f.Grad(&w.Scratch, b, scale, g)
	if f.vector != nil {
		vec.WSum(it.Arena, it.Stride, rd, g, w.View[f.Vector].Grad)
	}
	if f.bias != nil {
		w.View[f.Bias].Grad[0] = vec.Sum(g)
	}
	if f.item != nil {
		if f.vector != nil || f.bias != nil {
			vec.Scale(f.item.rate.At(w), g)
		}
		vec.Scat(it.Arena, it.Stride, b.Wr[f.Item], g, v)
		w.RecordMove(f.Item, b, g, v)
	}
	if f.vector != nil {
		descend(w, f.vector)
	}
	if f.bias != nil {
		descend(w, f.bias)
	}
	return loss
}

// descend moves a plain slot and leaves its gradient at zero.
func descend(w *method.Work, r *sgd) {
	v, lr := &w.View[r.slot], r.rate.At(w)
	if r.decay != 0 {
		v.ScaleAll(1 - float32(lr*r.decay))
	}
	vec.Axpy(-lr, v.Grad, v.Val)
	clear(v.Grad)
}

// Alternate takes the steps in turn on the same batch: the second sees what the
// first has done.
func Alternate(steps ...method.Step) method.Step {
	out := method.Step{InPlace: true, Do: func(w *method.Work, b *method.Batch) float64 {
		loss := 0.0
		for i := range steps {
			if l := steps[i].Do(w, b); i == 0 {
				loss = l
			}
		}
		return loss
	}}
	for i, s := range steps {
		// A step after one that moved rows would read them before the move.
		out.InPlace = out.InPlace && s.InPlace && (!s.MovesRows || i == len(steps)-1)
		out.MovesRows = out.MovesRows || s.MovesRows
		out.UsesRatings = out.UsesRatings || s.UsesRatings
		out.Parts = append(out.Parts, s.Parts...)
		out.Oracles = append(out.Oracles, s.Oracles...)
	}
	return out
}

// Epochs passes over the samples n times in mini-batches, in a new order each
// time (unless one batch holds them all: then order means nothing). With tol > 0 it stops early,
// when the running mean of the loss since the
// visit's start changes by less than tol of itself from one pass to the next.
func Epochs(n int, tol float64, step method.Step) method.Visit {
	return method.Visit{
		InPlace: n == 1 && step.InPlace, UsesRatings: step.UsesRatings, Parts: step.Parts,
		Oracles: step.Oracles, Run: func(w *method.Work) {
			asked, last := w.WantLoss, 0.0
			for e := range n {
				w.WantLoss = asked || tol > 0 && e < n-1 // nothing depends on that of the last pass
				if e > 0 && len(w.Samples.Item) > w.BatchSize {
					w.Samples.Shuffle()
				}
				pass(w, step)
				mean := w.Loss / float64(max(w.LossN, 1))
				if tol > 0 && e > 0 && abs(mean-last) < tol*abs(last) {
					break
				}
				last = mean
			}
			w.WantLoss = asked
		},
	}
}

func pass(w *method.Work, step method.Step) {
	for lo, n := 0, len(w.Samples.Item); lo < n; lo += w.BatchSize {
		mark := w.Mark()
		b := w.Batch(lo, min(lo+w.BatchSize, n))
		l := step.Do(w, b)
		w.Release(mark)
		if w.WantLoss {
			w.Loss += l
			w.LossN += b.N
		}
		w.Step++
	}
}

// Once takes one step on all samples of the visit together. They may be more than a
// batch: the oracle takes them in Pieces.
func Once(step method.Step) method.Visit {
	return method.Visit{
		UsesRatings: step.UsesRatings, Parts: step.Parts, Oracles: step.Oracles,
		Run: func(w *method.Work) {
			b := w.Batch(0, len(w.Samples.Item))
			l := step.Do(w, b)
			if w.WantLoss {
				w.Loss, w.LossN = w.Loss+l, w.LossN+b.N
			}
			w.Step++
		},
	}
}

func abs(x float64) float64 {
	if x < 0 {
		return -x
	}
	return x
}

// Uncounted is a visit whose steps and losses do not count: what is trained after it
// starts as if it had not been.
func Uncounted(v method.Visit) method.Visit {
	run := v.Run
	v.InPlace = false
	v.Run = func(w *method.Work) {
		loss, n, step, want := w.Loss, w.LossN, w.Step, w.WantLoss
		w.WantLoss = false
		run(w)
		w.Loss, w.LossN, w.Step, w.WantLoss = loss, n, step, want
	}
	return v
}

// Then makes one visit of several, one after the other on the same samples.
func Then(visits ...method.Visit) method.Visit {
	out := method.Visit{Run: func(w *method.Work) {
		for i := range visits {
			if i > 0 {
				w.Samples.Shuffle()
			}
			visits[i].Run(w)
		}
	}}
	for _, v := range visits {
		out.UsesRatings = out.UsesRatings || v.UsesRatings
		out.Parts = append(out.Parts, v.Parts...)
		out.Oracles = append(out.Oracles, v.Oracles...)
	}
	return out
}
