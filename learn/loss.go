package learn

import (
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// LossNamed returns the loss with the given name, and panics if the name is unknown:
//
//	bce      binary cross entropy; as in PyTorch, a logarithm is never below -100
//	bpr      Bayesian personalized ranking: -log sigmoid(positive - negative)
//	squared  squared error against the rating of a positive, and 0 for a negative
//
// A device has one user, so any of its positives and any of its negatives form a pair: bpr
// cycles through both lists of a batch until every sample was used.
func LossNamed(name string) method.Loss {
	switch name {
	case "bce":
		return method.Loss{Sum: bceLoss, Grad: func(_ *method.Scratch, b *method.Batch, scale float32, z []float32) {
			vec.BCEGrad(b.Y, scale, z)
		}}
	case "bpr":
		return method.Loss{Sum: bprLoss, Grad: bprGrad}
	case "squared":
		return method.Loss{
			UsesRatings: true, Sum: squaredLoss,
			Grad: func(_ *method.Scratch, b *method.Batch, scale float32, z []float32) {
				needRatings(b, z)
				for x, r := range b.Rating {
					z[x] = float32(2*scale) * (z[x] - r)
				}
			},
		}
	}
	panic("learn: unknown loss " + name)
}

// BCE returns the mean binary cross entropy of a batch.
func BCE(m method.Learner) method.Oracle { return Mean("bce", m) }

// Mean returns the mean of a named loss over a batch.
func Mean(loss string, m method.Learner) method.Oracle {
	l := LossNamed(loss)
	grad := func(w *method.Work, b *method.Batch) float64 {
		z := w.Z[:b.N]
		m.Logits(w, b, z)
		sum := 0.0
		if w.WantLoss {
			sum = l.Sum(b, z)
		}
		l.Grad(&w.Scratch, b, 1/float32(b.N), z)
		m.Back(w, b, z)
		return sum
	}
	o := method.Oracle{UsesRatings: l.UsesRatings, Grad: grad, Terms: []method.Term{{Name: loss, Grad: grad}}}
	if h, ok := method.As[method.Headed](m); ok && h.Head() != nil {
		o.HeadLoss = &method.HeadLoss{Head: *h.Head(), Loss: l}
	}
	return o
}

// bceLoss returns the summed binary cross entropy. Four samples share one logarithm.
func bceLoss(b *method.Batch, z []float32) float64 {
	s, product := 0.0, 1.0
	for i := range z {
		p := float64(vec.Sigmoid(z[i]))
		if b.Y[i] == 0 {
			p = 1 - p
		}
		if p != p { // rng.Log does not accept NaN
			return p
		}
		product *= max(p, minProbability)
		if i&3 == 3 {
			s -= rng.Log(product)
			product = 1
		}
	}
	return s - rng.Log(product)
}

const minProbability = 3.7200759760208356e-44 // exp(-100)

func needRatings(b *method.Batch, z []float32) {
	if len(b.Rating) != len(z) {
		panic("learn: squared error requires a visit with UsesRatings")
	}
}

func squaredLoss(b *method.Batch, z []float32) float64 {
	needRatings(b, z)
	s := 0.0
	for x, r := range b.Rating {
		d := float64(z[x]) - float64(r)
		s += float64(d * d)
	}
	return s
}

// pairs iterates over the pairs of a batch: pair k consists of positive k and negative k, and
// each list restarts at its end.
type pairs struct {
	y        []float32
	n        int // number of pairs
	pos, neg int // samples of the current pair
}

func pairsOf(y []float32) pairs {
	positives := 0
	for _, v := range y {
		if v != 0 {
			positives++
		}
	}
	n := max(positives, len(y)-positives)
	if positives == 0 || positives == len(y) {
		n = 0
	}
	return pairs{y, n, -1, -1}
}

func (p *pairs) next() {
	for {
		if p.pos++; p.pos == len(p.y) {
			p.pos = 0
		}
		if p.y[p.pos] != 0 {
			break
		}
	}
	for {
		if p.neg++; p.neg == len(p.y) {
			p.neg = 0
		}
		if p.y[p.neg] == 0 {
			return
		}
	}
}

func bprGrad(s *method.Scratch, b *method.Batch, scale float32, z []float32) {
	p := pairsOf(b.Y)
	mark := s.Mark()
	defer s.Release(mark)
	d, ones := s.Floats(p.n), s.Floats(p.n)
	for k, walk := 0, p; k < p.n; k++ {
		walk.next()
		d[k], ones[k] = z[walk.pos]-z[walk.neg], 1
	}
	clear(z)
	if p.n == 0 {
		return
	}
	vec.BCEGrad(ones, float32(scale*float32(b.N))/float32(p.n), d) // sigmoid(d) - 1
	for _, g := range d {
		p.next()
		z[p.pos] += g
		z[p.neg] -= g
	}
}

// bprLoss returns the mean over pairs, times the number of samples.
func bprLoss(b *method.Batch, z []float32) float64 {
	p, s := pairsOf(b.Y), 0.0
	for range p.n {
		p.next()
		q := float64(vec.Sigmoid(z[p.pos] - z[p.neg]))
		if q != q {
			return q
		}
		s -= rng.Log(max(q, minProbability))
	}
	if p.n == 0 {
		return 0
	}
	return s * float64(b.N) / float64(p.n)
}

// InSubBatches splits a batch that exceeds the run's batch size into sub-batches of that size,
// in sample order, and adds up their gradients and losses. A mean over the batch becomes the sum
// of the sub-batch means, so the samples of a short last sub-batch weigh more.
func InSubBatches(o method.Oracle) method.Oracle {
	grad := o.Grad
	o.HeadLoss = nil
	o.Grad = func(w *method.Work, b *method.Batch) float64 {
		loss := 0.0
		for lo := 0; lo < b.N; lo += w.BatchSize {
			loss += grad(w, w.SubBatch(b, lo, min(lo+w.BatchSize, b.N)))
		}
		return loss
	}
	return o
}

// WithTerms adds regularisers to an oracle. The result is not fused.
func WithTerms(o method.Oracle, terms ...method.Term) method.Oracle {
	data := o.Grad
	o.HeadLoss = nil
	o.Terms = append(slices.Clone(o.Terms), terms...)
	o.Grad = func(w *method.Work, b *method.Batch) float64 {
		l := data(w, b)
		for _, t := range terms {
			l += t.Grad(w, b)
		}
		return l
	}
	return o
}

// Alone returns an oracle of a single term.
func Alone(t method.Term) method.Oracle { return method.Oracle{Grad: t.Grad, Terms: []method.Term{t}} }
