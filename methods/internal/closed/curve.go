package closed

import (
	"cmp"
	"slices"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/vec"
)

// NewtonStep is a Newton step on item rows. All items share one curvature matrix, scaled
// by the number of devices that have the item.
type NewtonStep struct {
	Dim, Stride                          int
	A0, Reg, Gamma, Momentum, Step, Blur float64
	Few                                  int // items that fewer devices have are not learnt
}

// rowLimit bounds the numbers of item rows. Those of honest rounds stay below 10: rows and users' vectors
// share their scale, and their products are about 1.
const rowLimit = 1000

// Mix adds scale times a round's sum to the moving average of the previous rounds, which
// keeps the fraction Blur.
func (c NewtonStep) Mix(scale float64, got, value []float32) {
	keep := float32(c.Blur)
	if !slices.ContainsFunc(value, func(x float32) bool { return x != 0 }) {
		keep = 0
	}
	vec.Scale(keep, value)
	vec.Axpy((1-keep)*float32(scale), got, value)
}

// Count updates the estimate of how many devices have each item: the mean over the rounds
// so far, scaled to all devices. round starts at 0.
func (c NewtonStep) Count(round int, all float64, got, value []float32) {
	for i, x := range got {
		value[i] += (float32(float32(all)*x) - value[i]) / float32(round+1)
	}
}

// Begin clears the rows of items that fewer than Few devices sent. They score zero until
// they are learnt.
func (c NewtonStep) Begin(seen []float64, value []float32) {
	for i, n := range seen {
		if n < float64(c.Few) {
			clear(value[i*c.Stride : (i+1)*c.Stride])
		}
	}
}

// Running updates the running mean of value. times[0] counts the values in the mean.
func Running(times, value, mean []float32) {
	times[0]++
	vec.Scale(1-1/times[0], mean)
	vec.Axpy(1/times[0], value, mean)
}

// Move takes the step:
//
//	move = Momentum move + (Gamma n C + A0 G + r I)^-1 (n/seen got - A0 G q - r q)
//	q += Step move,  r = Reg (n + A0 users)
//
// n is the number of devices that have the item, and seen the number of those in this
// round's sums. Rows with seen below Few do not change: their sum would reveal a device's
// vector.
func (c NewtonStep) Move(n, seen []float64, users int, g, curve, got, move, value []float32) {
	d, s, items := c.Dim, c.Stride, len(n)
	order := make([]int, items)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(n[a], n[b]) })
	pull := make([]float32, items*s) // G q
	vec.Gemm(items, d, d, vec.Rows(value, s), vec.Rows(g, s), make([]float32, vec.GemmRoom(d)), vec.Rows(pull, s))
	h, y := make([]float64, d*d), make([]float64, d)
	last, ok := -1.0, false
	for _, i := range order {
		row, mv := value[i*s:(i+1)*s], move[i*s:(i+1)*s]
		if seen[i] < float64(c.Few) {
			continue
		}
		r, all := float64(c.Reg*(n[i]+float64(c.A0*float64(users)))), n[i]/seen[i]
		if n[i] != last {
			c.bend(n[i], r, g, curve, h)
			ok, last = learn.Cholesky(h, d), n[i]
		}
		if !ok {
			continue
		}
		for k := range d {
			y[k] = float64(all*float64(got[i*s+k])) - float64(c.A0*float64(pull[i*s+k])) - float64(r*float64(row[k]))
		}
		learn.CholeskySolve(h, y)
		for k := range d {
			mv[k] = float32(float64(c.Momentum*float64(mv[k])) + y[k])
			row[k] += float32(float32(c.Step) * mv[k])
		}
	}
}

// bend sets h to the lower triangle of Gamma n C + A0 G + r I.
func (c NewtonStep) bend(n, r float64, g, curve []float32, h []float64) {
	for a := range c.Dim {
		for b := range a + 1 {
			h[a*c.Dim+b] = float64(c.Gamma*n*float64(curve[a*c.Stride+b])) + float64(c.A0*float64(g[a*c.Stride+b]))
		}
		h[a*c.Dim+a] += r
	}
}

func (m *IALS) curve(stride int) NewtonStep {
	return NewtonStep{
		Dim: m.Dim, Stride: stride, A0: m.A0, Reg: m.Reg, Gamma: m.Gamma, Momentum: m.Momentum,
		Step: m.Step, Blur: m.Blur, Few: m.Few,
	}
}
