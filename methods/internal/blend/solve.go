package blend

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/closed"
	"github.com/tacit-rec/tacit/vec"
)

// solver is shared-curvature iALS (closed.IALS) whose steps use sums over a pass. Its slots are
// consecutive from first on.
type solver struct {
	first int
	dim   int
}

// The slots of a solver, relative to its first.
const (
	solveItem   = iota // broadcast
	solveGram          // broadcast: the sum of row row'
	solveGrad          // sum
	solveOuter         // sum: p p'
	solveCurve         // sum: n p p'
	solveCount         // sum: 1 for each item that a device has
	solveUser          // ephemeral: p
	solveMove          // server: momentum
	solveN             // server: devices that have an item
	solveGrads         // server: the sums of a pass
	solveOuters        //
	solveCurves        //
	solveCounts        //
	solveMet           // server: devices and rounds in these sums, and the number of steps
	solveSlots
)

// The settings of the solver. Rows that fewer than few devices have are not learnt: their sums would reveal a
// device's vector.
const (
	solveA0  = 0.1
	solveReg = 0.01
	few      = 2
	// solveLevels is the precision of gradients in narrow sums, as in closed.IALS; counts are exact at any.
	solveLevels = 255
)

// rowLimit bounds the numbers of item rows, as that of closed.IALS does.
const rowLimit = 1000

func (s solver) slots(items int) []method.Slot {
	d, shared, server, reach := s.dim, method.Shared, method.Server, 64/float64(s.dim)
	return []method.Slot{
		solveItem: {
			Name: "item", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: d, Limit: rowLimit,
			Doc: "item rows of the closed-form part",
		},
		solveGram: {
			Name: "gram", Scope: shared, Upload: method.Broadcast, Rows: d, Dim: d,
			Doc: "Gram matrix of the item rows",
		},
		solveGrad: {
			Name: "gradient", Scope: shared, Upload: method.Sum, PerItem: true, Dim: d, Range: reach,
			Levels: solveLevels, Doc: "gradient of the rows of a device's own items",
		},
		solveOuter: {
			Name: "outer", Scope: shared, Upload: method.Sum, Rows: d, Dim: d, Range: reach, HighPrecision: true,
			Doc: "outer product of the user's vector",
		},
		solveCurve: {
			Name: "curve", Scope: shared, Upload: method.Sum, Rows: d, Dim: d, Range: reach * float64(items) / 2,
			HighPrecision: true, Doc: "the same, times the number of the device's items",
		},
		solveCount: {
			Name: "own", Scope: shared, Upload: method.Sum, PerItem: true, Dim: 1, Range: 1,
			Levels: solveLevels, Doc: "1 for each item that a device has",
		},
		solveUser: {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: d, Doc: "the user's vector"},
		solveMove: {Name: "move", Scope: server, PerItem: true, Dim: d, Doc: "momentum of the item rows"},
		solveN: {
			Name: "n", Scope: server, PerItem: true, Dim: 1,
			Doc: "estimated number of devices that have each item",
		},
		solveGrads:  {Name: "gradients", Scope: server, PerItem: true, Dim: d, Doc: "gradients of a pass"},
		solveOuters: {Name: "outers", Scope: server, Rows: d, Dim: d, Doc: "outer products of a pass"},
		solveCurves: {Name: "curves", Scope: server, Rows: d, Dim: d, Doc: "curvature of a pass"},
		solveCounts: {Name: "owns", Scope: server, PerItem: true, Dim: 1, Doc: "items of a pass"},
		solveMet: {
			Name: "met", Scope: server, Rows: 1, Dim: 3,
			Doc: "devices and rounds of a pass, and the number of steps",
		},
	}
}

// solves reports whether the solve passes transfer a slot.
func (s solver) solves(slot int) bool { return slot >= s.first && slot <= s.first+solveCount }

// serves reports whether a device needs a slot to solve for its vector.
func (s solver) serves(slot int) bool { return slot == s.first+solveItem || slot == s.first+solveGram }

