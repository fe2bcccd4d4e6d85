package learn

import (
	"math"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// NTK compares how fast a score function learns from a device's own rows and from the frozen
// rows. It uses the neural tangent kernel of the last layer's parameters, which read the rows,
// once with each table. The kernel of the rows themselves is the same for both tables in a
// bilinear model, so it carries no information. Kind selects the measure:
//
//	trace     the kernel's trace, over the batch's distinct items
//	lmax      its largest eigenvalue
//	residual  |Phi' r|^2 / |r|^2, with r the error of each sample with that table
//
// NTK ignores biases, because they contribute equally to both.
type NTK struct {
	Blend
	Kind   string
	Center bool // subtract the mean of the features, as the code of LG-Mix does
}

// powerSteps is the number of power iterations; they approximate the largest eigenvalue well
// enough for a ratio.
const powerSteps = 24

// Share returns own / (own + frozen), which is one half if the two are equal.
func (k NTK) Share(of method.Method, w *method.Work, b *method.Batch) float32 {
	return share(k.rate(of, w, b, 1), k.rate(of, w, b, 0))
}

// rate measures one table: the device's own if l = 1, the frozen one if l = 0.
func (k NTK) rate(of method.Method, w *method.Work, b *method.Batch, l float32) float64 {
	mark := w.Mark()
	defer w.Release(mark)
	z := w.Z[:b.N]
	plain := k.Blend
	plain.PerItem = false
	if k.Kind == "residual" || len(k.Score.Hidden) > 0 {
		plain.Logits(of, w, b, l, z)
	}
	dim := w.View[k.Own].Slot.Dim
	if n := len(k.Score.Hidden); n > 0 {
		dim = k.Score.Hidden[n-1]
	}
	phi, n := plain.features(w, b, l, k.Kind == "residual")
	switch k.Kind {
	case "residual":
		vec.BCEGrad(b.Y, 1, z)
		return residual(w, phi, z)
	case "lmax":
		return k.largest(w, phi, n, dim)
	}
	t := float64(0)
	for r := range n {
		row := phi.Data[r*phi.Row : (r+1)*phi.Row]
		t += float64(vec.Dot(row, row))
	}
	if k.Center {
		for _, x := range means(w, phi, n) {
			t -= float64(float64(n) * float64(x*x))
		}
	}
	return max(t, 0)
}

// features copies the last layer's inputs to scratch memory, for the batch's distinct items or,
// if all is set, for every sample.
func (m Blend) features(w *method.Work, b *method.Batch, l float32, all bool) (phi vec.Mat, n int) {
	wide := w.View[m.Own].Stride
	var h vec.Mat
	if len(m.Score.Hidden) > 0 {
		h = m.Score.Features(w, b)
		wide = h.Row
	}
	phi = vec.Rows(w.Floats(b.N*wide), wide)
	d := m.walk(w, b)
	for n = 0; ; n++ {
		x, ok := n, n < b.N
		if !all {
			x, ok = d.next()
		}
		if !ok {
			return phi, n
		}
		own, row := m.rows(w, b, x)
		if l == 1 {
			row = own
		}
		if h.Data != nil {
			row = h.Data[x*wide : (x+1)*wide]
		}
		copy(phi.Data[n*wide:(n+1)*wide], row)
	}
}

func residual(w *method.Work, phi vec.Mat, r []float32) float64 {
	sum := w.Floats(phi.Row)
	clear(sum)
	for x, g := range r {
		vec.Axpy(g, phi.Data[x*phi.Row:(x+1)*phi.Row], sum)
	}
	if rr := float64(vec.Dot(r, r)); rr > 0 {
		return float64(vec.Dot(sum, sum)) / rr
	}
	return 0
}

// means returns the means of the columns of n rows, in scratch memory.
func means(w *method.Work, phi vec.Mat, n int) []float64 {
	mean := w.Float64s(phi.Row)
	clear(mean)
	for r := range n {
		for k, x := range phi.Data[r*phi.Row:][:len(mean)] {
			mean[k] += float64(x)
		}
	}
	for i := range mean {
		mean[i] /= float64(n)
	}
	return mean
}

// largest returns the largest eigenvalue of Phi'Phi, which equals that of the kernel Phi Phi'.
func (k NTK) largest(w *method.Work, phi vec.Mat, n, dim int) float64 {
	if k.Center {
		for i, mean := range means(w, phi, n) {
			for x := range n {
				phi.Data[x*phi.Row+i] -= float32(mean)
			}
		}
	}
	gram := vec.Rows(w.Floats(dim*phi.Row), phi.Row)
	clear(gram.Data)
	Gemm(&w.Scratch, dim, dim, n, phi.T(), phi, gram)
	at, next := w.Floats(phi.Row), w.Floats(phi.Row)
	clear(at)
	for i := range dim {
		at[i] = gram.Data[i*phi.Row+i]
	}
	top := float32(0)
	for range powerSteps {
		length := float32(math.Sqrt(float64(vec.Dot(at, at))))
		if !(length > 0) {
			return 0
		}
		vec.Scale(1/length, at)
		vec.DotsAll(gram.Data, gram.Row, at, 0, next[:dim])
		clear(next[dim:])
		top = vec.Dot(at, next)
		at, next = next, at
	}
	return float64(top)
}
