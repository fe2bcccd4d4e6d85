package learn

import (
	"cmp"
	"slices"

	"github.com/tacit-rec/tacit/vec"
)

// Curve is a Newton step on item rows in which all items share one curvature, but
// for how many devices have them.
type Curve struct {
	Dim, Stride                    int
	A0, Reg, Gamma, Momentum, Step float64
	Few                            int // items that fewer devices have stay where they are
}

// Move takes the step: move = Momentum move + (Gamma n C + A0 G + r I)^-1 (all got - A0
// G q - r q), q += Step move, where r = Reg (n + A0 users). n is by row, padded to nStride.
func (c *Curve) Move(items, users int, all float64, n []float32, nStride int, g, curve, got, move, value []float32) {
	d, s := c.Dim, c.Stride
	order := make([]int, items)
	for i := range order {
		order[i] = i
	}
	count := func(i int) float64 { return float64(n[i*nStride]) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(count(a), count(b)) })
	pull := make([]float32, items*s) // G q
	vec.Gemm(items, d, d, vec.Rows(value, s), vec.Rows(g, s), make([]float32, vec.GemmRoom(d)), vec.Rows(pull, s))
	h, y := make([]float64, d*d), make([]float64, d)
	last, ok := -1.0, false
	for _, i := range order {
		ni := count(i)
		row, mv := value[i*s:(i+1)*s], move[i*s:(i+1)*s]
		if ni < float64(c.Few) {
			clear(row) // it scores nothing, and shows nobody
			continue
		}
		r := c.Reg * (ni + c.A0*float64(users))
		if ni != last {
			for a := range d {
				for b := range a + 1 {
					h[a*d+b] = float64(c.Gamma*ni*float64(curve[a*s+b])) + float64(c.A0*float64(g[a*s+b]))
				}
				h[a*d+a] += r
			}
			ok, last = Factor(h, d), ni
		}
		if !ok {
			continue
		}
		for k := range d {
			y[k] = float64(all*float64(got[i*s+k])) - float64(c.A0*float64(pull[i*s+k])) - float64(r*float64(row[k]))
		}
		Back(h, y)
		for k := range d {
			mv[k] = float32(float64(c.Momentum*float64(mv[k])) + y[k])
			row[k] += float32(c.Step) * mv[k]
		}
	}
}
