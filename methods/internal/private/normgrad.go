package private

import (
	"errors"
	"math"
	"strings"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// NormGrad learns item rows from gradients of equal norm, for differential privacy
// (Tacit's own; a form of DP-FedAvg, McMahan et al. 2018). A device stores nothing: it
// solves for its vector p in closed form, as iALS does, and sends (1 - p.q) p for its own
// items and -(p.q) p for negatives, always scaled to a norm of 1. The clipping bound
// therefore needs no tuning, and devices with little data count as much as others. The
// coordinator adds the noisy sum times a learning rate to the rows, and shrinks them
// according to the known noise. When recommending, the newest items of a history have the
// largest weights.
type NormGrad struct {
	Dim   int     `default:"16" min:"1" max:"512" range:"8|16|32" doc:"embedding dimension"`
	LR    float64 `default:"0.01" min:">0" range:"1e-3..0.1,log" doc:"server learning rate, on the sum"`
	A0    float64 `default:"0.1" min:">0" range:"0.01..1,log" doc:"weight of items that the user does not have, in the user's solve"`
	Reg   float64 `default:"0.01" min:">0" range:"1e-3..0.1,log" doc:"regularisation of that solve, per item of the user, for rows of unit length on average"`
	Start float64 `default:"0.1" min:">0" doc:"standard deviation of the initial item rows, per row"`
	Rho   float64 `default:"0.8" min:"0" max:"1" range:"0.7..0.95" doc:"when recommending: decay of the weight per item back"`
	Boost float64 `default:"2" min:"0" range:"1..5" doc:"when recommending: extra weight of the newest item"`
	Base  float64 `default:"0.05" min:"0" range:"0..0.2" doc:"when recommending: weight of old items"`
}

var (
	_ method.Headed         = (*NormGrad)(nil)
	_ method.Ready          = (*NormGrad)(nil)
	_ method.Updater        = (*NormGrad)(nil)
	_ method.Phased         = (*NormGrad)(nil)
	_ method.BudgetWeighter = (*NormGrad)(nil)
	_ method.Checker        = (*NormGrad)(nil)
)

const (
	ngItem  = iota // broadcast
	ngGram         // broadcast: the sum of row row'
	ngGrad         // sum
	ngUser         // ephemeral
	ngRaw          // server: rows before shrinking
	ngNoise        // server: number of steps, and the variance of the noise in the rows
)

// slots returns the slots; their names get a prefix if another method has slots before them.
func (m *NormGrad) slots(from int) []method.Slot {
	d, shared := m.Dim, method.Shared
	out := []method.Slot{
		ngItem: {
			Name: "item", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: d,
			Init: method.Init{Kind: method.Normal, A: m.Start / math.Sqrt(float64(d))}, Doc: "item rows",
		},
		ngGram: {
			Name: "gram", Scope: shared, Upload: method.Broadcast, Rows: d, Dim: d,
			Doc: "Gram matrix of the item rows",
		},
		ngGrad: {
			Name: "gradient", Scope: shared, Upload: method.Sum, PerItem: true, Dim: d,
			Doc: "gradient of the rows, at unit length",
		},
		ngUser: {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: d, Doc: "the user's vector"},
		ngRaw:  {Name: "raw", Scope: method.Server, PerItem: true, Dim: d, Doc: "rows before shrinking"},
		ngNoise: {Name: "told", Scope: method.Server, Rows: 1, Dim: 2, Doc: "number of steps, and the variance " +
			"of the noise " +
			"in the rows"},
	}
	for i := range out {
		out[i].Name = strings.Repeat("g-", min(from, 1)) + out[i].Name
	}
	return out
}

func (m *NormGrad) Slots(int) []method.Slot { return m.slots(0) }

func (m *NormGrad) Head() *method.Head {
	return &method.Head{Item: ngItem, Vector: ngUser, Bias: method.NoBias}
}

func (m *NormGrad) Logits(w *method.Work, b *method.Batch, out []float32) {
	learn.Dot(method.Head{Item: ngItem, Vector: ngUser, Bias: method.NoBias}).Logits(w, b, out)
}

func (m *NormGrad) Phase(int, int) (int, string) { return 0, "descend" }

// BudgetWeight gives all rounds the same share.
func (m *NormGrad) BudgetWeight(int, int) float64 { return 1 }

func (m *NormGrad) Visit(int) method.Visit {
	return method.Visit{Run: func(w *method.Work) { m.send(w, w.View) }}
}

// send adds the gradient at unit norm. v starts at the method's first slot.
func (m *NormGrad) send(w *method.Work, v []method.View) {
	mark := w.Mark()
	defer w.Release(mark)
	s, from := &w.Samples, len(w.View)-len(v)
	p := m.solve(w, v, w.History, learn.Recency{Base: 1})
	top := uint32(0)
	for _, pos := range s.Pos {
		top = max(top, pos)
	}
	by, square := w.Floats(int(top)+1), 0.0
	clear(by)
	for x, pos := range s.Pos { // an item may be drawn more than once
		by[pos] += s.Y[x] - vec.Dot(p, v[ngItem].Row(s.Item[x]))
	}
	for _, c := range by {
		square += float64(float64(c) * float64(c))
	}
	square = float64(square * float64(vec.Dot(p, p))) // rounded, or square-square may be fused and not 0
	unit := float32(1 / math.Sqrt(square))
	for x, pos := range s.Pos {
		if by[pos] != 0 && square > 0 && square-square == 0 {
			vec.Axpy(by[pos]*unit, p, v[ngGrad].Row(s.Wr[from+ngGrad][x]))
			by[pos] = 0
		}
	}
}

// solve computes the user's vector from a history, with items weighted by recency.
func (m *NormGrad) solve(w *method.Work, v []method.View, history []uint32, r learn.Recency) []float32 {
	mark := w.Mark()
	defer w.Release(mark)
	p, mean := v[ngUser].Val, 0.0
	items, weight, total := r.Weights(w, history)
	for i := range m.Dim {
		mean += float64(v[ngGram].Val[i*v[ngGram].Stride+i])
	}
	reg := m.Reg * (total + float64(m.A0*float64(w.Items))) * mean / float64(w.Items)
	learn.RidgeSolve(w, &v[ngItem], &v[ngGram], items, weight, weight, m.A0, reg+1e-12, p)
	return p
}

func (m *NormGrad) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { m.solve(w, w.View, w.History, m.recency()) }}
}

func (m *NormGrad) recency() learn.Recency {
	return learn.Recency{Rho: m.Rho, Boost: m.Boost, Base: m.Base}
}

func (m *NormGrad) Update(g *method.Global) { m.step(g, 0) }

// step moves the rows and shrinks the broadcast copy according to the known noise (James
// and Stein 1961). from is the method's first slot.
func (m *NormGrad) step(g *method.Global, from int) {
	item, raw, noise := g.Value[from+ngItem], g.Value[from+ngRaw], g.Value[from+ngNoise]
	if noise[0] == 0 {
		copy(raw, item)
	}
	rate, s := m.LR*float64(g.Users)/float64(g.Devices), g.Stride[from+ngItem]
	vec.Axpy(float32(rate), g.Aggregate[from+ngGrad], raw)
	noise[0], noise[1] = noise[0]+1, noise[1]+float32(float64(rate*g.Noise)*rate*g.Noise)
	Shrink(m.Dim, s, float64(noise[1]), raw, item)
	learn.Gram(item, g.Items, m.Dim, s, g.Value[from+ngGram])
}

func (m *NormGrad) Check() error {
	if m.Boost+m.Base == 0 {
		return errors.New("boost = 0 and base = 0: at least one must be above 0")
	}
	return nil
}
