package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Descend returns a step that computes the oracle's gradient and applies the rules. It discards
// gradients of slots without a rule. Fused kernels handle a plain loss on a Head under SGD
// without decay of the rows.
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

// fused is one step on a Head. Each of its three slots may have a rule.
type fused struct {
	*method.HeadLoss
	item, vector, bias *sgd
}

// fuse returns nil if the step cannot be fused.
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

// do reads all rows before it writes any, and updates the rows with the old vector. This
// computes the same as Descend's two passes, without a gradient buffer.
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
		scale = float32(f.item.rate.At(w) * scale) // only the rows change: saves one pass
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

// descend updates a plain slot and clears its gradient.
func descend(w *method.Work, r *sgd) {
	v, lr := &w.View[r.slot], r.rate.At(w)
	if r.decay != 0 {
		v.ScaleAll(1 - float32(lr*r.decay))
	}
	vec.Axpy(-lr, v.Grad, v.Val)
	clear(v.Grad)
}

// Alternate returns a step that takes the given steps one after the other on the same batch.
// Each step sees the result of the one before. The loss is that of the first step.
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
		// In place, a later step would read the rows as they were before this one moved them.
		out.InPlace = out.InPlace && s.InPlace && (!s.MovesRows || i == len(steps)-1)
		out.MovesRows = out.MovesRows || s.MovesRows
		out.UsesRatings = out.UsesRatings || s.UsesRatings
		out.Parts = append(out.Parts, s.Parts...)
		out.Oracles = append(out.Oracles, s.Oracles...)
	}
	return out
}

// Epochs returns a local training of n passes over the samples in mini-batches, in a new order
// each time unless one batch holds all samples. If tol > 0, it stops early: when the mean loss
// since the start changes by a fraction below tol from one pass to the next.
func Epochs(n int, tol float64, step method.Step) method.Visit {
	return method.Visit{
		InPlace: n == 1 && step.InPlace, UsesRatings: step.UsesRatings, Parts: step.Parts,
		Oracles: step.Oracles, Run: func(w *method.Work) {
			asked, last := w.WantLoss, 0.0
			for e := range n {
				w.WantLoss = asked || tol > 0 && e < n-1 // early stopping does not need the last pass's loss
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

// Once returns a local training of one step on all samples together. They may exceed the batch
// size: use InSubBatches for the oracle.
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

// Uncounted returns a local training whose steps and losses are not counted: the training after
// it starts with the same counters.
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

// Then returns a local training that runs several one after the other on the same samples,
// shuffled in between.
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
