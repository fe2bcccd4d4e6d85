package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/rng"
	"github.com/tacit-rec/tacit/vec"
)

// BCE is the mean binary cross entropy of a batch.
func BCE(m method.Learner) method.Oracle {
	return pointwise(m, vec.BCEGrad, bceLoss)
}

func pointwise(m method.Learner, grad func(y []float32, scale float32, dst []float32), loss func(z, y []float32) float64) method.Oracle {
	o := method.Oracle{Grad: func(w *method.Work, b *method.Batch) float64 {
		z := w.Z[:b.N]
		m.Logits(w, b, z)
		l := 0.0
		if w.WantLoss {
			l = loss(z, b.Y)
		}
		grad(b.Y, 1/float32(b.N), z)
		m.Back(w, b, z)
		return l
	}}
	if h, ok := m.(method.Headed); ok {
		o.Plain = &method.Plain{Head: h.Head(), Grad: grad, Loss: loss}
	}
	return o
}

// bceLoss is the sum of binary cross entropies; as in PyTorch, a logarithm is
// never below -100. One logarithm serves four samples.
func bceLoss(z, y []float32) float64 {
	s, product := 0.0, 1.0
	for i := range z {
		p := float64(vec.Sigmoid(z[i]))
		if y[i] == 0 {
			p = 1 - p
		}
		if p != p { // rng.Log is for numbers
			return p
		}
		product *= max(p, 3.7200759760208356e-44) // exp(-100)
		if i&3 == 3 {
			s -= rng.Log(product)
			product = 1
		}
	}
	return s - rng.Log(product)
}

// Term is a regulariser: it adds its gradient and returns its value, times the
// number of samples.
type Term func(w *method.Work, b *method.Batch) float64

// Wrap adds regularisers to an oracle. The result can no longer be fused.
func Wrap(o method.Oracle, terms ...Term) method.Oracle {
	return method.Oracle{Parts: o.Parts, Grad: func(w *method.Work, b *method.Batch) float64 {
		l := o.Grad(w, b)
		for _, t := range terms {
			l += t(w, b)
		}
		return l
	}}
}
