package private

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// NormGradNext is NormGrad with item rows that also predict the next items of a history
// (Tacit's own; a form of DP-FedAvg, McMahan et al. 2018). A device computes two gradients:
// that of NormGrad, for all its items at once, and one from a few random positions of its
// history. At each position it solves for its vector from the items so far, weighted by
// recency as when recommending, and predicts the items that follow. Each gradient is scaled
// to a norm of 1, and so is their weighted sum, which is the update: the sensitivity, the
// numbers that are sent and the budget are those of NormGrad.
type NormGradNext struct {
	NormGrad
	Next   float64 `default:"0.5" min:"0" max:"1" range:"0.3..0.7" doc:"weight of the gradient for next items; the rest is for all items"`
	Cuts   int     `default:"6" min:"1" max:"1000" range:"4|6|12" doc:"random positions of a history from which next items are predicted"`
	Window int     `default:"15" min:"1" range:"5|15|40" doc:"items after such a position that are predicted"`
}

var (
	_ method.Headed         = (*NormGradNext)(nil)
	_ method.Ready          = (*NormGradNext)(nil)
	_ method.Updater        = (*NormGradNext)(nil)
	_ method.Phased         = (*NormGradNext)(nil)
	_ method.BudgetWeighter = (*NormGradNext)(nil)
	_ method.Checker        = (*NormGradNext)(nil)
)

func (m *NormGradNext) Visit(int) method.Visit {
	return method.Visit{Run: func(w *method.Work) {
		mark := w.Mark()
		defer w.Release(mark)
		t := m.targets(w)
		all, next := t.gradient(w), t.gradient(w)
		m.allItems(w, t, all)
		m.nextItems(w, t, next)
		scaleTo(1-m.Next, all)
		scaleTo(m.Next, next)
		vec.Add(next, all)
		scaleTo(1, all)
		for pos, x := range t.sample {
			if x != noSample {
				vec.Add(all[pos*t.stride:(pos+1)*t.stride], w.View[ngGrad].Row(w.Samples.Wr[ngGrad][x]))
			}
		}
	}}
}

// noSample is the index of a sample that does not exist.
const noSample = math.MaxUint32

// targets are the items that a local training predicts: those of the history, and negatives.
type targets struct {
	sample    []uint32 // by position of a gradient: one of its samples
	own       []uint32 // by item: its sample, if it is in the history
	negatives []uint32 // samples
	stride    int
}

func (m *NormGradNext) targets(w *method.Work) targets {
	s, size := &w.Samples, 0
	for _, pos := range s.Pos {
		size = max(size, int(pos)+1)
	}
	t := targets{
		sample: w.Uint32s(size), own: w.Uint32s(w.Items), negatives: w.Uint32s(len(s.Pos))[:0],
		stride: w.View[ngGrad].Stride,
	}
	for i := range t.sample {
		t.sample[i] = noSample
	}
	for i := range t.own {
		t.own[i] = noSample
	}
	for x, pos := range s.Pos {
		if t.sample[pos] = uint32(x); s.Y[x] > 0 {
			t.own[s.Item[x]] = uint32(x)
		} else {
			t.negatives = append(t.negatives, uint32(x))
		}
	}
	return t
}

// gradient returns a gradient of 0.
func (t *targets) gradient(w *method.Work) []float32 {
	out := w.Floats(len(t.sample) * t.stride)
	clear(out)
	return out
}

// add adds the negative gradient of the squared error of a sample whose label is y, for the
// user's vector p.
func (t *targets) add(w *method.Work, x uint32, y float32, p, to []float32) {
	pos := int(w.Samples.Pos[x])
	vec.Axpy(y-vec.Dot(p, w.View[ngItem].Row(w.Samples.Item[x])), p, to[pos*t.stride:(pos+1)*t.stride])
}

// allItems adds the gradient of NormGrad, before scaling.
func (m *NormGradNext) allItems(w *method.Work, t targets, to []float32) {
	p := m.solve(w, w.View, w.History, learn.Recency{Base: 1})
	for x := range w.Samples.Pos {
		t.add(w, uint32(x), w.Samples.Y[x], p, to)
	}
}

// nextItems adds the gradient for the items that follow random positions, and for as many
// negatives.
func (m *NormGradNext) nextItems(w *method.Work, t targets, to []float32) {
	n := len(w.History)
	if n < 2 {
		return
	}
	for range m.Cuts {
		at := 1 + int(w.Rand.Uint32n(uint32(n-1)))
		p := m.solve(w, w.View, w.History[:at], m.recency())
		for _, item := range w.History[at:min(n, at+min(m.Window, n))] {
			if x := t.own[item]; x != noSample {
				t.add(w, x, 1, p, to)
			}
			if k := len(t.negatives); k > 0 {
				t.add(w, t.negatives[w.Rand.Uint32n(uint32(k))], 0, p, to)
			}
		}
	}
}

// scaleTo scales a gradient to a norm. One that is 0 or not finite becomes 0.
func scaleTo(norm float64, g []float32) {
	square := 0.0
	for _, x := range g {
		square += float64(float64(x) * float64(x))
	}
	if !(square > 0) || square-square != 0 {
		clear(g)
		return
	}
	vec.Scale(float32(norm/math.Sqrt(square)), g)
}
