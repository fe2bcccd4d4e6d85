package sequence

import (
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// GRU is a gated recurrent unit (Cho et al. 2014) that reads the rows of a history, oldest
// first. From the state h before an item with row x it computes
//
//	r = sigmoid(Wr x + Ur h + br)
//	z = sigmoid(Wz x + Uz h + bz)
//	c = tanh(Wc x + bc + r (Uc h + bu))
//	h = z h + (1-z) c
//
// As in most libraries, the reset gate applies after the product with Uc. An item's score is h .
// row + bias: the same rows serve as input and output embeddings. If a history is longer than
// Longest, the unit reads the newest Longest items. Its slots are consecutive from First on: see
// Slots.
type GRU struct {
	First   int
	Dim     int
	Longest int
}

// The slots of a GRU, relative to its First.
const (
	gruItem  = iota // PerItem
	gruBias         // PerItem
	gruIn           // Wr, Wz, Wc
	gruRe           // Ur, Uz, Uc
	gruOff          // br, bz, bc, bu
	gruState        // ephemeral: h after the newest item
	gruSlots
)

// gruSpace holds the intermediate results that read saves for back.
type gruSpace struct {
	x     method.Buffer // input rows
	gates method.Buffer // r, z and c, one row per step
	q     method.Buffer // Uc h + bu
	h     method.Buffer // states, starting with the one before the first item
	mask  method.Buffer // dropout mask of the input
}

// Slots returns the shared slots and the state. start is the standard deviation of the initial
// rows.
func (g GRU) Slots(start float64) []method.Slot {
	d, shared := g.Dim, method.Shared
	weights := method.Init{Kind: method.Uniform, A: 1 / math.Sqrt(float64(d))}
	return []method.Slot{
		gruItem: {Name: "item", Scope: shared, PerItem: true, Dim: d, Init: method.Init{
			Kind: method.Normal,
			A:    start,
		}, Doc: "item embeddings, used as input and for scoring"},
		gruBias: {Name: "bias", Scope: shared, PerItem: true, Dim: 1, Doc: "popularity bias of each item"},
		gruIn: {
			Name: "in", Scope: shared, Rows: 3 * d, Dim: d, Init: weights,
			Doc: "input weights: reset gate, update gate, candidate",
		},
		gruRe: {
			Name: "recurrent", Scope: shared, Rows: 3 * d, Dim: d, Init: weights,
			Doc: "recurrent weights, in the same order",
		},
		gruOff: {Name: "offset", Scope: shared, Rows: 4, Dim: d, Doc: "biases of the gates, the candidate and the " +
			"candidate's recurrent part"},
		gruState: {Name: "state", Scope: method.Ephemeral, Rows: 1, Dim: d, Doc: "the state after the newest item"},
	}
}

// SGD returns a rule for each shared slot, with one rate for rows and one for the network.
func (g GRU) SGD(rows, network learn.Schedule) []learn.Rule {
	f := g.First
	return []learn.Rule{
		learn.SGD(f+gruItem, rows, 0), learn.SGD(f+gruBias, rows, 0), learn.SGD(f+gruIn, network, 0),
		learn.SGD(f+gruRe, network, 0),
		learn.SGD(f+gruOff, network, 0),
	}
}

// ReadHistory reads a history, given as arena rows of the items, and stores the final state in
// the state slot.
func (g GRU) ReadHistory(w *method.Work, history []uint32) {
	mark := w.Mark()
	defer w.Release(mark)
	state := w.View[g.First+gruState].Val
	h := g.read(w, g.newest(history), 1)
	copy(state, h[len(h)-len(state):])
}

func (g GRU) newest(history []uint32) []uint32 { return history[max(len(history)-g.Longest, 0):] }

// Score sets out to the logits of a batch for a state.
func (g GRU) Score(w *method.Work, b *method.Batch, state, out []float32) {
	item, bias := &w.View[g.First+gruItem], &w.View[g.First+gruBias]
	vec.Dots(item.Arena, item.Stride, b.Rd[g.First+gruItem], state, 0, out[:b.N])
	for x, r := range b.Rd[g.First+gruBias] {
		out[x] += bias.Row(r)[0]
	}
}

// Logits sets out to the logits of a batch. At inference it uses the state slot, which
// ReadHistory sets; in local training it uses the state after the device's newest item.
func (g GRU) Logits(w *method.Work, b *method.Batch, out []float32) {
	if b.Inference {
		g.Score(w, b, w.View[g.First+gruState].Val, out)
		return
	}
	mark := w.Mark()
	defer w.Release(mark)
	s, places := w.View[g.First+gruItem].Stride, g.places(w)
	h := g.read(w, g.newest(places.rows), 1)
	g.Score(w, b, h[len(h)-s:], out)
}

// Back adds the gradients of a batch of local training.
func (g GRU) Back(w *method.Work, b *method.Batch, dz []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	item, bias := &w.View[g.First+gruItem], &w.View[g.First+gruBias]
	rows := g.newest(g.places(w).rows)
	n, s := len(rows), item.Stride
	h, dh := method.Workspace[gruSpace](&w.Scratch).h.Floats((n+1)*s), w.Floats(n*s)
	clear(dh)
	vec.WSum(item.Arena, s, b.Rd[g.First+gruItem], dz[:b.N], dh[(n-1)*s:])
	g.back(w, rows, dh, 1)
	for x, p := range b.Pos {
		vec.Axpy(dz[x], h[n*s:], item.GradRow(p))
		bias.GradRow(p)[0] += dz[x]
	}
}

// places holds the row positions of the samples of a local training, in scratch memory.
type places struct {
	rows      []uint32 // arena rows of the history, oldest first
	negatives []uint32 // positions in the local block
}

func (g GRU) places(w *method.Work) places {
	s, local := &w.Samples, w.View[g.First+gruItem].Local
	at, rows, negatives := w.Uint32s(w.Items), w.Uint32s(len(w.History)), w.Uint32s(len(s.Item))[:0]
	for x, i := range s.Item {
		if at[i] = local + s.Pos[x]; s.Y[x] == 0 {
			negatives = append(negatives, s.Pos[x])
		}
	}
	for t, i := range w.History {
		rows[t] = at[i]
	}
	return places{rows, negatives}
}

// drop fills a dropout mask: each element is 0 with probability 1-keep, and 1/keep otherwise.
func drop(r *rng.Rand, keep float32, mask []float32) {
	level, kept := uint64(float64(keep)*65536), 1/keep
	bits := uint64(0)
	for i := range mask {
		if i&3 == 0 {
			bits = r.Uint64()
		}
		mask[i] = 0
		if bits&0xffff < level {
			mask[i] = kept
		}
		bits >>= 16
	}
}

func times(by, dst []float32) {
	by = by[:len(dst)]
	for i := range dst {
		dst[i] *= by[i]
	}
}

// read returns the state before the first item and the state after each item. If keep is below
// 1, it applies dropout to the input.
func (g GRU) read(w *method.Work, rows []uint32, keep float32) []float32 {
	item, in, re, off := &w.View[g.First+gruItem], &w.View[g.First+gruIn], &w.View[g.First+gruRe],
		w.View[g.First+gruOff].Val
	n, d, s := len(rows), g.Dim, item.Stride
	wide := vec.Pad(3 * d)
	space := method.Workspace[gruSpace](&w.Scratch)
	x, a, q, h := space.x.Floats(n*s), space.gates.Floats(n*wide), space.q.Floats(n*s), space.h.Floats((n+1)*s)
	for t, r := range rows {
		copy(x[t*s:(t+1)*s], item.Row(r))
		for k := range 3 {
			copy(a[t*wide+k*d:], off[k*s:][:d])
		}
		clear(a[t*wide+3*d : (t+1)*wide])
	}
	if keep < 1 {
		mask := space.mask.Floats(n * s)
		drop(&w.Rand, keep, mask)
		times(mask, x)
	}
	learn.Gemm(&w.Scratch, n, 3*d, d, vec.Rows(x, s), vec.Rows(in.Val, s).T(), vec.Rows(a, wide))
	mark := w.Mark()
	defer w.Release(mark)
	turned := w.Floats(d * wide) // transposed, so that each step reads consecutive memory
	for i := range 3 * d {
		for j := range d {
			turned[j*wide+i] = re.Val[i*s+j]
		}
	}
	clear(h[:s])
	u, pack := w.Floats(wide), w.Floats(vec.GemmRoom(d))
	for t := range n {
		clear(u)
		vec.Gemm(1, 3*d, d, vec.Rows(h[t*s:], s), vec.Rows(turned, wide), pack, vec.Rows(u, wide))
		g.step(a[t*wide:][:3*d], u, off[3*s:][:d], q[t*s:][:s], h[t*s:][:s], h[(t+1)*s:][:s])
	}
	return h
}

// step computes the next state and stores r, z and c in a.
func (g GRU) step(a, u, bu, q, h, next []float32) {
	d := g.Dim
	vec.Add(u[:2*d], a[:2*d])
	vec.Sigmoids(a[:2*d])
	r, z, c := a[:d], a[d:2*d], a[2*d:3*d]
	for i := range d {
		q[i] = u[2*d+i] + bu[i]
		c[i] = 2 * (c[i] + float32(r[i]*q[i]))
	}
	vec.Sigmoids(c) // tanh(x) = 2 sigmoid(2x) - 1
	clear(next[d:])
	for i := range d {
		c[i] = float32(2*c[i]) - 1
		next[i] = c[i] + float32(z[i]*(h[i]-c[i]))
	}
}

// back adds the gradients for dh, the gradient with respect to the state after each item. It
// must follow read on the same rows, and it overwrites dh.
func (g GRU) back(w *method.Work, rows []uint32, dh []float32, keep float32) {
	mark := w.Mark()
	defer w.Release(mark)
	item, in, re := &w.View[g.First+gruItem], &w.View[g.First+gruIn], &w.View[g.First+gruRe]
	n, d, s := len(rows), g.Dim, item.Stride
	wide := vec.Pad(3 * d)
	space := method.Workspace[gruSpace](&w.Scratch)
	x, a, q, h := space.x.Floats(n*s), space.gates.Floats(n*wide), space.q.Floats(n*s), space.h.Floats((n+1)*s)
	down, up := w.Floats(n*wide), w.Floats(n*wide)
	pack := w.Floats(vec.GemmRoom(max(n, 3*d)))
	more := w.Floats(s)
	clear(more)
	for t := n - 1; t >= 0; t-- {
		grad := dh[t*s : (t+1)*s]
		vec.Add(more, grad)
		g.stepBack(a[t*wide:][:wide], q[t*s:], h[t*s:], grad, down[t*wide:][:wide], up[t*wide:][:wide])
		for i, z := range a[t*wide+d : t*wide+2*d] {
			more[i] = float32(z * grad[i])
		}
		vec.Gemm(1, d, 3*d, vec.Rows(up[t*wide:], wide), vec.Rows(re.Val, s), pack, vec.Rows(more, s))
	}
	vec.Gemm(3*d, d, n, vec.Rows(down, wide).T(), vec.Rows(x, s), pack, vec.Rows(in.Grad, s))
	vec.Gemm(3*d, d, n, vec.Rows(up, wide).T(), vec.Rows(h, s), pack, vec.Rows(re.Grad, s))
	off := w.View[g.First+gruOff].Grad
	for t := range n {
		for k := range 3 {
			vec.Add(down[t*wide+k*d:][:d], off[k*s:][:d])
		}
		vec.Add(up[t*wide+2*d:][:d], off[3*s:][:d])
	}
	dx := w.Floats(n * s)
	clear(dx)
	vec.Gemm(n, d, 3*d, vec.Rows(down, wide), vec.Rows(in.Val, s), pack, vec.Rows(dx, s))
	if keep < 1 {
		times(space.mask.Floats(n*s), dx)
	}
	for t, r := range rows {
		vec.Add(dx[t*s:(t+1)*s], item.GradRow(r-item.Local))
	}
}

// stepBack converts the gradient with respect to a state into the gradients with respect to the
// gates' input sums (down) and to their recurrent parts (up).
func (g GRU) stepBack(a, q, h, grad, down, up []float32) {
	d := g.Dim
	r, z, c := a[:d], a[d:2*d], a[2*d:3*d]
	for i := range d {
		dc := float32(grad[i]*(1-z[i])) * (1 - float32(c[i]*c[i]))
		down[i] = float32(dc*q[i]) * float32(r[i]*(1-r[i]))
		down[d+i] = float32(grad[i]*(h[i]-c[i])) * float32(z[i]*(1-z[i]))
		down[2*d+i] = dc
		up[2*d+i] = float32(dc * r[i])
	}
	copy(up, down[:2*d])
	clear(down[3*d:])
	clear(up[3*d:])
}
