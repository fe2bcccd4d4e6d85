package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Dot is the bilinear head row . vector + bias, without fused kernels. Tests compare the fused
// kernels with it. A method embeds it or calls it.
type Dot method.Head

// Logits sets out to the logits of a batch.
func (h Dot) Logits(w *method.Work, b *method.Batch, out []float32) {
	it := &w.View[h.Item]
	vec.Dots(it.Arena, it.Stride, b.Rd[h.Item], w.View[h.Vector].Val, h.bias(w), out[:b.N])
}

// Back adds the gradients of the rows, the vector and the bias.
func (h Dot) Back(w *method.Work, b *method.Batch, dz []float32) {
	it, v := &w.View[h.Item], &w.View[h.Vector]
	vec.WSum(it.Arena, it.Stride, b.Rd[h.Item], dz[:b.N], v.Grad)
	if h.Bias != method.NoBias {
		w.View[h.Bias].Grad[0] += vec.Sum(dz[:b.N])
	}
	vec.Spread(it.GradRows, it.Stride, b.Pos, dz[:b.N], v.Val)
}

func (h Dot) bias(w *method.Work) float32 {
	if h.Bias == method.NoBias {
		return 0
	}
	return w.View[h.Bias].Val[0]
}
