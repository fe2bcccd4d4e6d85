package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// RidgeSolve finds a user's vector in closed form: (a0 gram + sum w row row' + reg I)^-1
// sum v row, over the rows that rd names of a PerItem slot; w are the weights and v the
// targets times them. gram is the sum of row row' over all items, as a plain slot.
func RidgeSolve(w *method.Work, item, gram *method.View, rd []uint32, weight, target []float32, a0, reg float64,
	dst []float32,
) {
	d, s, n := item.Slot.Dim, item.Stride, len(rd)
	mark := w.Mark()
	defer w.Release(mark)
	rows, heavy := w.Floats(n*s), w.Floats(n*s)
	square, sum := w.Floats(d*s), w.Floats(s)
	clear(square)
	clear(sum)
	for i, r := range rd {
		row := heavy[i*s : (i+1)*s]
		copy(rows[i*s:], item.Row(r))
		copy(row, item.Row(r))
		vec.Axpy(target[i], row, sum)
		vec.Scale(weight[i], row)
	}
	Gemm(&w.Scratch, d, d, n, vec.Rows(rows, s).T(), vec.Rows(heavy, s), vec.Rows(square, s))
	a, y := w.Float64s(d*d), w.Float64s(d)
	for i := range d {
		for j := range d {
			a[i*d+j] = float64(square[i*s+j]) + float64(a0*float64(gram.Val[i*gram.Stride+j]))
		}
		a[i*d+i] += reg
		y[i] = float64(sum[i])
	}
	clear(dst)
	if Solve(a, y) {
		for i := range y {
			dst[i] = float32(y[i])
		}
	}
}

// FitUser is Least where every item weighs 1, with the regularisation of Rendle et al. (2022):
// reg for each of the user's items, and a0 times as much for each of the catalogue.
func FitUser(w *method.Work, item, gram *method.View, rd []uint32, a0, reg float64, dst []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	weight := w.Floats(len(rd))
	for i := range weight {
		weight[i] = 1
	}
	RidgeSolve(w, item, gram, rd, weight, weight, a0, reg*(float64(len(rd))+a0*float64(w.Items)), dst)
}

// Gram sets dst to the sum of row row' over the first n rows.
func Gram(rows []float32, n, dim, stride int, dst []float32) {
	clear(dst)
	x := vec.Rows(rows, stride)
	vec.Gemm(dim, dim, n, x.T(), x, make([]float32, vec.GemmRoom(n)), vec.Rows(dst, stride))
}

// Column is the first number of each row, and what they add up to.
func Column(rows []float32, n, stride int) (out []float64, sum float64) {
	out = make([]float64, n)
	for i := range out {
		out[i] = float64(rows[i*stride])
		sum += out[i]
	}
	return out, sum
}
