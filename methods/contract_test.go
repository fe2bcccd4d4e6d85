package methods_test

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// ials tests the contract with a method that differs from PFedRec as much as possible: its
// local training solves instead of taking gradient steps, it sends sums of statistics, and
// it has two phases. It is shared-curvature federated iALS: a device solves for its vector,
// and sends a gradient and two small matrices.
type ials struct {
	Dim   int     `default:"32" doc:"embedding dimension"`
	Alpha float64 `default:"0.3" doc:"weight of what a user did not touch"`
	Reg   float64 `default:"0.01" doc:"regularisation"`
	Gamma float64 `default:"2" doc:"safety factor on the shared curvature"`
	Keep  float64 `default:"0.4" doc:"momentum"`
}

const (
	iaItem  = iota // broadcast
	iaGram         // broadcast: Q'Q
	iaCount        // sum, in the first round
	iaGrad         // sum
	iaG            // sum: p p'
	iaC            // sum: n p p'
	iaUser         // ephemeral: p
	iaMove         // server: momentum
	iaN            // server: counts
)

func (m *ials) Slots(int) []method.Slot {
	d := m.Dim
	sum := func(name string, items bool, rows, dim int) method.Slot {
		return method.Slot{Name: name, Scope: method.Shared, Upload: method.Sum, PerItem: items, Rows: rows, Dim: dim}
	}
	return []method.Slot{
		iaItem: {
			Name: "item", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: d,
			Init: method.Init{Kind: method.Normal, A: 0.1 / math.Sqrt(float64(d))},
		},
		iaGram:  {Name: "gram", Scope: method.Shared, Upload: method.Broadcast, Rows: d, Dim: d},
		iaCount: sum("count", true, 0, 1),
		iaGrad:  sum("grad", true, 0, d),
		iaG:     sum("g", false, d, d),
		iaC:     sum("c", false, d, d),
		iaUser:  {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: d},
		iaMove:  {Name: "move", Scope: method.Server, PerItem: true, Dim: d},
		iaN:     {Name: "n", Scope: method.Server, PerItem: true, Dim: 1},
	}
}

func (m *ials) Phase(round, _ int) (int, string) {
	if round == 0 {
		return 0, "count"
	}
	return 1, "solve"
}

func (m *ials) Head() *method.Head {
	return &method.Head{Item: iaItem, Vector: iaUser, Bias: method.NoBias}
}

func (m *ials) Logits(w *method.Work, b *method.Batch, out []float32) {
	learn.Dot(*m.Head()).Logits(w, b, out)
}

func (m *ials) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { m.solve(w, w.Batch(0, len(w.Samples.Item))) }}
}

func (m *ials) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		b := w.Batch(0, len(w.Samples.Item))
		if w.Phase == 0 {
			for x, r := range b.Wr[iaCount] {
				w.View[iaCount].Row(r)[0] += b.Y[x]
			}
			return
		}
		p := m.solve(w, b)
		q, g := &w.View[iaItem], &w.View[iaGrad]
		for x := range b.N {
			vec.Axpy(1-vec.Dot(p, q.Row(b.Rd[iaItem][x])), p, g.Row(b.Wr[iaGrad][x]))
		}
		stride := w.View[iaG].Stride
		for i := range m.Dim {
			vec.Axpy(p[i], p, w.View[iaG].Val[i*stride:(i+1)*stride])
			vec.Axpy(p[i]*float32(b.N), p, w.View[iaC].Val[i*stride:(i+1)*stride])
		}
	}}
}

// solve sets the user's vector to (a0 Q'Q + sum q q' + r I)^-1 sum q.
func (m *ials) solve(w *method.Work, b *method.Batch) []float32 {
	d, q, gram := m.Dim, &w.View[iaItem], &w.View[iaGram]
	a, y := make([]float64, d*d), make([]float64, d)
	reg := m.Reg * (float64(b.N) + m.Alpha*float64(w.Items))
	for i := range d {
		for j := range d {
			a[i*d+j] = m.Alpha * float64(gram.Val[i*gram.Stride+j])
		}
		a[i*d+i] += reg
	}
	for _, r := range b.Rd[iaItem] {
		row := q.Row(r)
		for i := range d {
			for j := range d {
				a[i*d+j] += float64(row[i]) * float64(row[j])
			}
			y[i] += float64(row[i])
		}
	}
	learn.Solve(a, y)
	p := w.View[iaUser].Val
	for i := range y {
		p[i] = float32(y[i])
	}
	return p
}

func (m *ials) Update(g *method.Global) {
	d := m.Dim
	if g.Phase == 0 {
		copy(g.Value[iaN], g.Aggregate[iaCount])
		m.refresh(g)
		return
	}
	total := 0.0
	for i := range g.Items {
		total += float64(g.Value[iaN][i*g.Stride[iaN]])
	}
	h, y, s := make([]float64, d*d), make([]float64, d), g.Stride[iaItem]
	for i := range g.Items {
		n := float64(g.Value[iaN][i*g.Stride[iaN]])
		reg := m.Reg * (n + m.Alpha*float64(g.Users))
		row, move := g.Value[iaItem][i*s:(i+1)*s], g.Value[iaMove][i*s:(i+1)*s]
		for a := range d {
			y[a] = float64(g.Aggregate[iaGrad][i*s+a]) - reg*float64(row[a])
			for b := range d {
				big := float64(g.Aggregate[iaG][a*g.Stride[iaG]+b])
				h[a*d+b] = m.Gamma*n/total*float64(g.Aggregate[iaC][a*g.Stride[iaC]+b]) + m.Alpha*big
				y[a] -= m.Alpha * big * float64(row[b])
			}
			h[a*d+a] += reg
		}
		learn.Solve(h, y)
		for a := range d {
			move[a] = float32(m.Keep)*move[a] + float32(y[a])
			row[a] += move[a]
		}
	}
	m.refresh(g)
}

func (m *ials) refresh(g *method.Global) {
	s, gs := g.Stride[iaItem], g.Stride[iaGram]
	clear(g.Value[iaGram])
	for i := range g.Items {
		row := g.Value[iaItem][i*s : (i+1)*s]
		for a := range m.Dim {
			vec.Axpy(row[a], row, g.Value[iaGram][a*gs:(a+1)*gs])
		}
	}
}
