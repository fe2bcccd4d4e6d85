package sequence

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// decays are those of a bankNetwork's sums. 0 is the newest row, 1 the whole history.
var decays = [...]float32{0, 0.5, 0.75, 0.9, 0.97, 1}

// bankNetwork is a bank of decayed sums of a history's rows, and a small network on them. For
// each decay a it computes
//
//	s_a(t) = (x(t) + a x(t-1) + a^2 x(t-2) + ...) / sqrt(1 + a + a^2 + ...)
//
// a linear recurrence, so that one more item costs the same after any history. With y, the sums
// side by side, the state is
//
//	z = LayerNorm(out gelu(hidden y + b) + skip y + c)
//
// with gelu(x) = x sigmoid(1.702 x), which trains as well as the exact form and has the same bits
// everywhere.
type bankNetwork struct{ width int }

// The slots of a bankNetwork, relative to its first.
const (
	bankHidden = iota
	bankSkip
	bankOut
	bankHiddenBias
	bankOutBias
	bankGain
	bankShift
)

// bankSpace holds the intermediate results that forward saves for back.
type bankSpace struct {
	y      method.Buffer // decayed sums
	scale  method.Buffer // the factor of each sum: one row per decay
	sum    method.Buffer // the input of gelu
	hidden method.Buffer // its output, after dropout
	mask   method.Buffer // dropout mask of the hidden layer; not filled unless keep < 1
	z      method.Buffer // the state before gain and shift
	factor method.Buffer // by position: 1 / standard deviation
	keep   float32
}

func (b bankNetwork) slots() []method.Slot {
	w := b.width
	y := len(decays) * w
	matrix := func(name string, rows, cols int, doc string) method.Slot {
		return method.Slot{Name: name, Upload: method.Gradient, Rows: rows, Dim: cols, Doc: doc, Init: method.Init{
			Kind: method.Uniform, A: 1 / math.Sqrt(float64(cols)),
		}}
	}
	vector := func(name string, dim int, start float64, doc string) method.Slot {
		return method.Slot{Name: name, Upload: method.Gradient, Rows: 1, Dim: dim, Doc: doc, Init: method.Init{
			Kind: method.Constant, A: start,
		}}
	}
	return []method.Slot{
		bankHidden:     matrix("hidden", 2*w, y, "weights of the hidden layer, on the decayed sums"),
		bankSkip:       matrix("skip", w, y, "weights from the decayed sums to the state"),
		bankOut:        matrix("out", w, 2*w, "weights from the hidden layer to the state"),
		bankHiddenBias: vector("hidden-bias", 2*w, 0, "biases of the hidden layer"),
		bankOutBias:    vector("out-bias", w, 0, "biases of the state before its normalisation"),
		bankGain:       vector("gain", w, 1, "gains of the normalised state"),
		bankShift:      vector("shift", w, 0, "shifts of the normalised state"),
	}
}

func (b bankNetwork) forward(w *method.Work, first, n int, x []float32, keep float32, z []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	space := method.Workspace[bankSpace](&w.Scratch)
	wide := vec.Pad(len(decays) * b.width)
	y := space.y.Floats(n * wide)
	b.scales(space, n)
	state := w.Floats(wide)
	clear(state)
	for t := range n {
		b.advance(x[t*vec.Pad(b.width):], state)
		b.normalise(space, n, t, state, y[t*wide:][:wide])
	}
	space.keep = keep
	b.head(w, first, n, y, z)
}

func (b bankNetwork) newest(w *method.Work, first, n int, x, z []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	space := method.Workspace[bankSpace](&w.Scratch)
	wide := vec.Pad(len(decays) * b.width)
	y := space.y.Floats(wide)
	b.scales(space, n)
	state := w.Floats(wide)
	clear(state)
	for t := range n {
		b.advance(x[t*vec.Pad(b.width):], state)
	}
	b.normalise(space, n, n-1, state, y)
	space.keep = 1
	b.head(w, first, 1, y, z)
}

// advance moves the sums to the next row.
func (b bankNetwork) advance(x, state []float32) {
	for k, decay := range decays {
		s := state[k*b.width:][:b.width]
		vec.Decay(decay, s, x[:b.width], s)
	}
}

// scales fills the factors of n positions.
func (b bankNetwork) scales(space *bankSpace, n int) {
	scale := space.scale.Floats(len(decays) * n)
	for k, decay := range decays {
		sum := 0.0
		for t := range n {
			sum = float64(float64(decay)*sum) + 1
			scale[k*n+t] = float32(1 / math.Sqrt(sum))
		}
	}
}

// normalise sets y to the sums times their factors at position t of n.
func (b bankNetwork) normalise(space *bankSpace, n, t int, state, y []float32) {
	scale := space.scale.Floats(len(decays) * n)
	for k := range decays {
		vec.ScaleTo(scale[k*n+t], state[k*b.width:][:b.width], y[k*b.width:][:b.width])
	}
	clear(y[len(decays)*b.width:])
}

