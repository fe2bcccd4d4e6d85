package learn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// deep is a method that consists of a Score only.
type deep struct {
	learn.Score
	visit func(m method.Learner) method.Visit
}

func (m *deep) Slots(int) []method.Slot {
	return m.Score.Slots(func(layer int) bool { return layer == 1 })
}
func (m *deep) Visit(int) method.Visit { return m.visit(m) }

func rests(method.Learner) method.Visit { return method.Visit{Run: func(*method.Work) {}} }

// network is the reference in float64.
type network struct {
	user    []float64
	weights [][][]float64 // layer, output, input
	biases  [][]float64
}

func networkOf(w *method.Work, s learn.Score) *network {
	n := &network{user: widen(w.View[learn.UserSlot].Val[:s.Dim])}
	for l := range s.Layers() {
		weight, bias := &w.View[learn.LayerSlot+2*l], &w.View[learn.LayerSlot+2*l+1]
		var rows [][]float64
		for o := range weight.Slot.Rows {
			rows = append(rows, widen(weight.Val[o*weight.Stride:][:weight.Slot.Dim]))
		}
		n.weights, n.biases = append(n.weights, rows), append(n.biases, widen(bias.Val[:bias.Slot.Dim]))
	}
	return n
}

func widen(xs []float32) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = float64(x)
	}
	return out
}

func (n *network) score(item []float64) float64 {
	x := append(slices.Clone(n.user), item...)
	for l, rows := range n.weights {
		next := make([]float64, len(rows))
		for o, row := range rows {
			next[o] = n.biases[l][o]
			for i, v := range row {
				next[o] += v * x[i]
			}
			if l < len(n.weights)-1 {
				next[o] = math.Max(next[o], 0)
			}
		}
		x = next
	}
	return x[0]
}

// each calls f for every number of the network and its gradient in w.
func (n *network) each(w *method.Work, s learn.Score, f func(name string, x *float64, grad float32)) {
	for k := range n.user {
		f("user", &n.user[k], w.View[learn.UserSlot].Grad[k])
	}
	for l := range n.weights {
		weight, bias := &w.View[learn.LayerSlot+2*l], &w.View[learn.LayerSlot+2*l+1]
		for o := range n.weights[l] {
			for i := range n.weights[l][o] {
				f(weight.Slot.Name, &n.weights[l][o][i], weight.Grad[o*weight.Stride+i])
			}
			f(bias.Slot.Name, &n.biases[l][o], bias.Grad[o])
		}
	}
}

func TestNetworkAndGradientsMatchFormula(t *testing.T) {
	for _, s := range []learn.Score{
		{Dim: 32, Hidden: learn.Layers{32, 16, 8}},
		{Dim: 5, Hidden: learn.Layers{7}},
		{Dim: 8, Hidden: learn.Layers{20, 3}},
		{Dim: 1, Hidden: learn.Layers{1, 1}},
	} {
		m := &deep{s, rests}
		b := open(t, m, true)
		w := b.ResolveSamples(&b.state, task(0))
		all := w.Batch(0, len(w.Samples.Item))
		z, dz := make([]float32, all.N), make([]float32, all.N)
		m.Logits(w, all, z)
		n, r := networkOf(w, s), rng.New(rng.Test)
		it := &w.View[learn.ItemSlot]
		rows := make([][]float64, all.N)
		for x := range z {
			dz[x] = float32(2*r.Float64() - 1)
			rows[x] = widen(it.Row(all.Rd[learn.ItemSlot][x])[:s.Dim])
			if want := n.score(rows[x]); math.Abs(float64(z[x])-want) > 1e-4*math.Max(1, math.Abs(want)) {
				t.Fatalf("%v: logit %d is %g, the formula gives %g", s, x, z[x], want)
			}
		}
		m.Back(w, all, dz)
		value := func() float64 {
			sum := 0.0
			for x := range rows {
				sum += float64(dz[x]) * n.score(rows[x])
			}
			return sum
		}
		check := func(name string, x *float64, grad float32) {
			const h = 1e-6 // small enough to make a kink within the step unlikely
			old := *x
			*x = old + h
			up := value()
			*x = old - h
			down := value()
			*x = old
			if want := (up - down) / (2 * h); math.Abs(float64(grad)-want) > 2e-4*math.Max(1, math.Abs(want)) {
				t.Errorf("%v: a gradient of %s is %g, the finite difference %g", s, name, grad, want)
			}
		}
		n.each(w, s, check)
		checkRows(t, s, it, all, rows, dz, n)
	}
}

