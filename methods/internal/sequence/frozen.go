package sequence

import (
	"math"
	"slices"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Frozen trains a network on frozen item features f. A device projects the features of its
// history with the read map R, and a network turns the rows into states. The score of item j for
// a state z is
//
//	z . N f(j) / sqrt(Dim) + c(j)
//
// with a second map N and a bias c that starts at the centred logarithm of the item's count. The
// loss is the cross entropy of the next item at every position. Its slots are consecutive from
// First on.
type Frozen struct {
	First     int // index of its first slot
	Item      int // the slot with the features: PerItem, Broadcast
	Dim       int // width of the features
	Width     int // width of the projected rows and of the states
	Longest   int // newest items of a history that are read
	Negatives int // most items that a local training compares the next items with
	Withhold  int // newest items of a history that do not train
	Drop      float64
	net       network
	end       int // number of slots
}

// OnBank returns f with the network of a bank of decayed sums.
func OnBank(f Frozen) *Frozen { return f.with(bankNetwork{f.Width}) }

func (f Frozen) with(net network) *Frozen {
	f.net, f.end = net, frozenNet+len(net.slots())
	return &f
}

// The slots of a Frozen, relative to its First. Those of the network follow.
const (
	frozenRead   = iota // R, Width by Dim
	frozenName          // N
	frozenBias          // broadcast: c
	frozenLean          // sparse sum: the gradient of c
	frozenDraw          // broadcast: cumulative probabilities of negatives
	frozenTable         // broadcast, PerItem: N f(j) / sqrt(Dim) and c(j), to recommend with
	frozenState         // ephemeral: the state after the newest item, and 1
	frozenMean          // server: momentum of every trained number
	frozenSpread        // server: mean square of the gradient of every trained number
	frozenSteps         // server: number of steps, and the running mean of the gradient's norm
	frozenNet
)

// clip is the largest norm of the gradient that a device sends. In narrow sums the numbers of a
// matrix, which are many, have the range matrixRange, and those of vectors the whole of clip.
const (
	clip        = 1
	matrixRange = 0.25
	// gradientLevels is the precision of a gradient in narrow sums; its rounding is unbiased.
	gradientLevels = 127
)

// Slots returns the slots for a catalogue.
func (f *Frozen) Slots(items int) []method.Slot {
	shared := method.Shared
	maps := method.Init{Kind: method.Uniform, A: 1 / math.Sqrt(float64(f.Dim))}
	out := []method.Slot{
		frozenRead: {
			Name: "read", Scope: shared, Upload: method.Gradient, Rows: f.Width, Dim: f.Dim, Init: maps,
			Doc: "map from the features of an item to the row that the network reads",
		},
		frozenName: {
			Name: "name", Scope: shared, Upload: method.Gradient, Rows: f.Width, Dim: f.Dim, Init: maps,
			Doc: "map from the features of an item to the vector that a state is compared with",
		},
		frozenBias: {
			Name: "bias", Scope: shared, Upload: method.Broadcast, Rows: 1, Dim: items,
			Doc: "popularity bias of each item; it starts at the centred logarithm of its count",
		},
		frozenLean: {
			Name: "bias-gradient", Scope: shared, Upload: method.Sum, Sparse: true, Rows: 1, Dim: items,
			Doc: "gradient of the biases of the device's items and its negatives",
		},
		frozenDraw: {
			Name: "draw", Scope: shared, Upload: method.Broadcast, Rows: 1, Dim: items,
			Doc: "cumulative probability of each item as a negative",
		},
		frozenTable: {
			Name: "table", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: f.Width + 1,
			Doc: "vector and bias of each item, to recommend with; not downloaded to train",
		},
		frozenState: {
			Name: "state", Scope: method.Ephemeral, Rows: 1, Dim: f.Width + 1,
			Doc: "the state after the newest item, and 1",
		},
	}
	out = append(out, method.Slot{}, method.Slot{}, method.Slot{})
	for _, s := range f.net.slots() {
		s.Scope = shared
		out = append(out, s)
	}
	trained := vec.Pad(items)
	for i := range out {
		if out[i].Upload == method.Gradient {
			trained += out[i].Rows * vec.Pad(out[i].Dim)
			out[i].Range, out[i].Levels = clip, gradientLevels
			if out[i].Rows > 1 {
				out[i].Range = matrixRange
			}
		}
	}
	out[frozenLean].Range, out[frozenLean].Levels = clip, gradientLevels
	out[frozenMean] = method.Slot{
		Name: "momentum", Scope: method.Server, Rows: 1, Dim: trained,
		Doc: "mean gradient of every trained number",
	}
	out[frozenSpread] = method.Slot{
		Name: "square", Scope: method.Server, Rows: 1, Dim: trained,
		Doc: "mean squared gradient of every trained number",
	}
	out[frozenSteps] = method.Slot{
		Name: "steps", Scope: method.Server, Rows: 1, Dim: 2,
		Doc: "number of steps, and the mean norm of their gradients",
	}
	return out
}

// Head is the score of an item for the state after the newest item.
func (f *Frozen) Head() *method.Head {
	return &method.Head{Item: f.First + frozenTable, Vector: f.First + frozenState, Bias: method.NoBias}
}

// Trains reports whether local training uses a slot of Frozen, whose features must be complete.
func (f *Frozen) Trains(slot int) bool {
	return slot == f.Item || slot >= f.First && slot < f.First+f.end && slot != f.First+frozenTable
}

// ReadHistory sets the state for a history.
func (f *Frozen) ReadHistory(w *method.Work, history []uint32) {
	mark := w.Mark()
	defer w.Release(mark)
	state := w.View[f.First+frozenState].Val
	clear(state)
	state[f.Width] = 1
	history = history[max(len(history)-f.Longest, 0):]
	n, s := len(history), vec.Pad(f.Width)
	if n == 0 {
		return
	}
	in, x, z := f.gather(w, history), w.Floats(n*s), w.Floats(s)
	clear(x)
	f.project(w, frozenRead, n, in, x)
	f.net.newest(w, f.First+frozenNet, n, x, z)
	copy(state, z[:f.Width])
}

// gather copies the features of items to consecutive rows.
func (f *Frozen) gather(w *method.Work, items []uint32) []float32 {
	v := &w.View[f.Item]
	out := w.Floats(len(items) * v.Stride)
	for x, i := range items {
		copy(out[x*v.Stride:(x+1)*v.Stride], v.Row(i))
	}
	return out
}

// project adds the product of features and one of the two maps to the rows of out.
func (f *Frozen) project(w *method.Work, slot, n int, in, out []float32) {
	wide := vec.Pad(f.Dim)
	weights := vec.Rows(w.View[f.First+slot].Val, wide).T()
	learn.Gemm(&w.Scratch, n, f.Width, f.Dim, vec.Rows(in, wide), weights, vec.Rows(out, vec.Pad(f.Width)))
}

// projectBack adds to the gradient of one of the two maps.
func (f *Frozen) projectBack(w *method.Work, slot, n int, in, grad []float32) {
	wide := vec.Pad(f.Dim)
	to := vec.Rows(w.View[f.First+slot].Grad, wide)
	learn.Gemm(&w.Scratch, f.Width, f.Dim, n, vec.Rows(grad, vec.Pad(f.Width)).T(), vec.Rows(in, wide), to)
}

// Train is the local training of a device: it sends the gradient of the next-item loss of its
// history, with a norm of at most clip.
func (f *Frozen) Train(w *method.Work) {
	mark := w.Mark()
	defer w.Release(mark)
	history := w.History[:max(len(w.History)-f.Withhold, 0)]
	history = history[max(len(history)-f.Longest-1, 0):]
	if len(history) < 2 {
		return
	}
	loss, lean := f.loss(w, history)
	if n := len(history) - 1; w.WantLoss {
		w.Loss, w.LossN = w.Loss+loss, w.LossN+n
	}
	w.Step++
	f.send(w, lean)
}

// loss adds the gradients of the loss of a history, and returns the loss summed over positions
// and the gradient of the biases.
func (f *Frozen) loss(w *method.Work, history []uint32) (float64, leans) {
	n, s := len(history)-1, vec.Pad(f.Width)
	in := f.gather(w, history)
	wide := vec.Pad(f.Dim)
	x, z, dz, dx := w.Floats(n*s), w.Floats(n*s), w.Floats(n*s), w.Floats(n*s)
	clear(x)
	f.project(w, frozenRead, n, in, x)
	keep, mask := float32(1-f.Drop), w.Floats(n*s)
	if keep < 1 {
		drop(&w.Rand, keep, mask)
		vec.Mul(mask, x)
	}
	f.net.forward(w, f.First+frozenNet, n, x, keep, z)
	loss, lean := f.nextItems(w, history[1:], in[wide:], z, dz)
	f.net.back(w, f.First+frozenNet, n, dz, dx)
	if keep < 1 {
		vec.Mul(mask, dx)
	}
	f.projectBack(w, frozenRead, n, in, dx)
	return loss, lean
}

// send scales the gradients to a norm of at most clip, hands them over, and clears them.
func (f *Frozen) send(w *method.Work, lean leans) {
	square := vec.SumSquares(lean.grad)
	own := w.View[f.First : f.First+f.end]
	for i := range own {
		if v := &own[i]; v.Slot.Upload == method.Gradient {
			square += vec.SumSquares(v.Grad)
		}
	}
	scale := float32(clip / math.Max(math.Sqrt(square), clip))
	if square-square != 0 {
		scale = 0 // a model that is not finite has no gradient
	}
	for i := range own {
		v := &own[i]
		if v.Slot.Upload != method.Gradient {
			continue
		}
		if scale != 0 {
			vec.Axpy(scale, v.Grad, v.Sent)
		}
		clear(v.Grad)
	}
	to := &own[frozenLean]
	for x, item := range lean.item {
		if scale != 0 && lean.grad[x] != 0 {
			to.Add(item, float32(scale*lean.grad[x]))
		}
	}
}

// leans is the gradient of the biases: items in ascending order.
type leans struct {
	item []uint32
	grad []float32
}

// merged returns the gradients of the biases of candidates, which ascend, and of next items, in
// any order.
func merged(w *method.Work, items []uint32, grad []float32, next []uint32, own []float32) leans {
	// The order of next items is sorted, so that equal items are added in the order of positions.
	order := w.Uint32s(len(next))
	for t := range order {
		order[t] = uint32(t)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		if next[a] != next[b] {
			return int(next[a]) - int(next[b])
		}
		return int(a) - int(b)
	})
	size := len(items) + len(next)
	out := leans{w.Uint32s(size)[:0], w.Floats(size)[:0]}
	put := func(item uint32, g float32) {
		if last := len(out.item) - 1; last >= 0 && out.item[last] == item {
			out.grad[last] += g
			return
		}
		out.item, out.grad = append(out.item, item), append(out.grad, g)
	}
	t := 0
	for x, item := range items {
		for ; t < len(order) && next[order[t]] <= item; t++ {
			put(next[order[t]], own[order[t]])
		}
		put(item, grad[x])
	}
	for ; t < len(order); t++ {
		put(next[order[t]], own[order[t]])
	}
	return out
}
