package learn

import (
	"math"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Rule updates one slot from its gradient. A slot without a rule is frozen.
type Rule interface {
	Slot() int
	Apply(w *method.Work, b *method.Batch)
}

type sgd struct {
	slot  int
	rate  Schedule
	decay float32
}

// SGD returns plain gradient descent. Weight decay shrinks every row of the slot in every step,
// touched or not, as a dense optimiser does.
func SGD(slot int, rate Schedule, decay float32) Rule { return &sgd{slot, rate, decay} }

func (r *sgd) Slot() int { return r.slot }

func (r *sgd) Apply(w *method.Work, b *method.Batch) {
	v, lr := &w.View[r.slot], r.rate.At(w)
	if r.decay != 0 {
		v.ScaleAll(1 - float32(lr*r.decay))
		v.Rescale(b.Rows)
	}
	if !v.Slot.PerItem {
		vec.Axpy(-lr, v.Grad, v.Val)
		return
	}
	for _, p := range b.Rows {
		vec.Axpy(-lr, v.GradRow(p), v.Row(v.Local+p))
	}
}

type send int

// SendGradient returns a rule that changes nothing locally: the device sends the slot's
// gradient. The slot's Upload must be method.Gradient.
func SendGradient(slot int) Rule { return send(slot) }

func (r send) Slot() int { return int(r) }

func (r send) Apply(w *method.Work, b *method.Batch) {
	v := &w.View[r]
	if !v.Slot.PerItem {
		vec.Add(v.Grad, v.Sent)
		return
	}
	next := 0 // b.Rows is in the order of first use by the samples
	for x, p := range b.Pos {
		if next < len(b.Rows) && p == b.Rows[next] {
			vec.Add(v.GradRow(p), v.Row(b.Wr[r][x]))
			next++
		}
	}
}

type adam struct {
	slot  int
	rate  Schedule
	scope method.Scope
	first int
}

// Adam returns Kingma and Ba's rule with their constants. If persist is set, the moments stay on
// the device between rounds; otherwise each local training starts with zero moments. Rows of a
// PerItem slot that a batch does not touch keep their value and moments, and all rows share one
// step counter (PyTorch's SparseAdam).
func Adam(slot int, rate Schedule, persist bool) Rule {
	scope := method.Ephemeral
	if persist {
		scope = method.Private
	}
	return &adam{slot: slot, rate: rate, scope: scope}
}

func (r *adam) Slot() int { return r.slot }

func (r *adam) State(slots []method.Slot) []method.Slot {
	s := slots[r.slot]
	moment := func(suffix string) method.Slot {
		return method.Slot{
			Name: s.Name + suffix, Scope: r.scope, PerItem: s.PerItem, Rows: s.Rows, Dim: s.Dim,
			Doc: "Adam's moment of " + s.Name,
		}
	}
	return []method.Slot{
		moment(".m"), moment(".v"),
		{Name: s.Name + ".steps", Scope: r.scope, Rows: 1, Dim: 1, Doc: "Adam's count of steps for " + s.Name},
	}
}

func (r *adam) Bind(first int) { r.first = first }

func (r *adam) Apply(w *method.Work, b *method.Batch) {
	v, m, s := &w.View[r.slot], &w.View[r.first], &w.View[r.first+1]
	step := NextAdam(r.rate.At(w), &w.View[r.first+2].Val[0])
	if !v.Slot.PerItem {
		step.Move(v.Grad, m.Val, s.Val, v.Val)
		return
	}
	for _, p := range b.Rows {
		step.Move(v.GradRow(p), m.Row(m.Local+p), s.Row(s.Local+p), v.Row(v.Local+p))
	}
}

// adamStep is one step of Adam with precomputed bias corrections.
type adamStep struct{ rate, eps float32 }

const adamB1, adamB2, adamEps = 0.9, 0.999, 1e-8 // Kingma and Ba's constants

// NextAdam increments the step counter and returns the next step.
func NextAdam(rate float32, steps *float32) adamStep {
	*steps++
	c1, c2 := 1-power(adamB1, int(*steps)), 1-power(adamB2, int(*steps))
	root := float32(math.Sqrt(float64(c2)))
	return adamStep{float32(rate*root) / c1, float32(adamEps * root)}
}

// Move updates dst and the moments m and v with the gradient g.
func (s adamStep) Move(g, m, v, dst []float32) {
	vec.Adam(g, s.rate, adamB1, adamB2, s.eps, m, v, dst)
}
