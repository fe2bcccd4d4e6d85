package closed

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// FCF is federated collaborative filtering (Ammad-ud-din et al. 2019): implicit
// alternating least squares split between device and coordinator. A device solves for its
// vector x in closed form from the item rows and does not store it. It sends the
// contribution of its own items to the gradient of the item rows, and the matrix x x'.
// For items that the device does not have, the gradient is that matrix times the row, so
// the coordinator computes the same sum as if every row had been sent. The coordinator
// updates the rows with Adam.
type FCF struct {
	Dim   int     `default:"32" min:"1" max:"1024" doc:"embedding dimension"`
	Alpha float32 `default:"4" min:"0" range:"0.5..50,log" doc:"confidence of an item that the user has is 1 + alpha, of others 1"`
	Reg   float32 `default:"1" min:">0" range:"0.1..100,log" doc:"regularisation of users' vectors and of item rows"`
	LR    float32 `default:"0.05" min:"0" range:"5e-3..0.5,log" doc:"learning rate of the coordinator's Adam"`
	Start float64 `default:"0.1" min:"0" doc:"standard deviation of the item rows at the start"`
}

var (
	_ method.Headed  = (*FCF)(nil)
	_ method.Ready   = (*FCF)(nil)
	_ method.Updater = (*FCF)(nil)
)

const (
	fcfItem  = iota // broadcast
	fcfGram         // broadcast: the sum of row row'
	fcfGrad         // sum
	fcfOuter        // sum: x x'
	fcfUser         // ephemeral: x
	fcfM            // server: Adam's moments and steps
	fcfV
	fcfSteps
)

func (m *FCF) Slots(int) []method.Slot {
	d, shared, server := m.Dim, method.Shared, method.Server
	return []method.Slot{
		fcfItem: {
			Name: "item", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: d,
			Init: method.Init{Kind: method.Normal, A: m.Start}, Doc: "item rows",
		},
		fcfGram: {
			Name: "gram", Scope: shared, Upload: method.Broadcast, Rows: d, Dim: d,
			Doc: "Gram matrix of the item rows, after the first round",
		},
		fcfGrad: {
			Name: "gradient", Scope: shared, Upload: method.Sum, PerItem: true, Dim: d,
			Doc: "gradient of the rows of a device's own items",
		},
		fcfOuter: {
			Name: "outer", Scope: shared, Upload: method.Sum, Rows: d, Dim: d,
			Doc: "outer product of the user's vector",
		},
		fcfUser:  {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: d, Doc: "the user's vector"},
		fcfM:     {Name: "item.m", Scope: server, PerItem: true, Dim: d, Doc: "Adam's first moment"},
		fcfV:     {Name: "item.v", Scope: server, PerItem: true, Dim: d, Doc: "Adam's second moment"},
		fcfSteps: {Name: "steps", Scope: server, Rows: 1, Dim: 1, Doc: "Adam's count of steps"},
	}
}

func (m *FCF) Head() *method.Head {
	return &method.Head{Item: fcfItem, Vector: fcfUser, Bias: method.NoBias}
}

func (m *FCF) Logits(w *method.Work, b *method.Batch, out []float32) {
	learn.Dot(*m.Head()).Logits(w, b, out)
}

func (m *FCF) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { m.solve(w, w.Batch(0, len(w.Samples.Item))) }}
}

func (m *FCF) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		item, grad, outer := &w.View[fcfItem], &w.View[fcfGrad], &w.View[fcfOuter]
		if w.View[fcfGram].Val[0] == 0 {
			return // the coordinator has not computed the Gram matrix yet
		}
		b := w.Batch(0, len(w.Samples.Item))
		x := m.solve(w, b)
		for i, r := range b.Rd[fcfItem] {
			s := vec.Dot(x, item.Row(r))
			vec.Axpy(float32((1+float32(m.Alpha*b.Y[i]))*(1-s))+s, x, grad.Row(b.Wr[fcfGrad][i]))
		}
		for i := range m.Dim {
			vec.Axpy(x[i], x, outer.Val[i*outer.Stride:(i+1)*outer.Stride])
		}
	}}
}

// solve sets the user's vector to (gram + alpha sum k y y' + reg I)^-1 sum (1+alpha k) y,
// where k is the number of times the user has the item.
func (m *FCF) solve(w *method.Work, b *method.Batch) []float32 {
	mark := w.Mark()
	defer w.Release(mark)
	user, weight, target := w.View[fcfUser].Val, w.Floats(b.N), w.Floats(b.N)
	for i, k := range b.Y {
		weight[i] = float32(m.Alpha * k)
		target[i] = 1 + weight[i]
	}
	learn.RidgeSolve(w, &w.View[fcfItem], &w.View[fcfGram], b.Rd[fcfItem], weight, target, 1, float64(m.Reg), user)
	return user
}

// Update computes the gradient of a row, -2 got + 2 outer row + 2 reg row, with the
// cohort's sums scaled up to all users. Before the first Gram matrix devices send zeros,
// and Update ignores them: with noise they would look like a gradient.
func (m *FCF) Update(g *method.Global) {
	d, s := m.Dim, g.Stride[fcfItem]
	value, grad := g.Value[fcfItem], g.Aggregate[fcfGrad]
	if g.Value[fcfGram][0] != 0 {
		all := float32(g.Users) / float32(g.Devices)
		vec.Scale(-all, grad)
		vec.Scale(all, g.Aggregate[fcfOuter])
		vec.Gemm(g.Items, d, d, vec.Rows(value, s), vec.Rows(g.Aggregate[fcfOuter], g.Stride[fcfOuter]),
			make([]float32, vec.GemmRoom(d)), vec.Rows(grad, s))
		vec.Axpy(m.Reg, value, grad)
		vec.Scale(2, grad)
		learn.NextAdam(m.LR, &g.Value[fcfSteps][0]).Move(grad, g.Value[fcfM], g.Value[fcfV], value)
	}
	learn.Gram(value, g.Items, d, s, g.Value[fcfGram])
}
