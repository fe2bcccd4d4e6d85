// Package closed holds methods that solve instead of taking gradient steps: their rounds
// are exact sums. Tacit's default method is one of them.
package closed

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// IALS is implicit alternating least squares, with the objective and the weights of
// Rendle et al. (2022), and with shared curvature, which is Tacit's own. A device keeps
// nothing: from the item rows it solves for its vector p in closed form, and sends three
// sums: of each of its items the gradient (1 - p.q) p, and the matrices p p' and n p p',
// where n is how many items it has. In ALS the coordinator would need a matrix for each
// item; here all items share one, so an update is as large as the table. The step is zero
// where the gradient is, so what it ends at is what ALS ends at. The first round counts
// how many devices have each item, and the others count on.
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
	alsG            // server: p p' of all users
	alsC            // server: the mean curvature
	alsMean         // server: the mean rows of the last rounds
	alsTimes        // server: how many rounds they are of
	alsSlots
)

// reach is that of the numbers of p p' and of a gradient: rows grow as they get shorter.
func (m *IALS) reach() float64 { return 64 / float64(m.Dim) }

func (m *IALS) Slots(items int) []method.Slot {
	d, shared, server, reach := m.Dim, method.Shared, method.Server, m.reach()
	return []method.Slot{
		alsItem: {
			Name: "item", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: d,
			Init: method.Init{Kind: method.Normal, A: m.Start / float64(d) * 8}, Doc: "item rows",
		},
		alsGram: {Name: "gram", Scope: shared, Upload: method.Broadcast, Rows: d, Dim: d, Doc: "the item rows' products"},
		alsGrad: {
			Name: "gradient", Scope: shared, Upload: method.Sum, PerItem: true, Dim: d, Range: reach,
			Doc: "gradient of the rows of a device's own items",
		},
		alsOuter: {
			Name: "outer", Scope: shared, Upload: method.Sum, Rows: d, Dim: d, Range: reach, HighPrecision: true,
			Doc: "a user's vector times itself",
		},
		alsCurve: {
			Name: "curve", Scope: shared, Upload: method.Sum, Rows: d, Dim: d, Range: reach * float64(items) / 2,
			HighPrecision: true, Doc: "the same, times the number of its items",
		},
		alsCount: {
			Name: "count", Scope: shared, Upload: method.Sum, PerItem: true, Dim: 1, Range: 1,
			Doc: "1 for each item that a device has",
		},
		alsUser:  {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: d, Doc: "the user's vector"},
		alsMove:  {Name: "move", Scope: server, PerItem: true, Dim: d, Doc: "momentum"},
		alsN:     {Name: "n", Scope: server, PerItem: true, Dim: 1, Doc: "devices that have an item"},
		alsG:     {Name: "users", Scope: server, Rows: d, Dim: d, Doc: "users' vectors times themselves"},
		alsC:     {Name: "curvature", Scope: server, Rows: d, Dim: d, Doc: "that of the mean item"},
		alsMean:  {Name: "mean", Scope: server, PerItem: true, Dim: d, Doc: "item rows, over the last rounds"},
		alsTimes: {Name: "times", Scope: server, Rows: 1, Dim: 1, Doc: "how many rounds these are"},
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

// Update steps along the gradient, bent by what all items share.
func (m *IALS) Update(g *method.Global) {
	c, all := m.curve(g.Stride[alsItem]), float64(g.Users)/float64(g.Devices)
	item, mean := g.Value[alsItem], g.Value[alsMean]
	seen, _ := learn.Column(g.Aggregate[alsCount], g.Items, g.Stride[alsCount])
	c.Count(g.Round, all, g.Aggregate[alsCount], g.Value[alsN])
	if g.Phase == alsCounts {
		c.Begin(seen, item)
	} else {
		n, rows := learn.Column(g.Value[alsN], g.Items, g.Stride[alsN])
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

func (m *IALS) curve(stride int) NewtonStep {
	return NewtonStep{
		Dim: m.Dim, Stride: stride, A0: m.A0, Reg: m.Reg, Gamma: m.Gamma, Momentum: m.Momentum,
		Step: m.Step, Blur: m.Blur, Few: m.Few,
	}
}
