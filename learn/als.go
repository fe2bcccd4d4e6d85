package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Least finds a user's vector in closed form: (a0 gram + sum w row row' + reg I)^-1
// sum v row, over the rows that rd names of a PerItem slot; w are the weights and v the
// targets times them. gram is the sum of row row' over all items, as a plain slot.
func Least(w *method.Work, item, gram *method.View, rd []uint32, weight, target []float32, a0, reg float64,
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
	gemm(&w.Scratch, d, d, n, vec.Rows(rows, s).T(), vec.Rows(heavy, s), vec.Rows(square, s))
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

// Fit is Least where every item weighs 1, with the regularisation of Rendle et al. (2022):
// reg for each of the user's items, and a0 times as much for each of the catalogue.
func Fit(w *method.Work, item, gram *method.View, rd []uint32, a0, reg float64, dst []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	weight := w.Floats(len(rd))
	for i := range weight {
		weight[i] = 1
	}
	Least(w, item, gram, rd, weight, weight, a0, reg*(float64(len(rd))+a0*float64(w.Items)), dst)
}

// Sweep is the items' half of alternating least squares.
type Sweep struct {
	Dim, Stride int
	A0, Reg     float64
	Few         int     // items that fewer devices sent are not learnt
	Users       int     // of the federation
	All         float64 // devices that each one stands for
}

// Items sets each row of item to (square + A0 outer + Reg (n + A0 Users) I)^-1 target,
// where the lower half of an item's square is a row of wide numbers, and n counts the
// devices that sent it.
func (s Sweep) Items(n []float64, outer, square []float32, wide int, target, item []float32) {
	d := s.Dim
	a, y := make([]float64, d*d), make([]float64, d)
	for i, have := range n {
		row := item[i*s.Stride : (i+1)*s.Stride]
		if have < float64(s.Few) {
			clear(row) // it scores nothing, and shows nobody
			continue
		}
		at := i * wide
		for r := range d {
			for c := range r + 1 {
				a[r*d+c] = s.All * (float64(square[at]) + float64(s.A0*float64(outer[r*s.Stride+c])))
				at++
			}
			a[r*d+r] += s.Reg * (float64(s.All*have) + float64(s.A0*float64(s.Users)))
			y[r] = s.All * float64(target[i*s.Stride+r])
		}
		if Solve(a, y) {
			for k := range d {
				row[k] = float32(y[k])
			}
		}
	}
}

// Gram sets dst to the sum of row row' over the first n rows.
func Gram(rows []float32, n, dim, stride int, dst []float32) {
	clear(dst)
	x := vec.Rows(rows, stride)
	vec.Gemm(dim, dim, n, x.T(), x, make([]float32, vec.GemmRoom(n)), vec.Rows(dst, stride))
}
