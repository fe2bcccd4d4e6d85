package sequence

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
)

// recurrent is a GRU whose local training does nothing.
type recurrent struct{ GRU }

// train contains an item twice.
var train = []uint32{3, 17, 3, 8, 29, 0, 12}

const tinyDim = 5

const (
	recItem = iota
	recBias
	recIn
	recRe
	recOff
	recState
	recRun = 4
)

func (m *recurrent) Slots(int) []method.Slot {
	s := m.GRU.Slots(0.7)
	s[recBias].Init = method.Init{Kind: method.Normal, A: 0.5}
	s[recOff].Init = method.Init{Kind: method.Normal, A: 0.5}
	return s
}

func (m *recurrent) Visit(int) method.Visit { return method.Visit{Run: func(*method.Work) {}} }

// slow is the reference: the same network in float64, element by element, on a device's initial
// values.
type slow struct{ mem *local.Memory }

func (s slow) at(slot, row, k int) float64 {
	wide := 8
	if slot == recBias {
		k = 0
	}
	return float64(s.mem.Value(slot)[row*wide+k])
}

func (s slow) sum(slot, row int, v []float64) float64 {
	out := 0.0
	for k, x := range v {
		out += s.at(slot, row, k) * x
	}
	return out
}

func (s slow) next(item uint32, h []float64) []float64 {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	x, out := make([]float64, tinyDim), make([]float64, tinyDim)
	for k := range x {
		x[k] = s.at(recItem, int(item), k)
	}
	for k := range out {
		r := sigmoid(s.sum(recIn, k, x) + s.sum(recRe, k, h) + s.at(recOff, 0, k))
		z := sigmoid(s.sum(recIn, tinyDim+k, x) + s.sum(recRe, tinyDim+k, h) + s.at(recOff, 1, k))
		c := math.Tanh(s.sum(recIn, 2*tinyDim+k, x) + s.at(recOff, 2, k) + r*(s.sum(recRe, 2*tinyDim+k, h)+
			s.at(recOff, 3, k)))
		out[k] = z*h[k] + (1-z)*c
	}
	return out
}

func (s slow) score(item uint32, h []float64) float64 {
	return s.sum(recItem, int(item), h) + s.at(recBias, int(item), 0)
}

// loss returns the sum over the history.
func (s slow) loss(history, negatives []uint32, each, run int) float64 {
	h, out := make([]float64, tinyDim), 0.0
	n := len(history) - 1
	for t := range n {
		h = s.next(history[t], h)
		lo := t / run * run
		own := math.Exp(s.score(history[t+1], h))
		all := own
		for _, i := range negatives[lo*each : min(lo+run, n)*each] {
			all += math.Exp(s.score(i, h))
		}
		out -= math.Log(own / all)
	}
	return out
}

func openRecurrent(t *testing.T, longest int) (*recurrent, *local.Memory, *method.Work) {
	t.Helper()
	m := &recurrent{GRU{Dim: tinyDim, Longest: longest}}
	p, err := local.NewPlan(m, local.Options{Items: 30, Rounds: 10, Batch: 4, Negatives: 2, Seed: 3, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	state := mem.NewState(nil)
	task := &local.Task{Device: 1, Train: train, Hide: [2][]uint32{{5, 6}}}
	return m, mem, local.NewWorker(mem, 0).ResolveSamples(&state, task)
}

func TestNextItemLossMatchesReference(t *testing.T) {
	m, b, w := openRecurrent(t, 100)
	w.WantLoss = true
	all := w.Batch(0, len(w.Samples.Item))
	var negatives []uint32
	for x, i := range all.Item {
		if all.Y[x] == 0 {
			negatives = append(negatives, i)
		}
	}
	n := float64(len(train) - 1)
	for _, run := range []int{1, recRun, 100} {
		want := slow{b}.loss(train, negatives, 2, run) / n * float64(all.N)
		got := m.NextItemLoss(run, 1, "users").Grad(w, all)
		if math.Abs(got-want) > 1e-4*want {
			t.Errorf("in runs of %d the loss is %g, want %g", run, got, want)
		}
	}
}

func TestGRUStateMatchesReference(t *testing.T) {
	for _, longest := range []int{100, 3} {
		m, b, w := openRecurrent(t, longest)
		m.ReadHistory(w, train)
		h := make([]float64, tinyDim)
		for _, i := range train[max(len(train)-longest, 0):] {
			h = slow{b}.next(i, h)
		}
		for k, want := range h {
			if got := float64(w.View[recState].Val[k]); math.Abs(got-want) > 1e-5 {
				t.Errorf("reading %d items, element %d of the state is %g, want %g", longest, k, got, want)
			}
		}
	}
}

// Dropout uses the device's random stream, so the same stream gives the same loss.
func TestNextItemLossGradientMatchesFiniteDifferences(t *testing.T) {
	for _, c := range []struct {
		keep    float32
		alike   string
		times   float64
		longest int
	}{{1, "users", 1, 100}, {0.6, "users", 1, 4}, {0.6, "roots", math.Sqrt(6), 7}, {1, "rows", 4, 5}} {
		m, _, w := openRecurrent(t, c.longest)
		w.WantLoss = true
		all, stream := w.Batch(0, len(w.Samples.Item)), w.Rand
		oracle := m.NextItemLoss(recRun, c.keep, c.alike)
		value := func() float64 {
			w.Rand = stream
			return c.times * oracle.Grad(w, all) / float64(all.N)
		}
		w.ClearGrads(all)
		value()
		grads := make([][]float32, recState) // evaluating the loss adds to them
		for i := range grads {
			grads[i] = slices.Concat(w.View[i].Grad, w.View[i].GradRows)
		}
		r := rng.New(rng.Test)
		for i := range recState {
			v := &w.View[i]
			val, grad := v.Val, grads[i]
			if v.Slot.PerItem {
				val = v.Arena[int(v.Local)*v.Stride:][:len(all.Rows)*v.Stride]
			}
			for range 60 {
				k := int(r.Uint32n(uint32(len(val))))
				if k%v.Stride >= v.Slot.Dim {
					continue
				}
				const h = 1.0 / 128
				old := val[k]
				val[k] = old + h
				up := value()
				val[k] = old - h
				down := value()
				val[k] = old
				want := (up - down) / (2 * h)
				if math.Abs(float64(grad[k])-want) > 0.01*math.Max(0.03, math.Abs(want)) {
					t.Fatalf("keep %g, %s: slot %q element %d has the gradient %g, the finite difference is %g", c.keep,
						c.alike, v.Slot.Name, k, grad[k], want)
				}
			}
		}
	}
}

// Masks need a bound on every number that a device sends. The bound follows the rates.
func TestGRU4RecBoundsItsNumbers(t *testing.T) {
	var m GRU4Rec
	param.Defaults(&m)
	before := m.Slots(10)
	m.RowLR, m.Steps = learn.Const(2*m.RowLR.V), 3
	for i, s := range m.Slots(10) {
		if s.Scope != method.Shared {
			continue
		}
		factor := 3.0
		if s.PerItem {
			factor = 6
		}
		if !(before[i].Range > 0) || math.Abs(s.Range/before[i].Range-factor) > 1e-9 {
			t.Errorf("the range of %s is %g, and %g for %g times the steps", s.Name, before[i].Range, s.Range, factor)
		}
	}
}
