package sequence

import (
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// candidates are the items that all positions of a local training are compared with, in
// ascending order, each with the number that is added to its logit.
type candidates struct {
	item   []uint32
	offset []float32
}

// Short histories have fewer negatives, so that the cost of a local training is proportional to
// its positions: negativesPerPosition each, and at least leastNegatives.
const (
	negativesPerPosition = 4
	leastNegatives       = 32
)

// negatives is the number of negatives that a number of positions share.
func (f *Frozen) negatives(positions int) int {
	return min(f.Negatives, max(leastNegatives, negativesPerPosition*positions))
}

// candidates draws n negatives in proportion to the probabilities in the slot "draw". Draw k comes
// from the k-th of n equal parts of the distribution, so that items ascend, and the expected
// number of draws of an item is n times its probability. An item that is drawn m times
// has log(m / expected number) added to its logit: the sum over candidates then estimates the
// sum over the catalogue. If the catalogue is not larger than n, all items are candidates.
func (f *Frozen) candidates(w *method.Work, n int) candidates {
	bias, draw := w.View[f.First+frozenBias].Val, w.View[f.First+frozenDraw].Val[:w.Items]
	if w.Items <= n {
		c := candidates{w.Uint32s(w.Items), w.Floats(w.Items)}
		for i := range c.item {
			c.item[i], c.offset[i] = uint32(i), bias[i]
		}
		return c
	}
	c := candidates{w.Uint32s(n)[:0], w.Floats(n)[:0]}
	times := 0
	for k := range n {
		at := float32((float64(k) + w.Rand.Float64()) / float64(n))
		i, _ := slices.BinarySearch(draw, at) // the first that is at least at
		item := uint32(min(i, w.Items-1))
		last := len(c.item) - 1
		if last >= 0 && item <= c.item[last] {
			times++
		} else {
			c.item, c.offset = append(c.item, item), append(c.offset, 0)
			last, times = last+1, 1
		}
		item = c.item[last]
		c.offset[last] = bias[item] + float32(rng.Log(float64(times)/expected(draw, item, n)))
	}
	return c
}

// expected returns the expected number of draws of an item among n.
func expected(draw []float32, item uint32, n int) float64 {
	p := float64(draw[item])
	if item > 0 {
		p -= float64(draw[item-1])
	}
	return math.Max(p*float64(n), 1e-6)
}

// nextItems returns the sum of the losses at all positions and the gradient of the biases, adds
// to the gradient of N, and sets dz. in holds the features of the next items.
func (f *Frozen) nextItems(w *method.Work, next []uint32, in, z, dz []float32) (float64, leans) {
	c := f.candidates(w, f.negatives(len(next)))
	n, k, s := len(next), len(c.item), vec.Pad(f.Width)
	wide := vec.Pad(k + 1) // the last is the next item
	features := f.gather(w, c.item)
	rows, own := w.Floats(k*s), w.Floats(n*s)
	clear(rows)
	clear(own)
	f.project(w, frozenName, k, features, rows)
	f.project(w, frozenName, n, in, own)
	shrink := float32(1 / math.Sqrt(float64(f.Dim)))
	vec.Scale(shrink, rows)
	vec.Scale(shrink, own)
	logits := w.Floats(n * wide)
	clear(logits)
	pack := w.Floats(vec.GemmRoom(max(n, k, f.Width)))
	vec.Gemm(n, k, f.Width, vec.Rows(z, s), vec.Rows(rows, s).T(), pack, vec.Rows(logits, wide))
	loss, lean := f.softmaxes(w, &c, next, z, own, logits)
	clear(dz[:n*s])
	vec.Gemm(n, f.Width, k, vec.Rows(logits, wide), vec.Rows(rows, s), pack, vec.Rows(dz, s))
	clear(rows)
	vec.Gemm(k, f.Width, n, vec.Rows(logits, wide).T(), vec.Rows(z, s), pack, vec.Rows(rows, s))
	for t := range n {
		g, row := logits[t*wide+k], own[t*s:(t+1)*s]
		vec.Axpy(g, row, dz[t*s:(t+1)*s])
		vec.ScaleTo(g, z[t*s:(t+1)*s], row)
	}
	vec.Scale(shrink, rows)
	vec.Scale(shrink, own)
	f.projectBack(w, frozenName, k, features, rows)
	f.projectBack(w, frozenName, n, in, own)
	return loss, lean
}

// softmaxes turns the products of states and candidates into the gradients of the logits.
func (f *Frozen) softmaxes(w *method.Work, c *candidates, next []uint32, z, own, logits []float32) (float64, leans) {
	n, k, s := len(next), len(c.item), vec.Pad(f.Width)
	wide := vec.Pad(k + 1)
	bias := w.View[f.First+frozenBias].Val
	doffset, down := w.Floats(k), w.Floats(n)
	clear(doffset)
	loss, scale := 0.0, 1/float32(n)
	for t, item := range next {
		row := logits[t*wide:][:k+1]
		vec.Add(c.offset, row[:k])
		if x, found := slices.BinarySearch(c.item, item); found {
			row[x] = -math.MaxFloat32 / 4
		}
		row[k] = vec.Dot(z[t*s:(t+1)*s], own[t*s:(t+1)*s]) + bias[item]
		vec.Softmax(1, row)
		if w.WantLoss {
			loss -= rng.Log(max(float64(row[k]), minProbability))
		}
		vec.Scale(scale, row)
		row[k] -= scale
		vec.Add(row[:k], doffset)
		down[t] = row[k]
	}
	return loss, merged(w, c.item, doffset, next, down)
}
