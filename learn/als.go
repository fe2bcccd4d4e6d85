package learn

import (
	"cmp"
	"slices"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// RidgeSolve sets dst to a user's vector in closed form: (a0 gram + sum w row row' + reg I)^-1
// sum v row, over the rows rd of the PerItem slot item. weight holds w, and target holds v: the
// target values times their weights. gram is a plain slot with the sum of row row' over all
// items. If the matrix is not positive definite, dst is 0.
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

// FitUser is RidgeSolve with weight 1 for every item and the regularisation of Rendle et al.
// (2022): reg for each of the user's items, plus a0 times reg for each item of the catalogue.
func FitUser(w *method.Work, item, gram *method.View, rd []uint32, a0, reg float64, dst []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	weight := w.Floats(len(rd))
	for i := range weight {
		weight[i] = 1
	}
	RidgeSolve(w, item, gram, rd, weight, weight, a0, reg*(float64(len(rd))+float64(a0*float64(w.Items))), dst)
}

// Gram sets dst to the sum of row row' over the first n rows.
func Gram(rows []float32, n, dim, stride int, dst []float32) {
	clear(dst)
	x := vec.Rows(rows, stride)
	vec.Gemm(dim, dim, n, x.T(), x, make([]float32, vec.GemmRoom(n)), vec.Rows(dst, stride))
}

// MostFrequent lists the rows whose first number, a number of devices, is at least method.MinPopular, the
// largest first.
func MostFrequent(rows []float32, n, stride int) (out []uint32) {
	for i := range n {
		if rows[i*stride] >= method.MinPopular {
			out = append(out, uint32(i))
		}
	}
	slices.SortStableFunc(out, func(a, b uint32) int {
		return cmp.Compare(rows[int(b)*stride], rows[int(a)*stride])
	})
	return out
}

// Column returns the first number of each of n rows, and their sum.
func Column(rows []float32, n, stride int) (out []float64, sum float64) {
	out = make([]float64, n)
	for i := range out {
		out[i] = float64(rows[i*stride])
		sum += out[i]
	}
	return out, sum
}