// visit adds the sums of a device for its distinct items.
func (s solver) visit(w *method.Work, items []uint32) {
	if len(items) == 0 {
		return
	}
	v := w.View[s.first:]
	p, item, grad, outer, curve := v[solveUser].Val, &v[solveItem], &v[solveGrad], &v[solveOuter], &v[solveCurve]
	learn.FitUser(w, item, &v[solveGram], items, solveA0, solveReg, p)
	rows, counts := firstRow(w, s.first+solveGrad), firstRow(w, s.first+solveCount)
	for _, i := range items {
		vec.Axpy(1-vec.Dot(p, item.Row(i)), p, grad.Row(rows+i))
		v[solveCount].Row(counts + i)[0]++
	}
	n := float32(len(items))
	for i := range s.dim {
		vec.Axpy(p[i], p, outer.Val[i*outer.Stride:(i+1)*outer.Stride])
		vec.Axpy(n*p[i], p, curve.Val[i*curve.Stride:(i+1)*curve.Stride])
	}
}

// firstRow returns the row of item 0 in the sums of a slot.
func firstRow(w *method.Work, slot int) uint32 { return w.Samples.Wr[slot][0] - w.Samples.Item[0] }

// begin sets the item rows before the first step: the first numbers of each row of features, from the given
// column on. Rows that an earlier run has solved stay, but its momentum and its counts do not.
func (s solver) begin(g *method.Global, features, column int) {
	for _, x := range []int{solveMove, solveN, solveGrads, solveOuters, solveCurves, solveCounts} {
		clear(g.Value[s.first+x])
	}
	met := g.Value[s.first+solveMet]
	solved := met[2] > 0
	clear(met)
	if solved {
		return
	}
	from, to := g.Value[features], g.Value[s.first+solveItem]
	wide, narrow := g.Stride[features], g.Stride[s.first+solveItem]
	for i := range g.Items {
		vec.ScaleTo(startScale, from[i*wide+column:][:s.dim], to[i*narrow:][:s.dim])
	}
	learn.Gram(to, g.Items, s.dim, narrow, g.Value[s.first+solveGram])
}

// startScale makes rows of features, whose numbers have a mean square of about 1, as long as item rows are.
const startScale = 0.1

// gather adds the sums of a round to those of the pass.
func (s solver) gather(g *method.Global) {
	for _, x := range [][2]int{
		{solveGrad, solveGrads}, {solveOuter, solveOuters}, {solveCurve, solveCurves}, {solveCount, solveCounts},
	} {
		vec.Add(g.Aggregate[s.first+x[0]], g.Value[s.first+x[1]])
	}
	met := g.Value[s.first+solveMet]
	met[0] += float32(g.Devices)
	met[1]++
}

// step takes a Newton step with the sums of a pass, and clears them.
func (s solver) step(g *method.Global) {
	v, stride := g.Value[s.first:], g.Stride[s.first+solveItem]
	met := v[solveMet]
	if all := method.PassScale(g.Users, float64(met[0])); all > 0 {
		noise := g.Noise * math.Sqrt(float64(met[1]))
		for _, x := range []int{solveOuters, solveCurves} {
			closed.Semidefinite(v[x], s.dim, stride, noise)
		}
		c := closed.NewtonStep{
			Dim: s.dim, Stride: stride, A0: solveA0, Reg: solveReg, Gamma: 2, Momentum: 0.4, Step: 1, Few: few,
		}
		seen, _ := learn.Column(v[solveCounts], g.Items, g.Stride[s.first+solveCounts])
		c.Count(int(met[2]), all, v[solveCounts], v[solveN])
		n, rows := learn.Column(v[solveN], g.Items, g.Stride[s.first+solveN])
		if met[2] == 0 {
			c.Begin(seen, v[solveItem])
		}
		met[2]++
		vec.Scale(float32(all), v[solveOuters])
		vec.Scale(float32(all/max(rows, 1)), v[solveCurves])
		c.Move(n, seen, g.Users, v[solveOuters], v[solveCurves], v[solveGrads], v[solveMove], v[solveItem])
		learn.Gram(v[solveItem], g.Items, s.dim, stride, v[solveGram])
	}
	for _, x := range []int{solveGrads, solveOuters, solveCurves, solveCounts} {
		clear(v[x])
	}
	met[0], met[1] = 0, 0
}
