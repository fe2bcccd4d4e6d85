package conform

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
)

// termGradients checks that the gradient of every loss term, of the data and of each
// regulariser, is the finite difference of its value. An oracle's loss and gradient must be the
// sums of those of its terms. If a term has weight 0, the check looks for parameters that give it
// a weight, and with them it also compares fused and plain steps.
func termGradients(build Build) error {
	checked := map[string]bool{}
	unweighted, err := checkTerms(build, checked)
	if err != nil {
		return err
	}
	isChecked := func(name string) bool { return checked[name] }
	for _, v := range variants(build) {
		unweighted = slices.DeleteFunc(unweighted, isChecked)
		if len(unweighted) == 0 {
			return nil
		}
		if !isValid(v.build) {
			continue
		}
		heavy := weighted(v.build)
		_, err := checkTerms(heavy, checked)
		if err == nil {
			err = fusedIsPlain(heavy)
		}
		if err != nil {
			return fmt.Errorf("with %s and the weights of its terms above 0: %w", v.settings, err)
		}
	}
	unweighted = slices.DeleteFunc(unweighted, isChecked)
	if len(unweighted) > 0 {
		return fmt.Errorf("term %q: its weight is 0, and no parameter changes that, so its gradient cannot be "+
			"checked; "+
			"remove the term or make its weight a parameter", unweighted[0])
	}
	return nil
}

// variant is a method with other settings.
type variant struct {
	settings string
	build    Build
}

// variants returns the method itself, and the method with each choice of each parameter.
func variants(build Build) []variant {
	out := []variant{{"its settings", build}}
	for _, f := range param.Fields(build()) {
		for _, c := range f.Choices {
			out = append(out, variant{f.Key + "=" + c, with(build, f.Key, c)})
		}
	}
	return out
}

// with returns a build with one parameter changed.
func with(build Build, key, value string) Build {
	return func() method.Method {
		m := build()
		if err := param.Set(m, key, value); err != nil {
			panic(err)
		}
		return m
	}
}

// isValid reports whether a method can be planned with its parameters.
func isValid(build Build) bool {
	if method.Check(build()) != nil {
		return false
	}
	_, err := newAlone(build, true)
	return err == nil
}

// weighted returns a build in which every parameter that gives a term its weight is above 0.
func weighted(build Build) Build {
	values := param.Values(build())
	for _, f := range param.Fields(build()) {
		if values[f.Key] != 0.0 {
			continue
		}
		changed := with(build, f.Key, "0.1")
		if isValid(changed) && countUnweighted(changed) < countUnweighted(build) {
			build = changed
		}
	}
	return build
}

func countUnweighted(build Build) int {
	p, err := newProbe(build)
	if err != nil {
		return math.MaxInt
	}
	n := 0
	for _, o := range p.plan.Visit.Oracles {
		for _, t := range o.Terms {
			if p.isUnweighted(t) {
				n++
			}
		}
	}
	return n
}

// checkTerms checks the terms of a method that have a weight and adds their names to checked. It
// returns the names of the others.
func checkTerms(build Build, checked map[string]bool) (unweighted []string, err error) {
	p, err := newProbe(build)
	if err != nil {
		return nil, err
	}
	for _, o := range p.plan.Visit.Oracles {
		if err := p.oracle(o); err != nil {
			return nil, err
		}
		for _, t := range o.Terms {
			if p.isUnweighted(t) {
				unweighted = append(unweighted, t.Name)
			} else {
				checked[t.Name] = true
			}
		}
	}
	return unweighted, nil
}

// newProbe returns a probe in the second round of a method. A Learner must declare its oracles.
func newProbe(build Build) (*probe, error) {
	a, err := newAlone(build, true)
	if err != nil {
		return nil, err
	}
	if len(a.plan.Visit.Oracles) == 0 {
		if _, learns := method.As[method.Learner](a.plan.Method); learns {
			return nil, errors.New("the method is a Learner, but its Visit declares no Oracles; declare the " +
				"losses whose " +
				"gradients it follows")
		}
		return nil, doesNotApply("the method is not gradient-based")
	}
	w := a.ResolveSamples(&a.state, a.task(3, 1))
	w.WantLoss = true
	p := &probe{alone: a, w: w, n: min(w.BatchSize, len(w.Samples.Item)), r: rng.New(rng.Test)}
	p.shake()
	return p, nil
}

// probe is a device at a random point, which differentiates on its first n samples.
type probe struct {
	*alone
	w *method.Work
	n int
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
	loss := grad(p.w, p.w.Batch(0, p.n))
	p.w.Release(mark)
	p.w.Rand = stream // the next evaluation draws the same numbers
	return loss / float64(p.n)
}

// oracle checks the terms of an oracle, and that they add up to it. Elsewhere exempts the
// gradient from the sum, but not the loss.
func (p *probe) oracle(o method.Oracle) error {
	sum := p.zeroGrads()
	value := 0.0
	for _, t := range o.Terms {
		if err := p.term(t); err != nil {
			return fmt.Errorf("term %q: %w", t.Name, err)
		}
		value += p.evaluate(t.Grad)
		for slot := range sum {
			_, grad := p.table(slot)
			for k, g := range grad {
				sum[slot][k] += g
			}
		}
	}
	if got := p.evaluate(o.Grad); !near(got, value, 1e-3, 1e-3) {
		return fmt.Errorf("the whole loss is %g, but its terms add up to %g", got, value)
	}
	if o.Elsewhere {
		return nil
	}
	for slot := range sum {
		_, grad := p.table(slot)
		for k, g := range grad {
			if !near(float64(g), float64(sum[slot][k]), 1e-3, 1e-3) {
				return fmt.Errorf("slot %q element %d: the gradient of the whole loss is %g, but those of its terms "+
					"add up to %g", p.w.View[slot].Slot.Name, k, g, sum[slot][k])
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

func (p *probe) isUnweighted(t method.Term) bool { return t.Weight != nil && t.Weight(p.w) == 0 }

// has reports whether a term has a gradient for a slot.
func has(t method.Term, slot int) bool { return t.Slots == nil || slices.Contains(t.Slots, slot) }

// term compares a term's gradient with finite differences, at the largest element and at random
// ones. The gradient must be 0 outside the term's slots, and everywhere if the weight is 0.
func (p *probe) term(t method.Term) error {
	p.evaluate(t.Grad)
	grads := make([][]float32, len(p.w.View))
	largest := 0.0
	for slot := range grads {
		_, grad := p.table(slot)
		grads[slot] = slices.Clone(grad)
		most := 0.0
		for _, g := range grad {
			most = math.Max(most, math.Abs(float64(g)))
		}
		if most != 0 && !has(t, slot) {
			return fmt.Errorf("slot %q: the gradient is up to %g, but Slots does not contain slot %d",
				p.w.View[slot].Slot.Name, most, slot)
		}
		largest = math.Max(largest, most)
	}
	if p.isUnweighted(t) {
		if largest != 0 {
			return fmt.Errorf("the weight is 0, but the gradient is up to %g", largest)
		}
		return nil
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
