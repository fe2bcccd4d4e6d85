package sequence

import (
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// NextItemLoss returns the next-item loss over a history in order: after each item, minus the
// logarithm of the softmax probability of the next item against negatives. All positions of a
// run share the negatives drawn for it, so that each is compared with many (Hidasi and
// Karatzoglou 2018). If keep is below 1, dropout keeps that fraction of the input and of each
// scoring state. The gradient is that of the mean over a history if weighting is "users", of the
// sum if it is "rows", and of the sum divided by the square root of the length if it is "roots".
// If a history is longer than Longest, each local training uses a random window of it.
func (g GRU) NextItemLoss(run int, keep float32, weighting string) method.Oracle {
	scale := func(w *method.Work) float32 {
		n := float32(min(len(w.History), g.Longest) - 1)
		switch weighting {
		case "users":
			return 1
		case "roots":
			return float32(math.Sqrt(float64(n)))
		}
		return n
	}
	return learn.Alone(method.Term{
		Name: "next item", Scale: scale,
		Grad: func(w *method.Work, b *method.Batch) float64 {
			n := min(len(w.History), g.Longest) - 1
			if n < 1 {
				return 0
			}
			mark := w.Mark()
			defer w.Release(mark)
			first := int(w.Rand.Uint32n(uint32(len(w.History) - n)))
			s, places := w.View[g.First+gruItem].Stride, g.places(w)
			rows, each := places.rows[first:first+n+1], len(places.negatives)/len(w.History)
			negatives := places.negatives[first*each:]
			scale := float32(1)
			switch weighting {
			case "users":
				scale = 1 / float32(n)
			case "roots":
				scale = 1 / float32(math.Sqrt(float64(n)))
			}
			h := g.read(w, rows[:n], keep)[s:]
			seen, kept := w.Floats(n*s), w.Floats(n*s)
			copy(seen, h)
			if keep < 1 {
				drop(&w.Rand, keep, kept)
				times(kept, seen)
			}
			dh := w.Floats(n * s)
			clear(dh)
			loss := 0.0
			for lo := 0; lo < n; lo += run {
				hi := min(lo+run, n)
				loss += g.runLoss(w, rows[lo+1:hi+1], negatives[lo*each:hi*each], scale, seen[lo*s:hi*s], dh[lo*s:hi*s])
			}
			if keep < 1 {
				times(kept, dh)
			}
			g.back(w, rows[:n], dh, keep)
			return loss / float64(n) * float64(b.N)
		},
	})
}

// runLoss returns the loss of one run of positions, given their states and the rows of the items
// that come next.
func (g GRU) runLoss(w *method.Work, next, negatives []uint32, scale float32, states, dstates []float32) float64 {
	item, bias := &w.View[g.First+gruItem], &w.View[g.First+gruBias]
	s, m, k := item.Stride, len(next), len(negatives)
	wide := vec.Pad(k + 1) // the last is the next item
	mark := w.Mark()
	defer w.Release(mark)
	rows, drows, z := w.Floats(k*s), w.Floats(k*s), w.Floats(m*wide)
	clear(z)
	offset, doffset := w.Floats(wide), w.Floats(wide)
	clear(offset)
	clear(doffset)
	for j, p := range negatives {
		copy(rows[j*s:(j+1)*s], item.Row(item.Local+p))
		offset[j] = bias.Row(bias.Local + p)[0]
	}
	pack := w.Floats(vec.GemmRoom(max(m, k, g.Dim)))
	vec.Gemm(m, k, g.Dim, vec.Rows(states, s), vec.Rows(rows, s).T(), pack, vec.Rows(z, wide))
	loss := 0.0
	for t, r := range next {
		row, p := z[t*wide:][:k+1], r-item.Local
		vec.Add(offset[:k], row[:k])
		row[k] = vec.Dot(states[t*s:(t+1)*s], item.Row(r)) + bias.Row(bias.Local + p)[0]
		if l := softmax(row, scale); w.WantLoss {
			loss += l
		}
		vec.Axpy(row[k], item.Row(r), dstates[t*s:(t+1)*s])
		vec.Axpy(row[k], states[t*s:(t+1)*s], item.GradRow(p))
		bias.GradRow(p)[0] += row[k]
		vec.Add(row[:k], doffset[:k])
	}
	vec.Gemm(m, g.Dim, k, vec.Rows(z, wide), vec.Rows(rows, s), pack, vec.Rows(dstates, s))
	clear(drows)
	vec.Gemm(k, g.Dim, m, vec.Rows(z, wide).T(), vec.Rows(states, s), pack, vec.Rows(drows, s))
	for j, p := range negatives {
		vec.Add(drows[j*s:(j+1)*s], item.GradRow(p))
		bias.GradRow(p)[0] += doffset[j]
	}
	return loss
}

// minProbability is exp(-100), the smallest probability whose logarithm counts.
const minProbability = 3.7200759760208356e-44

// softmax replaces the logits by scale times the gradient of the negative log probability of the
// last one, and returns that negative log probability.
func softmax(z []float32, scale float32) float64 {
	top := z[0]
	for _, x := range z {
		top = max(top, x)
	}
	for i := range z {
		z[i] -= top
	}
	vec.Sigmoids(z)
	sum := float32(0)
	for i, y := range z { // exp(x) = sigmoid(x) / (1 - sigmoid(x)); every x is at most 0
		z[i] = y / (1 - y)
		sum += z[i]
	}
	share := z[len(z)-1] / sum
	vec.Scale(scale/sum, z)
	z[len(z)-1] -= scale
	return -rng.Log(max(float64(share), minProbability))
}