// checkRows checks the gradients of the rows; a row that occurs twice gets the sum.
func checkRows(t *testing.T, s learn.Score, it *method.View, all *method.Batch, rows [][]float64, dz []float32,
	n *network,
) {
	t.Helper()
	for x, p := range all.Pos {
		for k := range s.Dim {
			sum := 0.0
			for y, q := range all.Pos {
				if q == p {
					const h = 1e-6
					rows[y][k] += h
					up := n.score(rows[y])
					rows[y][k] -= 2 * h
					down := n.score(rows[y])
					rows[y][k] += h
					sum += float64(dz[y]) * (up - down) / (2 * h)
				}
			}
			if got := float64(it.GradRow(p)[k]); math.Abs(got-sum) > 2e-4*math.Max(1, math.Abs(sum)) {
				t.Errorf("%v: the gradient of sample %d's row at %d is %g, the finite difference %g", s, x, k, got, sum)
			}
		}
	}
}

// Gradients that no rule reads are skipped; the others must not change.
func TestUnreadGradientsAreSkipped(t *testing.T) {
	s := learn.Score{Dim: 6, Hidden: learn.Layers{9, 4}}
	m := &deep{s, rests}
	b := open(t, m, true)
	w := b.ResolveSamples(&b.state, task(0))
	all := w.Batch(0, 8)
	z, dz := make([]float32, 8), []float32{1, -1, 0.5, 2, -3, 1, 1, 1}
	grads := func(only uint64) (rows []float32, plain [][]float32) {
		w.ClearGrads(all)
		w.RestrictGrads(only)
		m.Logits(w, all, z)
		m.Back(w, all, dz)
		w.RestrictGrads(^uint64(0))
		for i := range w.View[learn.UserSlot:] {
			plain = append(plain, slices.Clone(w.View[learn.UserSlot+i].Grad))
		}
		return slices.Clone(w.View[learn.ItemSlot].GradRows), plain
	}
	rows, plain := grads(^uint64(0))
	onlyRows, none := grads(1 << learn.ItemSlot)
	noRows, onlyPlain := grads(^uint64(1 << learn.ItemSlot))
	if !slices.Equal(rows, onlyRows) || !zero(noRows) {
		t.Error("the gradient of the rows is not skipped, or differs if computed alone")
	}
	for i := range plain {
		if !slices.Equal(plain[i], onlyPlain[i]) || !zero(none[i]) {
			t.Errorf("the gradient of slot %d is not skipped, or differs if computed alone", learn.UserSlot+i)
		}
	}
}

func zero(xs []float32) bool { return !slices.ContainsFunc(xs, func(x float32) bool { return x != 0 }) }

func TestLayersRoundTripAsText(t *testing.T) {
	for text, want := range map[string]string{
		"none": "none", "": "none", "64,16": "64,16", " 8 , 4": "8,4",
		"1024": "1024",
	} {
		var l learn.Layers
		if err := l.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got, _ := l.MarshalText(); string(got) != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"0", "-3", "64,", "x", "1025", "1,2,3,4,5,6,7,8,9", "none,8"} {
		var l learn.Layers
		if err := l.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, l)
		}
	}
}

func TestLocalTrainingOfNetworkDoesNotAllocate(t *testing.T) {
	m := &deep{learn.Score{Dim: 8, Hidden: learn.Layers{16, 4}}, func(m method.Learner) method.Visit {
		rate := learn.Const(0.1)
		return learn.Epochs(2, 0, learn.Descend(learn.Mean("bpr", m), learn.SGD(learn.ItemSlot, rate, 0),
			learn.SGD(learn.LayerSlot, rate, 0)))
	}}
	b := open(t, m, false)
	at := task(1)
	visit := func() { b.Visit(&b.state, at, local.NotCounted, true) }
	visit()
	if n := testing.AllocsPerRun(20, visit); n != 0 {
		t.Errorf("local training allocates %g times", n)
	}
}
