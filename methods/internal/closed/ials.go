// Package closed holds methods that solve instead of taking gradient steps: their rounds
// are exact sums.
package closed

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// IALS is implicit alternating least squares with the objective and weights of Rendle et
// al. (2022) and with shared curvature, which is Tacit's own. A device stores nothing: it
// solves for its vector p in closed form from the item rows, and sends three sums: the
// gradient (1 - p.q) p for each of its items, and the matrices p p' and n p p', where n
// is the number of its items. ALS would need a matrix per item; here all items share one,
// so an update is only as large as the item table. The step is zero exactly where the
// gradient is zero, so it converges to the solution of ALS. The first round only counts
// the devices that have each item; later rounds refine the counts.
type IALS struct {
	Dim      int     `default:"64" min:"1" max:"512" range:"16|32|64|128" doc:"embedding dimension"`
	A0       float64 `default:"0.1" min:">0" range:"0.01..1,log" doc:"weight of items that the user does not have"`
	Reg      float64 `default:"0.01" min:">0" range:"1e-3..0.1,log" doc:"regularisation, per item of a user and per user of an item"`
	Gamma    float64 `default:"2" min:">0" range:"1|1.5|2|4" doc:"bound on an item's curvature, relative to the mean"`
	Momentum float64 `default:"0.4" min:"0" max:"<1" range:"0|0.4|0.5" doc:"momentum of the server steps"`
	Step     float64 `default:"1" min:">0" range:"0.15|0.3|1" doc:"length of the server steps; use less than 1 with small cohorts"`
	Blur     float64 `default:"0" min:"0" max:"<1" range:"0|0.9" doc:"decay of the previous rounds' matrices; use 0.9 with small cohorts"`
	Start    float64 `default:"0.1" doc:"standard deviation of the initial item rows, per row"`
	Average  int     `default:"0" min:"0" range:"0|20" doc:"average the rows of this many last rounds, at most half of all; use 20 with small cohorts"`
	Few      int     `default:"2" min:"1" range:"1|2|5" doc:"rows that fewer devices of a round have are not learnt in it: their sums would reveal a device's vector"`
}

var (
	_ method.Headed      = (*IALS)(nil)
	_ method.Ready       = (*IALS)(nil)
	_ method.Updater     = (*IALS)(nil)
	_ method.PhasedSlots = (*IALS)(nil)
	_ method.FinalRound  = (*IALS)(nil)

	_ method.PopularityRanker = (*IALS)(nil)
)

const (
	alsItem  = iota // broadcast
	alsGram         // broadcast: the sum of row row'
	alsGrad         // sum
	alsOuter        // sum: p p'
	alsCurve        // sum: n p p'
	alsCount        // sum: 1 for each item that a device has
	alsUser         // ephemeral: p
	alsMove         // server: momentum
	alsN            // server: devices that have an item
	alsG            // server: the sum of p p' over all users
	alsC            // server: the mean curvature
	alsMean         // server: the mean rows of the last rounds
	alsTimes        // server: the number of rounds in the mean
	alsSlots
)

// reach bounds the numbers of p p' and of a gradient: with fewer dimensions the rows are
// longer.
func (m *IALS) reach() float64 { return 64 / float64(m.Dim) }

