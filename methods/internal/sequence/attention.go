package sequence

import (
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// attentionNetwork is a stack of causal self-attention blocks (Vaswani et al. 2017), as SASRec
// uses (Kang and McAuley 2018), with the normalisation before each part:
//
//	h = x + position
//	h = h + out softmax(q k' / sqrt(width/heads)) v     q, k, v from LayerNorm(h), for each head
//	h = h + contract gelu(expand LayerNorm(h) + b) + c
//	z = LayerNorm(h)
//
// Positions count from the newest row, so that a long history and its newest part look alike.
// Rows older than the last position share its embedding.
type attentionNetwork struct {
	width, heads, blocks, expansion, positions int
}

// The slots of an attentionNetwork, relative to its first. The slots of the blocks follow.
const (
	attentionPosition = iota
	attentionGain
	attentionShift
	attentionBlocks
)

// The slots of a block, relative to its first.
const (
	blockGain         = iota // of the normalisation before the attention
	blockShift               //
	blockQKV                 // queries, keys and values
	blockOut                 //
	blockMidGain             // of the normalisation before the feed-forward layers
	blockMidShift            //
	blockExpand              //
	blockExpandBias          //
	blockContract            //
	blockContractBias        //
	blockSlots
)

// attentionSpace holds the intermediate results that forward saves for back.
type attentionSpace struct {
	h      method.Buffer // the rows of the network
	norm   method.Buffer // the rows before the last gain and shift
	factor method.Buffer // by position: what the normalisation multiplied by
	keep   float32
	block  []blockSpace
}

// blockSpace is the part of one block.
type blockSpace struct {
	in, mid normSpace
	qkv     method.Buffer // queries, keys and values
	weight  method.Buffer // by head: one row of attention weights per position
	read    method.Buffer // the weighted sums of values, heads side by side
	sum     method.Buffer // the input of gelu
	hidden  method.Buffer // its output, after dropout
	// Dropout masks; not filled unless keep < 1.
	readMask, hiddenMask method.Buffer
}

// normSpace is a normalisation: its output, the rows before gain and shift, and their factors.
type normSpace struct{ out, norm, factor method.Buffer }

func (a attentionNetwork) slots() []method.Slot {
	d, f := a.width, a.expansion*a.width
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
	position := matrix("position", a.positions, d, "position embeddings, counted from the newest item")
	position.Init = method.Init{Kind: method.Normal, A: 0.02}
	out := []method.Slot{
		attentionPosition: position,
		attentionGain:     vector("gain", d, 1, "gains of the normalised state"),
		attentionShift:    vector("shift", d, 0, "shifts of the normalised state"),
	}
	for b := range a.blocks {
		name := func(part string) string { return fmt.Sprintf("block%d-%s", b+1, part) }
		out = append(out,
			vector(name("gain"), d, 1, "gains of the normalisation before the attention"),
			vector(name("shift"), d, 0, "shifts of the normalisation before the attention"),
			matrix(name("qkv"), 3*d, d, "weights of queries, keys and values"),
			matrix(name("out"), d, d, "weights of the attention's output"),
			vector(name("mid-gain"), d, 1, "gains of the normalisation before the feed-forward layers"),
			vector(name("mid-shift"), d, 0, "shifts of the normalisation before the feed-forward layers"),
			matrix(name("expand"), f, d, "weights of the hidden layer"),
			vector(name("expand-bias"), f, 0, "biases of the hidden layer"),
			matrix(name("contract"), d, f, "weights of the feed-forward output"),
			vector(name("contract-bias"), d, 0, "biases of the feed-forward output"),
		)
	}
	return out
}

func (a attentionNetwork) forward(w *method.Work, first, n int, x []float32, keep float32, z []float32) {
	a.run(w, first, n, 0, x, keep, z)
}

func (a attentionNetwork) newest(w *method.Work, first, n int, x, z []float32) {
	a.run(w, first, n, n-1, x, 1, z)
}

// run computes the states from row from on. Only from = 0 leaves what back needs.
func (a attentionNetwork) run(w *method.Work, first, n, from int, x []float32, keep float32, z []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	v, d, s := w.View[first:], a.width, vec.Pad(a.width)
	space := method.Workspace[attentionSpace](&w.Scratch)
	for len(space.block) < a.blocks {
		space.block = append(space.block, blockSpace{})
	}
	space.keep = keep
	h := space.h.Floats(n * s)
	copy(h, x[:n*s])
	for t := range n {
		vec.Add(v[attentionPosition].Val[a.position(n, t)*s:][:s], h[t*s:(t+1)*s])
	}
	for b := range a.blocks {
		needed := 0
		if b == a.blocks-1 {
			needed = from
		}
		a.block(w, first+attentionBlocks+b*blockSlots, n, needed, keep, &space.block[b], h)
	}
	norm, factor := space.norm.Floats(n*s), space.factor.Floats(n)
	gain, shift := v[attentionGain].Val[:d], v[attentionShift].Val[:d]
	for t := from; t < n; t++ {
		to := z[(t-from)*s:][:s]
		factor[t] = vec.LayerNorm(h[t*s:][:d], gain, shift, norm[t*s:][:d], to[:d])
		clear(to[d:])
	}
}

// position returns the embedding of row t of n.
func (a attentionNetwork) position(n, t int) int { return min(n-1-t, a.positions-1) }

// block adds the output of a block to the rows of h from row from on. first is its first slot.
func (a attentionNetwork) block(w *method.Work, first, n, from int, keep float32, space *blockSpace, h []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	v, d, s := w.View[first:], a.width, vec.Pad(a.width)
	rows, wide := n-from, vec.Pad(3*a.width)
	in := space.in.forward(h, d, n, 0, v[blockGain].Val, v[blockShift].Val)
	qkv := space.qkv.Floats(n * wide)
	clear(qkv)
	weights := v[blockQKV].Val
	learn.Gemm(&w.Scratch, rows, d, d, vec.Rows(in[from*s:], s), vec.Rows(weights, s).T(),
		vec.Rows(qkv[from*wide:], wide))
	learn.Gemm(&w.Scratch, n, 2*d, d, vec.Rows(in, s), vec.Rows(weights[d*s:], s).T(), vec.Rows(qkv[d:], wide))
	read, sum := space.read.Floats(n*s), w.Floats(rows*s)
	clear(read)
	a.attend(w, n, from, space)
	clear(sum)
	learn.Gemm(&w.Scratch, rows, d, d, vec.Rows(read[from*s:], s), vec.Rows(v[blockOut].Val, s).T(), vec.Rows(sum, s))
	if keep < 1 {
		mask := space.readMask.Floats(n * s)
		drop(&w.Rand, keep, mask)
		vec.Mul(mask, sum)
	}
	vec.Add(sum, h[from*s:n*s])

	mid := space.mid.forward(h, d, n, from, v[blockMidGain].Val, v[blockMidShift].Val)
	f := a.expansion * d
	deep := vec.Pad(f)
	raw, hidden := space.sum.Floats(n * deep)[from*deep:], space.hidden.Floats(n * deep)[from*deep:]
	for t := range rows {
		copy(raw[t*deep:(t+1)*deep], v[blockExpandBias].Val)
		vec.Add(v[blockContractBias].Val, h[(from+t)*s:][:s])
	}
	learn.Gemm(&w.Scratch, rows, f, d, vec.Rows(mid[from*s:], s), vec.Rows(v[blockExpand].Val, s).T(),
		vec.Rows(raw, deep))
	vec.Gelu(raw, hidden)
	if keep < 1 {
		mask := space.hiddenMask.Floats(n * deep)
		drop(&w.Rand, keep, mask)
		vec.Mul(mask, hidden)
	}
	learn.Gemm(&w.Scratch, rows, d, f, vec.Rows(hidden, deep), vec.Rows(v[blockContract].Val, deep).T(),
		vec.Rows(h[from*s:], s))
}

// forward normalises rows of h from row from on, and returns all rows.
func (l *normSpace) forward(h []float32, d, n, from int, gain, shift []float32) []float32 {
	s := vec.Pad(d)
	out, norm, factor := l.out.Floats(n*s), l.norm.Floats(n*s), l.factor.Floats(n)
	for t := from; t < n; t++ {
		row := out[t*s : (t+1)*s]
		factor[t] = vec.LayerNorm(h[t*s:][:d], gain[:d], shift[:d], norm[t*s:][:d], row[:d])
		clear(row[d:])
	}
	return out
}

// back adds the gradients of forward over all rows. It overwrites dy.
func (l *normSpace) back(d, n int, gain, dy, dgain, dshift, dh []float32) {
	s := vec.Pad(d)
	norm, factor := l.norm.Floats(n*s), l.factor.Floats(n)
	for t := range n {
		vec.LayerNormBack(norm[t*s:][:d], gain[:d], factor[t], dy[t*s:][:d], dgain[:d], dshift[:d], dh[t*s:][:d])
	}
}