// head computes n states from the rows of y.
func (b bankNetwork) head(w *method.Work, first, n int, y, z []float32) {
	d, v := b.width, w.View[first:]
	wide, h, s := vec.Pad(len(decays)*d), vec.Pad(2*d), vec.Pad(d)
	space := method.Workspace[bankSpace](&w.Scratch)
	sum, out := space.sum.Floats(n*h), space.hidden.Floats(n*h)
	raw := space.z.Floats(n * s)
	for t := range n {
		copy(sum[t*h:(t+1)*h], v[bankHiddenBias].Val)
		copy(raw[t*s:(t+1)*s], v[bankOutBias].Val)
	}
	in := vec.Rows(y, wide)
	learn.Gemm(&w.Scratch, n, 2*d, len(decays)*d, in, vec.Rows(v[bankHidden].Val, wide).T(), vec.Rows(sum, h))
	vec.Gelu(sum, out)
	if space.keep < 1 {
		mask := space.mask.Floats(n * h)
		drop(&w.Rand, space.keep, mask)
		vec.Mul(mask, out)
	}
	learn.Gemm(&w.Scratch, n, d, len(decays)*d, in, vec.Rows(v[bankSkip].Val, wide).T(), vec.Rows(raw, s))
	learn.Gemm(&w.Scratch, n, d, 2*d, vec.Rows(out, h), vec.Rows(v[bankOut].Val, h).T(), vec.Rows(raw, s))
	factor := space.factor.Floats(n)
	for t := range n {
		row, to := raw[t*s:][:d], z[t*s:(t+1)*s]
		factor[t] = vec.LayerNorm(row, v[bankGain].Val[:d], v[bankShift].Val[:d], row, to[:d])
		clear(to[d:])
	}
}

func (b bankNetwork) back(w *method.Work, first, n int, dz, dx []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	d, v := b.width, w.View[first:]
	y, h, s := len(decays)*d, vec.Pad(2*d), vec.Pad(d)
	wide := vec.Pad(y)
	space := method.Workspace[bankSpace](&w.Scratch)
	raw, factor := space.z.Floats(n*s), space.factor.Floats(n)
	gain, dgain, dshift := v[bankGain].Val[:d], v[bankGain].Grad[:d], v[bankShift].Grad[:d]
	draw := w.Floats(n * s)
	clear(draw)
	for t := range n {
		to := draw[t*s:][:d]
		vec.LayerNormBack(raw[t*s:][:d], gain, factor[t], dz[t*s:][:d], dgain, dshift, to)
		vec.Add(to, v[bankOutBias].Grad[:d])
	}
	pack := w.Floats(vec.GemmRoom(max(n, y)))
	in, out, grad := vec.Rows(space.y.Floats(n*wide), wide), vec.Rows(space.hidden.Floats(n*h), h), vec.Rows(draw, s)
	vec.Gemm(d, y, n, grad.T(), in, pack, vec.Rows(v[bankSkip].Grad, wide))
	vec.Gemm(d, 2*d, n, grad.T(), out, pack, vec.Rows(v[bankOut].Grad, h))
	dy, dh := w.Floats(n*wide), w.Floats(n*h)
	clear(dy)
	clear(dh)
	vec.Gemm(n, y, d, grad, vec.Rows(v[bankSkip].Val, wide), pack, vec.Rows(dy, wide))
	vec.Gemm(n, 2*d, d, grad, vec.Rows(v[bankOut].Val, h), pack, vec.Rows(dh, h))
	vec.GeluBack(space.sum.Floats(n*h), dh)
	if space.keep < 1 {
		vec.Mul(space.mask.Floats(n*h), dh)
	}
	vec.Columns(dh, v[bankHiddenBias].Grad)
	vec.Gemm(2*d, y, n, vec.Rows(dh, h).T(), in, pack, vec.Rows(v[bankHidden].Grad, wide))
	vec.Gemm(n, y, 2*d, vec.Rows(dh, h), vec.Rows(v[bankHidden].Val, wide), pack, vec.Rows(dy, wide))
	b.retreat(w, n, dy, dx)
}

// retreat sets dx from the gradients of the decayed sums: the recurrence, backwards.
func (b bankNetwork) retreat(w *method.Work, n int, dy, dx []float32) {
	d, s := b.width, vec.Pad(b.width)
	wide := vec.Pad(len(decays) * d)
	scale := method.Workspace[bankSpace](&w.Scratch).scale.Floats(len(decays) * n)
	state := w.Floats(wide)
	clear(state)
	clear(dx[:n*s])
	for t := n - 1; t >= 0; t-- {
		for k, decay := range decays {
			sum := state[k*d:][:d]
			vec.Scale(decay, sum)
			vec.Axpy(scale[k*n+t], dy[t*wide+k*d:][:d], sum)
			vec.Add(sum, dx[t*s:][:d])
		}
	}
}
