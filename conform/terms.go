package conform

import (
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
)

// termGradients checks that the gradient of every loss term, of the data and of each
// regulariser, is the finite difference of its value. A term with a weight must have a gradient,
// and an oracle's gradient must be the sum of its terms' gradients.
func termGradients(build Build) error {
	a, err := newAlone(build, true)
	if err != nil {
		return err
	}
	if len(a.plan.Visit.Oracles) == 0 {
		return doesNotApply("the method's local training follows no gradients of a declared loss")
	}
	w := a.ResolveSamples(&a.state, a.task(3, 1))
	w.WantLoss = true
	p := &probe{alone: a, w: w, b: w.Batch(0, min(w.BatchSize, len(w.Samples.Item))), r: rng.New(rng.Test)}
	p.shake()
	for _, o := range a.plan.Visit.Oracles {
		if err := p.oracle(o); err != nil {
			return err
		}
	}
	return nil
}

// probe is a device at a random point, with a batch to differentiate on.
type probe struct {
	*alone
	w *method.Work
	b *method.Batch
	r rng.Rand
}

// table returns the values of a slot and their gradients, or nil if the slot has no gradients.
func (p *probe) table(slot int) (val, grad []float32) {
	v := &p.w.View[slot]
	if v.Slot.PerItem {
		if v.GradRows == nil {
			return nil, nil
		}
		n := len(p.Touched()) * v.Stride
		return v.Arena[int(v.Local)*v.Stride:][:n], v.GradRows[:n]
	}
	if v.Grad == nil || v.Slot.Scope == method.Server {
		return nil, nil
	}
	return v.Val, v.Grad
}

// shake moves every value a little, so that no term is at its minimum.
func (p *probe) shake() {
	for slot := range p.w.View {
		v := &p.w.View[slot]
		val, _ := p.table(slot)
		for k := range val {
			if k%v.Stride < v.Slot.Dim {
				val[k] += float32(0.4*p.r.Float64() - 0.2)
			}
		}
	}
}

// evaluate returns a loss averaged over the batch, and leaves its gradient in w.
func (p *probe) evaluate(grad func(w *method.Work, b *method.Batch) float64) float64 {
	stream := p.w.Rand
	for slot := range p.w.View { // a loss over a whole history touches rows outside the batch
		_, grad := p.table(slot)
		clear(grad)
	}
	mark := p.w.Mark()
	loss := grad(p.w, p.b)
	p.w.Release(mark)
	p.w.Rand = stream // the next evaluation draws the same numbers
	return loss / float64(p.b.N)
}

func (p *probe) oracle(o method.Oracle) error {
	sum := p.zeroGrads()
	for _, t := range o.Terms {
		if err := p.term(t); err != nil {
			return fmt.Errorf("term %q: %w", t.Name, err)
		}
		p.evaluate(t.Grad)
		for slot := range sum {
			_, grad := p.table(slot)
			for k, g := range grad {
				sum[slot][k] += g
			}
		}
	}
	if o.Elsewhere {
		return nil
	}
	p.evaluate(o.Grad)
	for slot := range sum {
		_, grad := p.table(slot)
		for k, g := range grad {
			if !near(float64(g), float64(sum[slot][k]), 1e-3, 1e-3) {
				return fmt.Errorf("slot %q element %d: the gradient of the whole loss is %g, those of its terms add "+
					"up to %g", p.w.View[slot].Slot.Name, k, g, sum[slot][k])
			}
		}
	}
	return nil
}

// zeroGrads returns zeros in the shape of the gradients.
func (p *probe) zeroGrads() [][]float32 {
	out := make([][]float32, len(p.w.View))
	for slot := range out {
		_, grad := p.table(slot)
		out[slot] = make([]float32, len(grad))
	}
	return out
}

// has reports whether a term has a gradient for a slot.
func has(t method.Term, slot int) bool {
	if t.Slots == nil {
		return true
	}
	for _, s := range t.Slots {
		if s == slot {
			return true
		}
	}
	return false
}

// term compares a term's gradient with finite differences, at the largest element and at random
// ones.
func (p *probe) term(t method.Term) error {
	if t.Weight != nil && t.Weight(p.w) == 0 {
		return nil
	}
	p.evaluate(t.Grad)
	grads := make([][]float32, len(p.w.View))
	largest := 0.0
	for slot := range grads {
		_, grad := p.table(slot)
		grads[slot] = append([]float32(nil), grad...)
		for _, g := range grad {
			largest = math.Max(largest, math.Abs(float64(g)))
		}
	}
	if !(largest > 0) || math.IsInf(largest, 0) {
		return fmt.Errorf("the largest gradient is %g: must be finite and above 0", largest)
	}
	scale := 1.0
	if t.Scale != nil {
		scale = float64(t.Scale(p.w))
	}
	value := func() float64 { return scale * p.evaluate(t.Grad) }
	smooth, kinks := 0, 0
	for slot := range grads {
		if !has(t, slot) {
			continue
		}
		for _, k := range p.places(slot, grads[slot]) {
			val, _ := p.table(slot)
			ok, kink, slope := agrees(&val[k], float64(grads[slot][k]), largest, value)
			switch {
			case ok:
				smooth++
			case kink:
				kinks++
			default:
				return fmt.Errorf("slot %q element %d: the gradient is %g, the finite difference is %g",
					p.w.View[slot].Slot.Name, k, grads[slot][k], slope)
			}
		}
	}
	if kinks > smooth {
		return fmt.Errorf("at %d of %d elements the finite differences do not converge", kinks, kinks+smooth)
	}
	return nil
}

// places returns the elements to differentiate: the largest gradient of the slot and random
// others.
func (p *probe) places(slot int, grad []float32) []int {
	v, at := &p.w.View[slot], 0
	if len(grad) == 0 {
		return nil
	}
	for k, g := range grad {
		if math.Abs(float64(g)) > math.Abs(float64(grad[at])) {
			at = k
		}
	}
	out := []int{at}
	for range min(12, len(grad)) {
		if k := int(p.r.Uint32n(uint32(len(grad)))); k%v.Stride < v.Slot.Dim {
			out = append(out, k)
		}
	}
	return out
}

// agrees compares a gradient with central differences of decreasing step. kink is set if the
// one-sided differences never agree.
func agrees(x *float32, grad, largest float64, value func() float64) (ok, kink bool, slope float64) {
	kink = true
	for h := float32(1.0 / 64); h > 1e-4; h /= 4 {
		closer, bends := difference(x, h, value)
		if near(grad, closer, 0.02, largest) {
			return true, false, closer
		}
		if !bends {
			kink, slope = false, closer
		}
	}
	return false, kink, slope
}
