package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/rng"
	"github.com/tacit-rec/tacit/vec"
)

// Additive is the head of additive personalization: (common row + own row) .
// vector + bias. The fields are slots; both tables have rows of the same width.
type Additive struct{ Common, Own, Vector, Bias int }

// Logits scores a batch.
func (h Additive) Logits(w *method.Work, b *method.Batch, out []float32) {
	c, o, v := &w.View[h.Common], &w.View[h.Own], w.View[h.Vector].Val
	second := w.Room(inputRoom, b.N)
	vec.Dots(c.Arena, c.Stride, b.Rd[h.Common], v, w.View[h.Bias].Val[0], out[:b.N])
	vec.Dots(o.Arena, o.Stride, b.Rd[h.Own], v, 0, second)
	vec.Add(second, out[:b.N])
}

// Back adds the gradients.
func (h Additive) Back(w *method.Work, b *method.Batch, dz []float32) {
	v := &w.View[h.Vector]
	for _, slot := range [2]int{h.Common, h.Own} {
		t := &w.View[slot]
		vec.WSum(t.Arena, t.Stride, b.Rd[slot], dz[:b.N], v.Grad)
		vec.Spread(t.GradRows, t.Stride, b.Pos, dz[:b.N], v.Val)
	}
	w.View[h.Bias].Grad[0] += vec.Sum(dz[:b.N])
}

// Pulls are the coefficients of a step on an Additive.
type Pulls struct {
	Score, Rows   Schedule // rates
	Decay         float32
	Apart, L1, L2 Schedule // weights of the terms Apart, L1 and L2
}

// Descend takes one joint step on everything with the mean binary cross entropy and
// the terms, as Descend of the package does; the rows move in one pass.
func (h Additive) Descend(m method.Learner, p Pulls) method.Step {
	plain := h.Plainly(m, p)
	return method.Step{Moves: true, Do: func(w *method.Work, b *method.Batch) float64 {
		if w.Plain {
			return plain.Do(w, b)
		}
		return h.pull(w, b, &p)
	}}
}

// Plainly is Descend for a learner that is more than the head: a plug-in around it.
func (h Additive) Plainly(m method.Learner, p Pulls) method.Step {
	return Descend(Wrap(BCE(m), Apart(h.Own, h.Common, p.Apart), L1(h.Common, p.L1), L2(h.Common, p.L2)),
		SGD(h.Vector, p.Score, p.Decay), SGD(h.Bias, p.Score, p.Decay), SGD(h.Own, p.Rows, p.Decay), SGD(h.Common, p.Rows, p.Decay))
}

// pull works on the batch's distinct rows: a row that occurs n times has one logit,
// and n gradients that differ only by their labels.
func (h Additive) pull(w *method.Work, b *method.Batch, p *Pulls) float64 {
	c, o, v, bias := &w.View[h.Common], &w.View[h.Own], &w.View[h.Vector], w.View[h.Bias].Val
	rows := b.Rows
	n, y := tally(w, b)
	block := func(t *method.View) []float32 { return t.Arena[int(t.Local)*t.Stride:] }
	room := w.Room(inputRoom, 2*len(rows))
	s, second := room[:len(rows)], room[len(rows):]
	vec.Dots(block(c), c.Stride, rows, v.Val, bias[0], s)
	vec.Dots(block(o), o.Stride, rows, v.Val, 0, second)
	vec.Add(second, s)
	vec.Sigmoids(s)
	loss := 0.0
	if w.WantLoss {
		loss = tallied(s, n, y)
	}
	scale := 1 / float32(b.N)
	for i, q := range s {
		s[i] = scale * (float32(n[i]*q) - y[i])
	}
	vec.WSum(block(c), c.Stride, rows, s, v.Grad)
	vec.WSum(block(o), o.Stride, rows, s, v.Grad)
	old := w.Room(offsetRoom, len(v.Val))
	copy(old, v.Val)
	w.View[h.Bias].Grad[0] = vec.Sum(s)
	for _, slot := range [2]int{h.Vector, h.Bias} {
		descend(w, &sgd{slot, p.Score, p.Decay})
	}
	rate, places := p.Rows.At(w), float32(c.Slot.Dim)
	keep := 1 - float32(rate*p.Decay)
	apart, l1, l2 := p.Apart.At(w), p.L1.At(w), p.L2.At(w)
	var sums [3 * vec.Lanes]float32
	vec.Pull(block(c), block(o), c.Stride, rows, s, n, old, &vec.PullRates{
		KeepC: keep, RateC: rate, KeepD: keep, RateD: rate,
		Apart: 2 * apart * scale / places, L1: l1 * scale / places, L2: 2 * l2 * scale / places,
	}, &sums)
	c.Shrunken(keep, rows)
	o.Shrunken(keep, rows)
	if !w.WantLoss {
		return 0
	}
	sum := func(k int) float64 { return float64(vec.Sum(sums[k*vec.Lanes : (k+1)*vec.Lanes])) }
	terms := float64(l1)*sum(1) + float64(l2)*sum(2) - float64(apart)*sum(0)
	return loss + terms/float64(places)
}

// tally counts, for each distinct row of a batch, its samples and the positives
// among them.
func tally(w *method.Work, b *method.Batch) (n, y []float32) {
	top := uint32(0)
	for _, p := range b.Rows {
		top = max(top, p)
	}
	by := w.Room(hiddenRoom, 2*int(top)+2)
	out := w.Room(deltaRoom, 2*len(b.Rows))
	n, y = out[:len(b.Rows)], out[len(b.Rows):]
	for _, p := range b.Rows {
		by[2*p], by[2*p+1] = 0, 0
	}
	for x, p := range b.Pos {
		by[2*p]++
		by[2*p+1] += b.Y[x]
	}
	for i, p := range b.Rows {
		n[i], y[i] = by[2*p], by[2*p+1]
	}
	return n, y
}

// tallied is the binary cross entropy of rows with probability q, n samples and y
// positives; as in PyTorch, a logarithm is never below -100. One logarithm serves
// six factors: more could vanish.
func tallied(q, n, y []float32) float64 {
	s, product, factors := 0.0, 1.0, 0
	put := func(p float64, times float32) {
		for ; times > 0; times-- {
			product *= max(p, least)
			if factors++; factors == 6 {
				s -= rng.Log(product)
				product, factors = 1, 0
			}
		}
	}
	for i, p := range q {
		if p != p { // rng.Log is for numbers
			return float64(p)
		}
		put(float64(p), y[i])
		put(1-float64(p), n[i]-y[i])
	}
	return s - rng.Log(product)
}
