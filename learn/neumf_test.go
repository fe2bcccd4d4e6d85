package learn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// neural is a method that consists of NeuMF only.
type neural struct {
	learn.NeuMF
	up    method.Upload
	start float64
	visit func(m method.Learner) method.Visit
}

func (m *neural) Slots(int) []method.Slot {
	out := m.NeuMF.Slots()
	shared, _ := m.Groups()
	for _, i := range shared {
		out[i].Upload = m.up
	}
	for i := range out {
		if m.start > 0 && (out[i].PerItem || out[i].Scope == method.Private || out[i].Init.Kind == method.Zeros) {
			out[i].Init = method.Init{Kind: method.Normal, A: m.start}
		}
	}
	return out
}
func (m *neural) Visit(int) method.Visit { return m.visit(m) }
func (m *neural) Update(*method.Global)  {}

// written is the reference: NeuMF in float64.
type written struct {
	slot map[string][][]float64
	grad map[string]map[[2]int]float32 // gradients of plain slots
	n    learn.NeuMF
	rows [2][][]float64 // by table and sample
}

func writtenOf(w *method.Work, n learn.NeuMF) *written {
	p := &written{slot: map[string][][]float64{}, grad: map[string]map[[2]int]float32{}, n: n}
	for i := range w.View {
		v := &w.View[i]
		if v.Slot.PerItem {
			continue
		}
		g := map[[2]int]float32{}
		for r := range v.Slot.Rows {
			p.slot[v.Slot.Name] = append(p.slot[v.Slot.Name], widen(v.Val[r*v.Stride:][:v.Slot.Dim]))
			for k := range v.Slot.Dim {
				g[[2]int{r, k}] = v.Grad[r*v.Stride+k]
			}
		}
		p.grad[v.Slot.Name] = g
	}
	return p
}

func (p *written) score(sample int) float64 {
	gmf, mlp := p.rows[0][sample], p.rows[1][sample]
	x := append(slices.Clone(p.slot["user.mlp"][0]), mlp...)
	for l := range p.n.Hidden {
		weights, biases := p.slot["weight."+string(rune('1'+l))], p.slot["bias."+string(rune('1'+l))][0]
		next := make([]float64, len(weights))
		for o := range next {
			next[o] = biases[o]
			for i := range x {
				next[o] += weights[o][i] * x[i]
			}
			next[o] = math.Max(next[o], 0)
		}
		x = next
	}
	z := p.slot["head.bias"][0][0]
	for k, h := range p.slot["head.mlp"][0] {
		z += h * x[k]
	}
	for k, h := range p.slot["head.gmf"][0] {
		z += h * p.slot["user.gmf"][0][k] * gmf[k]
	}
	return z
}

func TestNeuMFAndGradientsMatchFormula(t *testing.T) {
	for _, n := range []learn.NeuMF{
		{Dim: 32, Hidden: learn.Layers{24, 16, 8}},
		{Dim: 5, Hidden: learn.Layers{7}},
		{Dim: 3, Hidden: learn.Layers{12, 4}},
		{Dim: 1, Hidden: learn.Layers{1, 1}},
	} {
		m := &neural{NeuMF: n, start: 0.8, visit: rests}
		b := open(t, m, true)
		w := b.ResolveSamples(&b.state, task(0))
		all := w.Batch(0, len(w.Samples.Item))
		z, dz := make([]float32, all.N), make([]float32, all.N)
		w.ClearGrads(all)
		m.Logits(w, all, z)
		r := rng.New(rng.Test)
		for x := range dz {
			dz[x] = float32(2*r.Float64() - 1)
		}
		m.Back(w, all, dz)
		p := writtenOf(w, n)
		for table := range p.rows {
			for x := range dz {
				p.rows[table] = append(p.rows[table],
					widen(w.View[table].Row(all.Rd[table][x])[:w.View[table].Slot.Dim]))
			}
		}
		for x := range z {
			if want := p.score(x); math.Abs(float64(z[x])-want) > 1e-4*math.Max(1, math.Abs(want)) {
				t.Fatalf("%v: logit %d is %g, the formula gives %g", n, x, z[x], want)
			}
		}
		p.check(t, w, all, dz)
	}
}

// check compares every gradient with central differences.
func (p *written) check(t *testing.T, w *method.Work, all *method.Batch, dz []float32) {
	t.Helper()
	slope := func(x *float64, value func() float64) float64 {
		const h = 1e-6 // small enough to make a kink within the step unlikely
		old := *x
		*x = old + h
		up := value()
		*x = old - h
		down := value()
		*x = old
		return (up - down) / (2 * h)
	}
	check := func(name string, got float32, want float64) {
		if math.Abs(float64(got)-want) > 2e-4*math.Max(1, math.Abs(want)) {
			t.Errorf("%v: a gradient of %s is %g, the finite difference %g", p.n, name, got, want)
		}
	}
	value := func() float64 {
		sum := 0.0
		for x := range dz {
			sum += float64(dz[x]) * p.score(x)
		}
		return sum
	}
	for name, at := range p.grad {
		for place, got := range at {
			check(name, got, slope(&p.slot[name][place[0]][place[1]], value))
		}
	}
	for table, rows := range p.rows {
		for x, pos := range all.Pos {
			for k := range rows[x] {
				want := 0.0 // a row that occurs twice gets the sum
				for y, q := range all.Pos {
					if q == pos {
						want += float64(dz[y]) * slope(&rows[y][k], func() float64 { return p.score(y) })
					}
				}
				check(w.View[table].Slot.Name, w.View[table].GradRow(pos)[k], want)
			}
		}
	}
}

// The bounds are those that PyTorch prints for the authors' sizes.
func TestNeuMFInitialValuesMatchAuthorsCode(t *testing.T) {
	want := map[string]float64{
		"weight.1": 0.125, "weight.2": 0.17678, "weight.3": 0.25, "head.mlp": 0.21651,
		"head.gmf": 0.21651,
	}
	shared, private := 0, 0
	for _, s := range (learn.NeuMF{Dim: 32, Hidden: learn.Layers{128, 64, 32}}).Slots() {
		if bound := want[s.Name]; bound > 0 && (s.Init.Kind != method.Uniform || math.Abs(s.Init.A-bound) > 1e-5) {
			t.Errorf("%s starts with %+v, want uniform in %g", s.Name, s.Init, bound)
		}
		switch {
		case s.PerItem:
			shared += 1000 * s.Dim
		case s.Scope == method.Private:
			private += s.Rows * s.Dim
		default:
			shared += s.Rows * s.Dim
		}
	}
	if shared != 160*1000+43297 || private != 160 {
		t.Errorf("%d shared numbers with 1000 items and %d private ones, want %d and 160", shared, private, 160*1000+
			43297)
	}
}
