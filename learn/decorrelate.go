package learn

import (
	"math"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// minRows is the smallest number of rows for which column correlations are meaningful.
const minRows = 8

// Decorrelate returns a term that decorrelates the columns of a batch's distinct rows (the loss
// of Barlow Twins, Zbontar et al. 2021, on rows instead of images): with the columns of X and Y
// standardised over the m rows and C = X'Y/m, it adds
//
//	m * (sum_k (1 - C_kk)^2 + off * sum_k!=l C_kl^2)
//
// The factor m makes the change of a row independent of the number of rows. Y holds the frozen
// rows, which get no gradient. The view selects X: "global" is the device's own rows, "mixed"
// the blended rows, and "self" compares the own rows with themselves, with the second sum only
// (FedDecorr, Shi et al. 2023). The term skips batches of fewer than 8 rows.
func (m Blend) Decorrelate(view string, off float32, l func(w *method.Work) float32) method.Term {
	return method.Term{Name: "decorrelate", Slots: []int{m.Own}, Grad: func(w *method.Work, b *method.Batch) float64 {
		n, dim, stride := len(b.Rows), w.View[m.Own].Slot.Dim, w.View[m.Own].Stride
		if n < minRows {
			return 0
		}
		mark := w.Mark()
		defer w.Release(mark)
		x, y := vec.Rows(w.Floats(n*stride), stride), vec.Rows(w.Floats(n*stride), stride)
		weights := w.Floats(n)
		for d, at := m.walk(w, b), l(w); ; {
			i, ok := d.next()
			if !ok {
				break
			}
			own, frozen := m.rows(w, b, i)
			r := d.k - 1
			row := x.Data[r*stride : (r+1)*stride]
			copy(row, own)
			copy(y.Data[r*stride:(r+1)*stride], frozen)
			weights[r] = 1
			if view == "mixed" {
				weights[r] = m.weight(at, own, frozen)
				vec.Scale(weights[r], row)
				vec.Axpy(1-weights[r], frozen, row)
			}
		}
		dev, q := w.Floats(stride), w.Floats(stride)
		if view == "self" {
			copy(y.Data, x.Data)
		}
		standardise(w, y, n, dev)
		standardise(w, x, n, dev)
		c := vec.Rows(w.Floats(dim*stride), stride)
		clear(c.Data)
		Gemm(&w.Scratch, dim, dim, n, x.T(), y, c)
		value := slopes(c, n, dim, off, view == "self", q)
		grad := vec.Rows(w.Floats(n*stride), stride)
		clear(grad.Data)
		Gemm(&w.Scratch, n, dim, dim, y, c.T(), grad)
		for k := range dim {
			dev[k] = 1 / dev[k]
		}
		for r, p := range b.Rows {
			g, xs, gs := w.View[m.Own].GradRow(p)[:dim], x.Data[r*stride:][:dim], grad.Data[r*stride:][:dim]
			for k := range g {
				g[k] += float32(float32(weights[r]*dev[k]) * (gs[k] - float32(xs[k]*q[k])))
			}
		}
		return value * float64(n) * float64(b.N)
	}}
}

// standardise scales every column to mean 0 and variance 1, and sets dev to the standard
// deviations. Like batch normalisation, it adds 1e-5 to the variance.
func standardise(w *method.Work, x vec.Mat, n int, dev []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	mean, square := means(w, x, n), w.Float64s(x.Row)
	clear(square)
	for r := range n {
		for k, v := range x.Data[r*x.Row:][:len(square)] {
			d := float64(v) - mean[k]
			square[k] += float64(d * d)
		}
	}
	for k := range square {
		s := math.Sqrt(square[k]/float64(n) + 1e-5)
		dev[k], square[k] = float32(s), 1/s
	}
	for r := range n {
		row := x.Data[r*x.Row:][:len(square)]
		for k, v := range row {
			row[k] = float32((float64(v) - mean[k]) * square[k])
		}
	}
}

// slopes replaces the sums X'Y by the gradient of the loss with respect to C, sets q_k to the
// sum over l of C_kl times that gradient, and returns the loss. If self is set, both factors
// contribute to the gradient and the diagonal does not.
func slopes(c vec.Mat, n, dim int, off float32, self bool, q []float32) float64 {
	value := 0.0
	for k := range dim {
		sum := float32(0)
		for l := range dim {
			at := &c.Data[k*c.Row+l]
			v := *at / float32(n)
			var g float32
			switch {
			case k != l && self:
				g = 4 * v
				value += float64(float64(v) * float64(v))
			case k != l:
				g = 2 * off * v
				value += float64(float64(off*v) * float64(v))
			case !self:
				g = -2 * (1 - v)
				value += float64(float64(1-v) * float64(1-v))
			}
			sum += float32(g * v)
			*at = g
		}
		q[k] = sum
	}
	return value
}
