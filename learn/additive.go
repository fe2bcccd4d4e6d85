package learn

import (
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Additive is the score function of additive personalization: (common row + own row) . vector +
// bias. The fields are slots. Both tables have rows of the same width.
type Additive struct{ Common, Own, Vector, Bias int }

// Logits sets out to the logits of a batch.
func (h Additive) Logits(w *method.Work, b *method.Batch, out []float32) {
	c, o, v := &w.View[h.Common], &w.View[h.Own], w.View[h.Vector].Val
	mark := w.Mark()
	defer w.Release(mark)
	second := w.Floats(b.N)
	vec.Dots(c.Arena, c.Stride, b.Rd[h.Common], v, w.View[h.Bias].Val[0], out[:b.N])
	vec.Dots(o.Arena, o.Stride, b.Rd[h.Own], v, 0, second)
	vec.Add(second, out[:b.N])
}

// Back adds the gradients of all four slots for dz, the gradient with respect to the logits.
func (h Additive) Back(w *method.Work, b *method.Batch, dz []float32) {
	v := &w.View[h.Vector]
	for _, slot := range [2]int{h.Common, h.Own} {
		t := &w.View[slot]
		vec.WSum(t.Arena, t.Stride, b.Rd[slot], dz[:b.N], v.Grad)
		vec.Spread(t.GradRows, t.Stride, b.Pos, dz[:b.N], v.Val)
	}
	w.View[h.Bias].Grad[0] += vec.Sum(dz[:b.N])
}

// AdditiveRates holds the coefficients of a step on an Additive.
type AdditiveRates struct {
	Score, Rows      Schedule // learning rates
	Decay            float32
	Separate, L1, L2 Schedule // weights of the terms Separate, L1 and L2
}

// Descend returns a joint step on all four slots with the mean binary cross entropy and the
// terms of p. It updates the rows in one fused pass; the result equals that of the package
// function Descend up to rounding.
func (h Additive) Descend(m method.Learner, p AdditiveRates) method.Step {
	plain := h.Plainly(m, p)
	return method.Step{MovesRows: true, Oracles: plain.Oracles, Do: func(w *method.Work, b *method.Batch) float64 {
		if w.NoFuse {
			return plain.Do(w, b)
		}
		return h.pull(w, b, &p)
	}}
}

// Plainly returns the unfused form of Descend. A plug-in that wraps the score function uses it
// with the wrapping learner m.
func (h Additive) Plainly(m method.Learner, p AdditiveRates) method.Step {
	return Descend(WithTerms(BCE(m), Separate(h.Own, h.Common, p.Separate), L1(h.Common, p.L1), L2(h.Common, p.L2)),
		SGD(h.Vector, p.Score, p.Decay), SGD(h.Bias, p.Score, p.Decay), SGD(h.Own, p.Rows, p.Decay),
		SGD(h.Common, p.Rows, p.Decay))
}

// pull works on the batch's distinct rows: a row that occurs n times has one logit, and its n
// gradients differ only by their labels.
func (h Additive) pull(w *method.Work, b *method.Batch, p *AdditiveRates) float64 {
	c, o, v, bias := &w.View[h.Common], &w.View[h.Own], &w.View[h.Vector], w.View[h.Bias].Val
	rows := b.Rows
	t := w.CountRows(b)
	n, y := t.Samples, t.Labels
	block := func(t *method.View) []float32 { return t.Arena[int(t.Local)*t.Stride:] }
	mark := w.Mark()
	defer w.Release(mark)
	s, second := w.Floats(len(rows)), w.Floats(len(rows))
	vec.Dots(block(c), c.Stride, rows, v.Val, bias[0], s)
	vec.Dots(block(o), o.Stride, rows, v.Val, 0, second)
	vec.Add(second, s)
	vec.Sigmoids(s)
	loss := 0.0
	if w.WantLoss {
		loss = countedBCE(s, t.Each, w.Float64s(2*len(rows)))
	}
	scale := 1 / float32(b.N)
	for i, q := range s {
		s[i] = scale * (float32(n[i]*q) - y[i])
	}
	vec.WSum(block(c), c.Stride, rows, s, v.Grad)
	vec.WSum(block(o), o.Stride, rows, s, v.Grad)
	old := w.Floats(len(v.Val))
	copy(old, v.Val)
	w.View[h.Bias].Grad[0] = vec.Sum(s)
	for _, slot := range [2]int{h.Vector, h.Bias} {
		descend(w, &sgd{slot, p.Score, p.Decay})
	}
	rate, places := p.Rows.At(w), float32(c.Slot.Dim)
	keep := 1 - float32(rate*p.Decay)
	apart, l1, l2 := p.Separate.At(w), p.L1.At(w), p.L2.At(w)
	var sums [3 * vec.Lanes]float32
	vec.Pull(block(c), block(o), c.Stride, rows, s, n, old, &vec.PullRates{
		KeepC: keep, RateC: rate, KeepD: keep, RateD: rate,
		Apart: 2 * apart * scale / places, L1: l1 * scale / places, L2: 2 * l2 * scale / places,
	}, &sums)
	c.RecordScale(keep, rows)
	o.RecordScale(keep, rows)
	if !w.WantLoss {
		return 0
	}
	sum := func(k int) float64 { return float64(vec.Sum(sums[k*vec.Lanes : (k+1)*vec.Lanes])) }
	terms := float64(float64(l1)*sum(1)) + float64(float64(l2)*sum(2)) - float64(float64(apart)*sum(0))
	return loss + terms/float64(places)
}

// countedBCE returns the summed binary cross entropy of the samples listed in each, for rows with
// probability q. As in PyTorch, a logarithm is never below -100. Six factors share one
// logarithm; a product of more could underflow. p is scratch memory for two numbers per row.
func countedBCE(q []float32, each []uint32, p []float64) float64 {
	for i, v := range q {
		if v != v { // rng.Log does not accept NaN
			return float64(v)
		}
		p[2*i], p[2*i+1] = max(float64(v), minProbability), max(1-float64(v), minProbability)
	}
	s := 0.0
	for ; len(each) >= 6; each = each[6:] {
		e := (*[6]uint32)(each)
		s -= rng.Log(p[e[0]] * p[e[1]] * p[e[2]] * p[e[3]] * p[e[4]] * p[e[5]])
	}
	last := 1.0
	for _, e := range each {
		last *= p[e]
	}
	return s - rng.Log(last)
}
