package sequence

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// attentionRun is the number of positions whose weights are computed together. A position reads
// only older ones, so small runs save work. The results do not depend on it.
const attentionRun = 48

// headScale is what the products of queries and keys are multiplied by.
func (a attentionNetwork) headScale() float32 {
	return float32(1 / math.Sqrt(float64(a.width/a.heads)))
}

// head returns the queries, keys and values of one head.
func (a attentionNetwork) head(qkv []float32, head int) (q, k, v []float32) {
	d := a.width
	at := head * (d / a.heads)
	return qkv[at:], qkv[d+at:], qkv[2*d+at:]
}

// attend computes the weights of the positions from row from on, and their weighted sums of
// values. space.read is zero.
func (a attentionNetwork) attend(w *method.Work, n, from int, space *blockSpace) {
	s, wide, across, size := vec.Pad(a.width), vec.Pad(3*a.width), vec.Pad(n), a.width/a.heads
	qkv, read := space.qkv.Floats(n*wide), space.read.Floats(n*s)
	weights := space.weight.Floats(a.heads * n * across)
	for head := range a.heads {
		q, k, v := a.head(qkv, head)
		weight, out := weights[head*n*across:][:n*across], read[head*size:]
		for lo := from; lo < n; lo += attentionRun {
			hi := min(lo+attentionRun, n)
			part := weight[lo*across : hi*across]
			clear(part)
			learn.Gemm(&w.Scratch, hi-lo, hi, size, vec.Rows(q[lo*wide:], wide), vec.Rows(k, wide).T(),
				vec.Rows(part, across))
			for t := lo; t < hi; t++ {
				row := weight[t*across:][:hi]
				vec.Softmax(a.headScale(), row[:t+1])
				clear(row[t+1:])
			}
			learn.Gemm(&w.Scratch, hi-lo, size, hi, vec.Rows(part, across), vec.Rows(v, wide), vec.Rows(out[lo*s:], s))
		}
	}
}

// attendBack adds to dqkv the gradients of attend over all positions, for dread, the gradient
// with respect to the weighted sums.
func (a attentionNetwork) attendBack(w *method.Work, n int, space *blockSpace, dread, dqkv []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	s, wide, across, size := vec.Pad(a.width), vec.Pad(3*a.width), vec.Pad(n), a.width/a.heads
	qkv, weights := space.qkv.Floats(n*wide), space.weight.Floats(a.heads*n*across)
	grad := w.Floats(min(n, attentionRun) * across)
	for head := range a.heads {
		q, k, v := a.head(qkv, head)
		dq, dk, dv := a.head(dqkv, head)
		weight, dout := weights[head*n*across:][:n*across], dread[head*size:]
		for lo := 0; lo < n; lo += attentionRun {
			hi := min(lo+attentionRun, n)
			rows := hi - lo
			clear(grad[:rows*across])
			to := vec.Rows(dout[lo*s:], s)
			learn.Gemm(&w.Scratch, rows, hi, size, to, vec.Rows(v, wide).T(), vec.Rows(grad, across))
			learn.Gemm(&w.Scratch, hi, size, rows, vec.Rows(weight[lo*across:], across).T(), to, vec.Rows(dv, wide))
			for t := lo; t < hi; t++ {
				row := grad[(t-lo)*across:][:hi]
				vec.SoftmaxBack(a.headScale(), weight[t*across:][:t+1], row[:t+1])
				clear(row[t+1:])
			}
			learn.Gemm(&w.Scratch, rows, size, hi, vec.Rows(grad, across), vec.Rows(k, wide),
				vec.Rows(dq[lo*wide:], wide))
			learn.Gemm(&w.Scratch, hi, size, rows, vec.Rows(grad, across).T(), vec.Rows(q[lo*wide:], wide),
				vec.Rows(dk, wide))
		}
	}
}

