package sequence

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// onFeatures is a Frozen on random features.
type onFeatures struct{ *Frozen }

const frozenItems = 30

func (m *onFeatures) Slots(items int) []method.Slot {
	features := method.Slot{
		Name: "feature", Upload: method.Broadcast, PerItem: true, Dim: m.Dim,
		Init: method.Init{Kind: method.Normal, A: 1},
	}
	out := append([]method.Slot{features}, m.Frozen.Slots(items)...)
	out[1+frozenBias].Init = method.Init{Kind: method.Normal, A: 0.5}
	return out
}

func (m *onFeatures) Visit(int) method.Visit { return method.Visit{HistoryOnly: true, Run: m.Train} }

func (m *onFeatures) Logits(*method.Work, *method.Batch, []float32) {}

func (m *onFeatures) Update(*method.Global) {}

func newOnFeatures(width, negatives int, drop float64) *onFeatures {
	return &onFeatures{OnBank(Frozen{
		First: 1, Dim: 7, Width: width, Longest: 6, Negatives: negatives, Drop: drop,
	})}
}

// openFrozen returns a device whose history is train.
func openFrozen(t *testing.T, m *onFeatures) (*local.Memory, *method.Work) {
	t.Helper()
	p, err := local.NewPlan(m, local.Options{Items: frozenItems, Rounds: 10, Batch: 4, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	g := &method.Global{Items: frozenItems, Value: make([][]float32, len(p.Slots)), Stride: make([]int, len(p.Slots))}
	for i := range g.Value {
		g.Value[i], g.Stride[i] = mem.Value(i), vec.Pad(p.Slots[i].Dim)
	}
	count, bias := make([]float32, frozenItems), slices.Clone(mem.Value(1+frozenBias))
	for i := range count {
		count[i] = float32(i * i % 23)
	}
	m.Begin(g, count, 1)
	copy(mem.Value(1+frozenBias), bias)
	state, w := mem.NewState(nil), local.NewWorker(mem, 0)
	var got *method.Work
	p.Visit.Run = func(w *method.Work) { got = w }
	w.Visit(&state, &local.Task{Device: 1, Train: train}, 0, true)
	return mem, got
}

// slowLoss is the loss of the newest positions in float64 with the full softmax.
func slowLoss(m *onFeatures, w *method.Work, history []uint32) float64 {
	d, s := m.Width, vec.Pad(m.Width)
	read, name, item := &w.View[1+frozenRead], &w.View[1+frozenName], &w.View[0]
	project := func(v *method.View, i uint32) []float64 {
		f := make([]float64, m.Dim)
		for k := range f {
			f[k] = float64(item.Row(i)[k])
		}
		return slowLayer(v, nil, f)
	}
	n := len(history) - 1
	x := make([]float32, n*s)
	for t := range n {
		for k, a := range project(read, history[t]) {
			x[t*s+k] = float32(a)
		}
	}
	shifted := &method.Work{View: w.View[m.First+frozenNet-1:]}
	loss := 0.0
	for t, z := range slowBank(bankNetwork{d}, shifted, n, x) {
		own, all := 0.0, 0.0
		for j := range uint32(frozenItems) {
			score := float64(w.View[1+frozenBias].Val[j])
			for k, a := range project(name, j) {
				score += a * z[k] / math.Sqrt(float64(m.Dim))
			}
			if all += math.Exp(score); j == history[t+1] {
				own = score
			}
		}
		loss += math.Log(all) - own
	}
	return loss
}

func TestFrozenLossMatchesReference(t *testing.T) {
	m := newOnFeatures(5, frozenItems, 0)
	_, w := openFrozen(t, m)
	w.WantLoss = true
	got, _ := m.loss(w, train)
	if want := slowLoss(m, w, train); math.Abs(got-want) > 1e-4*want {
		t.Errorf("the loss is %g, want %g", got, want)
	}
}

// With candidates that are drawn, the softmax estimates the one over the catalogue: the expected
// value of its denominator is the same.
func TestCandidatesEstimateTheCatalogue(t *testing.T) {
	const draws = 4000
	m := newOnFeatures(5, 9, 0)
	_, w := openFrozen(t, m)
	bias := w.View[1+frozenBias].Val
	sum := make([]float64, frozenItems)
	for range draws {
		mark := w.Mark()
		c := m.candidates(w, m.Negatives)
		for x, i := range c.item {
			if x > 0 && i <= c.item[x-1] {
				t.Fatalf("candidates %v do not ascend", c.item)
			}
			sum[i] += math.Exp(float64(c.offset[x] - bias[i]))
		}
		w.Release(mark)
	}
	for i, s := range sum {
		if mean := s / draws; math.Abs(mean-1) > 0.15 {
			t.Errorf("item %d stands for %.3f items on average, want 1", i, mean)
		}
	}
}

func TestFrozenGradientMatchesFiniteDifferences(t *testing.T) {
	for _, c := range []struct {
		negatives int
		drop      float64
	}{{frozenItems, 0}, {12, 0.3}} {
		m := newOnFeatures(6, c.negatives, c.drop)
		_, w := openFrozen(t, m)
		w.WantLoss = true
		stream := w.Rand
		value := func() (float64, leans) {
			mark := w.Mark()
			defer w.Release(mark)
			w.Rand = stream
			loss, lean := m.loss(w, train)
			return loss / float64(len(train)-1), lean
		}
		_, lean := value()
		grads := make([][]float32, len(w.View))
		for i := range grads {
			grads[i] = slices.Clone(w.View[i].Grad)
		}
		grads[1+frozenBias] = make([]float32, len(w.View[1+frozenBias].Val))
		for x, i := range lean.item {
			grads[1+frozenBias][i] = lean.grad[x]
		}
		r := rng.New(rng.Test)
		for i := range w.View {
			v := &w.View[i]
			if v.Slot.Upload != method.Gradient && i != 1+frozenBias {
				continue
			}
			for range 40 {
				k := int(r.Uint32n(uint32(len(v.Val))))
				if k%v.Stride >= v.Slot.Dim {
					continue
				}
				const h = 1.0 / 64
				old := v.Val[k]
				v.Val[k] = old + h
				up, _ := value()
				v.Val[k] = old - h
				down, _ := value()
				v.Val[k] = old
				want := (up - down) / (2 * h)
				if math.Abs(float64(grads[i][k])-want) > 0.01*math.Max(0.05, math.Abs(want)) {
					t.Fatalf("%d negatives: slot %q element %d has the gradient %g, the finite difference is %g",
						c.negatives, v.Slot.Name, k, grads[i][k], want)
				}
			}
		}
	}
}

func TestFrozenSendsABoundedGradient(t *testing.T) {
	m := newOnFeatures(6, 12, 0.1)
	_, w := openFrozen(t, m)
	for i := range w.View[1+frozenName].Val { // large values, so that the gradient is longer than the limit
		w.View[1+frozenName].Val[i] *= 100
	}
	m.Train(w)
	square := 0.0
	for i := range w.View {
		for _, x := range slices.Concat(w.View[i].Sent, w.View[i].Values) {
			square += float64(x) * float64(x)
		}
		if slices.ContainsFunc(w.View[i].Grad, func(x float32) bool { return x != 0 }) {
			t.Errorf("slot %q has a gradient after local training", w.View[i].Slot.Name)
		}
	}
	if norm := math.Sqrt(square); math.Abs(norm-clip) > 1e-3 {
		t.Errorf("the gradient has norm %g, want the limit %d", norm, clip)
	}
}

func TestFrozenTrainingDoesNotAllocate(t *testing.T) {
	m := newOnFeatures(6, 12, 0.1)
	_, w := openFrozen(t, m)
	run := func() {
		w.View[1+frozenLean].Indices, w.View[1+frozenLean].Values = w.View[1+frozenLean].Indices[:0],
			w.View[1+frozenLean].Values[:0]
		w.Release(method.Frame{})
		m.Train(w)
		m.ReadHistory(w, train)
	}
	for range 30 {
		run()
	}
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%g allocations, want none", n)
	}
}

func BenchmarkFrozenTrain(b *testing.B) {
	const items, n = 3706, 150
	m := &onFeatures{OnBank(Frozen{First: 1, Dim: 384, Width: 64, Longest: 200, Negatives: 512, Drop: 0.2})}
	p, err := local.NewPlan(m, local.Options{Items: items, Rounds: 10, Batch: 4, Seed: 3})
	if err != nil {
		b.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	for i := range items {
		mem.Value(1 + frozenDraw)[i] = float32(i+1) / items
	}
	task := &local.Task{Device: 1}
	for i := range uint32(n) {
		task.Train = append(task.Train, i*17%items)
	}
	state, w := mem.NewState(nil), local.NewWorker(mem, 0)
	for b.Loop() {
		w.Visit(&state, task, 0, false)
	}
}
