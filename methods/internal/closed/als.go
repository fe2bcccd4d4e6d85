package closed

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// ALS is exact alternating least squares (Hu, Koren and Volinsky 2008, with the objective
// and weights of Rendle et al. 2022), as a control for `ials`. A device solves for its
// vector p, and sends p p' and p for each of its items, so that the coordinator can solve
// for each item exactly. An update has d(d+1)/2 numbers per item: with 64 dimensions, 33
// times as many as that of `ials`. Each round is one sweep, equal to a sweep of
// centralised ALS.
type ALS struct {
	Dim   int     `default:"64" min:"1" max:"256" range:"16|32|64|128" doc:"embedding dimension"`
	A0    float64 `default:"0.1" min:">0" range:"0.01..1,log" doc:"weight of items that the user does not have"`
	Reg   float64 `default:"0.01" min:">0" range:"1e-3..0.1,log" doc:"regularisation, per item of a user and per user of an item"`
	Start float64 `default:"0.1" doc:"standard deviation of the initial item rows, per row"`
	Few   int     `default:"2" min:"1" range:"1|2|5" doc:"rows that fewer devices have are not learnt: their sums would reveal a device's vector"`
}

var (
	_ method.Headed      = (*ALS)(nil)
	_ method.Ready       = (*ALS)(nil)
	_ method.Updater     = (*ALS)(nil)
	_ method.PhasedSlots = (*ALS)(nil)
)

const (
	exactItem   = iota // broadcast
	exactGram          // broadcast: the sum of row row'
	exactSquare        // sum: the lower triangle of p p', for each item
	exactTarget        // sum: p for each item
	exactCount         // sum: 1 for each item
	exactOuter         // sum: p p'
	exactUser          // ephemeral: p
)

func (m *ALS) half() int { return m.Dim * (m.Dim + 1) / 2 }

func (m *ALS) Slots(int) []method.Slot {
	d, shared := m.Dim, method.Shared
	return []method.Slot{
		exactItem: {
			Name: "item", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: d,
			Init: method.Init{Kind: method.Normal, A: m.Start / float64(d) * 8}, Doc: "item rows",
		},
		exactGram: {
			Name: "gram", Scope: shared, Upload: method.Broadcast, Rows: d, Dim: d,
			Doc: "Gram matrix of the item rows",
		},
		exactSquare: {
			Name: "square", Scope: shared, Upload: method.Sum, PerItem: true, Dim: m.half(),
			Doc: "outer product of the user's vector, for each of its items; lower triangle",
		},
		exactTarget: {
			Name: "target", Scope: shared, Upload: method.Sum, PerItem: true, Dim: d,
			Doc: "the user's vector, for each of its items",
		},
		exactCount: {
			Name: "count", Scope: shared, Upload: method.Sum, PerItem: true, Dim: 1,
			Doc: "1 for each item that a device has",
		},
		exactOuter: {
			Name: "outer", Scope: shared, Upload: method.Sum, Rows: d, Dim: d,
			Doc: "outer product of the user's vector",
		},
		exactUser: {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: d, Doc: "the user's vector"},
	}
}

func (m *ALS) Head() *method.Head {
	return &method.Head{Item: exactItem, Vector: exactUser, Bias: method.NoBias}
}

func (m *ALS) Logits(w *method.Work, b *method.Batch, out []float32) {
	learn.Dot(*m.Head()).Logits(w, b, out)
}

func (m *ALS) solve(w *method.Work) []float32 {
	p := w.View[exactUser].Val
	learn.FitUser(w, &w.View[exactItem], &w.View[exactGram], w.Samples.Item, m.A0, m.Reg, p)
	return p
}

func (m *ALS) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { m.solve(w) }}
}

// Phase returns the phases of `ials`: the first round only counts the devices that have
// each item, and the coordinator computes the products of the rows after it.
func (m *ALS) Phase(round, rounds int) (int, string) { return (&IALS{}).Phase(round, rounds) }

func (m *ALS) Transfers(phase, slot int) bool { return phase > 0 || slot == exactCount }

func (m *ALS) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		for _, r := range w.Samples.Wr[exactCount] {
			w.View[exactCount].Row(r)[0]++
		}
		if w.Phase == 0 {
			return
		}
		square, target, outer := &w.View[exactSquare], &w.View[exactTarget], &w.View[exactOuter]
		mark := w.Mark()
		defer w.Release(mark)
		p, pp := m.solve(w), w.Floats(square.Stride)
		clear(pp)
		at := 0
		for i := range m.Dim {
			vec.ScaleTo(p[i], p[:i+1], pp[at:at+i+1])
			vec.Axpy(p[i], p, outer.Val[i*outer.Stride:(i+1)*outer.Stride])
			at += i + 1
		}
		for x, r := range w.Samples.Wr[exactSquare] {
			vec.Add(pp, square.Row(r))
			vec.Add(p, target.Row(w.Samples.Wr[exactTarget][x]))
		}
	}}
}

// Update solves each item: q = (sum p p' over its users + A0 G + r I)^-1 sum p.
func (m *ALS) Update(g *method.Global) {
	s, item := g.Stride[exactItem], g.Value[exactItem]
	if g.Phase > 0 {
		x := Sweep{
			Dim: m.Dim, Stride: s, A0: m.A0, Reg: m.Reg, Few: m.Few, Users: g.Users,
			All: float64(g.Users) / float64(g.Devices),
		}
		n, _ := learn.Column(g.Aggregate[exactCount], g.Items, g.Stride[exactCount])
		x.Items(n, g.Aggregate[exactOuter], g.Aggregate[exactSquare], g.Stride[exactSquare], g.Aggregate[exactTarget],
			item)
	}
	learn.Gram(item, g.Items, m.Dim, s, g.Value[exactGram])
}
