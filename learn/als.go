package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Least finds a user's vector in closed form: (a0 gram + sum w row row' + reg I)^-1
// sum v row, over the rows that rd names of a PerItem slot; w are the weights and v the
// targets times them. gram is the sum of row row' over all items, as a plain slot.
// Rooms 0 to 4 are used.
func Least(w *method.Work, item, gram *method.View, rd []uint32, weight, target []float32, a0, reg float64, dst []float32) {
	d, s, n := item.Slot.Dim, item.Stride, len(rd)
	rows, heavy := w.Room(0, n*s), w.Room(1, n*s)
	square, sum := w.Room(2, d*s), w.Room(3, s)
	clear(square)
	clear(sum)
	for i, r := range rd {
		row := heavy[i*s : (i+1)*s]
		copy(rows[i*s:], item.Row(r))
		copy(row, item.Row(r))
		vec.Axpy(target[i], row, sum)
		vec.Scale(weight[i], row)
	}
	vec.Gemm(d, d, n, vec.Rows(rows, s).T(), vec.Rows(heavy, s), w.Room(4, vec.GemmRoom(n)), vec.Rows(square, s))
	wide := w.Wide(d*d + d)
	a, y := wide[:d*d], wide[d*d:]
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

// Gram sets dst to the sum of row row' over the first n rows.
func Gram(rows []float32, n, dim, stride int, dst []float32) {
	clear(dst)
	x := vec.Rows(rows, stride)
	vec.Gemm(dim, dim, n, x.T(), x, make([]float32, vec.GemmRoom(n)), vec.Rows(dst, stride))
}