func (m *IALS) Slots(items int) []method.Slot {
	d, shared, server, reach := m.Dim, method.Shared, method.Server, m.reach()
	return []method.Slot{
		alsItem: {
			Name: "item", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: d,
			Init: method.Init{Kind: method.Normal, A: m.Start / float64(d) * 8}, Limit: rowLimit, Doc: "item rows",
		},
		alsGram: {
			Name: "gram", Scope: shared, Upload: method.Broadcast, Rows: d, Dim: d,
			Doc: "Gram matrix of the item rows",
		},
		alsGrad: {
			Name: "gradient", Scope: shared, Upload: method.Sum, PerItem: true, Dim: d, Range: reach, Levels: 255,
			Doc: "gradient of the rows of a device's own items",
		},
		alsOuter: {
			Name: "outer", Scope: shared, Upload: method.Sum, Rows: d, Dim: d, Range: reach, HighPrecision: true,
			Doc: "outer product of the user's vector",
		},
		alsCurve: {
			Name: "curve", Scope: shared, Upload: method.Sum, Rows: d, Dim: d, Range: reach * float64(items) / 2,
			HighPrecision: true, Doc: "the same, times the number of the device's items",
		},
		alsCount: {
			Name: "count", Scope: shared, Upload: method.Sum, PerItem: true, Dim: 1, Range: 1,
			Doc: "1 for each item that a device has",
		},
		alsUser: {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: d, Doc: "the user's vector"},
		alsMove: {Name: "move", Scope: server, PerItem: true, Dim: d, Doc: "momentum"},
		alsN: {Name: "n", Scope: server, PerItem: true, Dim: 1, Doc: "estimated number of devices that have " +
			"each item"},
		alsG: {
			Name: "users", Scope: server, Rows: d, Dim: d,
			Doc: "sum of the outer products of all users' vectors",
		},
		alsC: {Name: "curvature", Scope: server, Rows: d, Dim: d, Doc: "curvature of the mean item"},
		alsMean: {
			Name: "mean", Scope: server, PerItem: true, Dim: d, Limit: rowLimit,
			Doc: "mean item rows of the last rounds",
		},
		alsTimes: {Name: "times", Scope: server, Rows: 1, Dim: 1, Doc: "number of rounds in the mean"},
	}
}

func (m *IALS) Head() *method.Head {
	return &method.Head{Item: alsItem, Vector: alsUser, Bias: method.NoBias}
}

func (m *IALS) Logits(w *method.Work, b *method.Batch, out []float32) {
	learn.Dot(*m.Head()).Logits(w, b, out)
}

func (m *IALS) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { m.solve(w, w.Batch(0, len(w.Samples.Item))) }}
}

func (m *IALS) Visit(int) method.Visit { return method.Visit{HistoryOnly: true, Run: m.visit} }

func (m *IALS) visit(w *method.Work) {
	b := w.Batch(0, len(w.Samples.Item))
	for _, r := range b.Wr[alsCount] {
		w.View[alsCount].Row(r)[0]++
	}
	if w.Phase == alsCounts {
		return
	}
	item, grad, outer, curve := &w.View[alsItem], &w.View[alsGrad], &w.View[alsOuter], &w.View[alsCurve]
	p := m.solve(w, b)
	for i, r := range b.Rd[alsItem] {
		vec.Axpy(1-vec.Dot(p, item.Row(r)), p, grad.Row(b.Wr[alsGrad][i]))
	}
	for i := range m.Dim {
		vec.Axpy(p[i], p, outer.Val[i*outer.Stride:(i+1)*outer.Stride])
		vec.Axpy(float32(b.N)*p[i], p, curve.Val[i*curve.Stride:(i+1)*curve.Stride])
	}
}

func (m *IALS) solve(w *method.Work, b *method.Batch) []float32 {
	p := w.View[alsUser].Val
	learn.FitUser(w, &w.View[alsItem], &w.View[alsGram], b.Rd[alsItem], m.A0, m.Reg, p)
	return p
}

// Update takes a Newton step with the curvature that all items share.
func (m *IALS) Update(g *method.Global) {
	c, all := m.curve(g.Stride[alsItem]), float64(g.Users)/float64(g.Devices)
	item, mean := g.Value[alsItem], g.Value[alsMean]
	seen, _ := learn.Column(g.Aggregate[alsCount], g.Items, g.Stride[alsCount])
	c.Count(g.Round, all, g.Aggregate[alsCount], g.Value[alsN])
	if g.Phase == alsCounts {
		c.Begin(seen, item)
	} else {
		n, rows := learn.Column(g.Value[alsN], g.Items, g.Stride[alsN])
		for _, slot := range []int{alsOuter, alsCurve} {
			Semidefinite(g.Aggregate[slot], m.Dim, g.Stride[slot], g.Noise)
		}
		c.Mix(all, g.Aggregate[alsOuter], g.Value[alsG])
		c.Mix(all/rows, g.Aggregate[alsCurve], g.Value[alsC])
		c.Move(n, seen, g.Users, g.Value[alsG], g.Value[alsC], g.Aggregate[alsGrad], g.Value[alsMove], item)
	}
	if g.Phase > alsSolves {
		Running(g.Value[alsTimes], item, mean)
	}
	if g.Phase == alsSettles {
		copy(item, mean)
	}
	learn.Gram(item, g.Items, m.Dim, c.Stride, g.Value[alsGram])
}
