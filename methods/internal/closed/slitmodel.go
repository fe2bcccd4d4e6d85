package closed

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Slit is a linear model that predicts later items from earlier ones. With L[t,i] =
// Rho^(t-s) for item i at position s <= t of a history, and T[t,j] = Ahead^(r-t-1) for
// item j at position r > t, it is B = (L'L + Reg I)^-1 L'T over all positions that have a
// later item.
type Slit struct{ Rho, Ahead, Reg float64 }

// tiny is a weight that float32 cannot add to 1.
const tiny = 1.0 / (1 << 24)

// Sums adds L'L to past and L'T to next; firstPast and firstNext are their first rows. It
// skips items so far away that their weight is below tiny.
func (s Slit) Sums(w *method.Work, history []uint32, firstPast, firstNext uint32, past, next *method.View) {
	n, half := len(history), SymmetricRows(w.Items)
	mark := w.Mark()
	defer w.Release(mark)
	near, ahead := w.Float64s(n), w.Float64s(n) // by distance: Rho^m, and the sum of Rho^a Ahead^(m-1-a)
	reach, rho, further, sum := 0, 1.0, 1.0, 0.0
	for m := range n {
		near[m], ahead[m] = rho, sum
		sum = float64(s.Rho*sum) + further
		rho, further = rho*s.Rho, further*s.Ahead
		if reach = m + 1; rho < tiny && sum < tiny {
			break
		}
	}
	tail := 0.0 // sum of Rho^2a over the positions from here to the last but one
	for r := n - 1; r >= 0; r-- {
		j := history[r]
		for m := range min(r+1, reach) {
			i := history[r-m]
			if m > 0 {
				next.Row(firstNext + i)[j] += float32(ahead[m])
			}
			x := float64(near[m] * tail)
			if m > 0 && i == j {
				x *= 2
			}
			row, at := half.Place(i, j)
			past.Row(firstPast + row)[at] += float32(x)
		}
		tail = 1 + float64(s.Rho*s.Rho*tail)
	}
}

// CountOnce adds 1 for each distinct item of a list: the device contributes to the item's
// row. first is the first row of count.
func CountOnce(w *method.Work, list []uint32, first uint32, count *method.View) {
	mark := w.Mark()
	defer w.Release(mark)
	seen := w.Floats(w.Items)
	clear(seen)
	for _, i := range list {
		if seen[i] == 0 {
			seen[i] = 1
			count.Row(first + i)[0]++
		}
	}
}

// Weights computes B from the sums. Rows and columns of items not in keep are zero.
func (s Slit) Weights(keep []bool, past []float32, stride int, next []float32, wide int, dst []float32) {
	n := len(keep)
	clear(dst)
	d := SymmetricRows(n).Factored(past, stride, s.Reg, keep)
	if d == nil {
		return
	}
	for i := range n {
		for j := range n {
			if keep[i] && keep[j] {
				dst[i*wide+j] = next[i*wide+j]
			}
		}
	}
	d.Solve(dst, n, wide)
}

// Scores sets dst to the sum of the weight rows of a history; the newest has weight 1,
// and each earlier one Rho times less.
func (s Slit) Scores(weights *method.View, history []uint32, dst []float32) {
	clear(dst)
	power := 1.0
	for t := len(history) - 1; t >= 0 && power > tiny; t-- {
		vec.Axpy(float32(power), weights.Row(history[t]), dst)
		power *= s.Rho
	}
}