func (a attentionNetwork) back(w *method.Work, first, n int, dz, dx []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	v, d, s := w.View[first:], a.width, vec.Pad(a.width)
	space := method.Workspace[attentionSpace](&w.Scratch)
	norm, factor := space.norm.Floats(n*s), space.factor.Floats(n)
	dx = dx[:n*s]
	clear(dx)
	gain, dgain, dshift := v[attentionGain].Val[:d], v[attentionGain].Grad[:d], v[attentionShift].Grad[:d]
	for t := range n {
		vec.LayerNormBack(norm[t*s:][:d], gain, factor[t], dz[t*s:][:d], dgain, dshift, dx[t*s:][:d])
	}
	for b := a.blocks - 1; b >= 0; b-- {
		a.blockBack(w, first+attentionBlocks+b*blockSlots, n, space.keep, &space.block[b], dx)
	}
	for t := range n {
		vec.Add(dx[t*s:(t+1)*s], v[attentionPosition].Grad[a.position(n, t)*s:][:s])
	}
}

// blockBack adds the gradients of a block: to its slots, and to dh, which holds the gradient
// with respect to the block's output.
func (a attentionNetwork) blockBack(w *method.Work, first, n int, keep float32, space *blockSpace, dh []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	v, d, s, f := w.View[first:], a.width, vec.Pad(a.width), a.expansion*a.width
	deep, wide := vec.Pad(f), vec.Pad(3*d)
	pack := w.Floats(vec.GemmRoom(max(n, f, 3*d)))
	grad := vec.Rows(dh, s)

	hidden, dhidden, dnorm := space.hidden.Floats(n*deep), w.Floats(n*deep), w.Floats(n*s)
	clear(dhidden)
	clear(dnorm)
	vec.Gemm(n, f, d, grad, vec.Rows(v[blockContract].Val, deep), pack, vec.Rows(dhidden, deep))
	vec.Gemm(d, f, n, grad.T(), vec.Rows(hidden, deep), pack, vec.Rows(v[blockContract].Grad, deep))
	vec.Columns(dh, v[blockContractBias].Grad[:s])
	if keep < 1 {
		vec.Mul(space.hiddenMask.Floats(n*deep), dhidden)
	}
	vec.GeluBack(space.sum.Floats(n*deep), dhidden)
	mid := vec.Rows(space.mid.out.Floats(n*s), s)
	vec.Gemm(f, d, n, vec.Rows(dhidden, deep).T(), mid, pack, vec.Rows(v[blockExpand].Grad, s))
	vec.Columns(dhidden, v[blockExpandBias].Grad[:deep])
	vec.Gemm(n, d, f, vec.Rows(dhidden, deep), vec.Rows(v[blockExpand].Val, s), pack, vec.Rows(dnorm, s))
	space.mid.back(d, n, v[blockMidGain].Val, dnorm, v[blockMidGain].Grad, v[blockMidShift].Grad, dh)

	dsum, dread, dqkv := w.Floats(n*s), w.Floats(n*s), w.Floats(n*wide)
	copy(dsum, dh)
	if keep < 1 {
		vec.Mul(space.readMask.Floats(n*s), dsum)
	}
	clear(dread)
	clear(dqkv)
	vec.Gemm(d, d, n, vec.Rows(dsum, s).T(), vec.Rows(space.read.Floats(n*s), s), pack, vec.Rows(v[blockOut].Grad, s))
	vec.Gemm(n, d, d, vec.Rows(dsum, s), vec.Rows(v[blockOut].Val, s), pack, vec.Rows(dread, s))
	a.attendBack(w, n, space, dread, dqkv)
	in := vec.Rows(space.in.out.Floats(n*s), s)
	vec.Gemm(3*d, d, n, vec.Rows(dqkv, wide).T(), in, pack, vec.Rows(v[blockQKV].Grad, s))
	clear(dnorm)
	vec.Gemm(n, d, 3*d, vec.Rows(dqkv, wide), vec.Rows(v[blockQKV].Val, s), pack, vec.Rows(dnorm, s))
	space.in.back(d, n, v[blockGain].Val, dnorm, v[blockGain].Grad, v[blockShift].Grad, dh)
}
