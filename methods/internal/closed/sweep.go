package closed

import "github.com/tacit-rec/tacit/learn"

// Sweep is the item half of a sweep of alternating least squares.
type Sweep struct {
	Dim, Stride int
	A0, Reg     float64
	Few         int     // items that fewer devices sent are not learnt
	Users       int     // users of the federation
	All         float64 // users per reporting device
}

// Items sets each row of item to (square + A0 outer + Reg (n + A0 Users) I)^-1 target.
// The lower triangle of an item's square is a row of wide numbers, and n is the number of
// devices that sent the item.
func (s Sweep) Items(n []float64, outer, square []float32, wide int, target, item []float32) {
	d := s.Dim
	a, y := make([]float64, d*d), make([]float64, d)
	for i, have := range n {
		row := item[i*s.Stride : (i+1)*s.Stride]
		if have < float64(s.Few) {
			clear(row) // it scores zero and reveals no device's vector
			continue
		}
		at := i * wide
		for r := range d {
			for c := range r + 1 {
				a[r*d+c] = s.All * (float64(square[at]) + float64(s.A0*float64(outer[r*s.Stride+c])))
				at++
			}
			a[r*d+r] += float64(s.Reg * (float64(s.All*have) + float64(s.A0*float64(s.Users))))
			y[r] = s.All * float64(target[i*s.Stride+r])
		}
		if learn.Solve(a, y) {
			for k := range d {
				row[k] = float32(y[k])
			}
		}
	}
}
