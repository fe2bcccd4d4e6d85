package private

import (
	"cmp"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Spectral is an item table of eigenvector entries of the head's co-occurrence matrix:
// Rank columns, a column that is 1 for items outside the head, and a column that orders
// those. A second table holds each item's position in the head, from 1, or 0; and its
// weight.
type Spectral struct {
	N          int // number of head items
	Rank       int
	Damp, Flat float64
}

// Choose selects the items with the largest counts as the head, and orders the others.
// Counts below least are treated as least.
func (h Spectral) Choose(counts []float64, least float64, place []float32, placeStride int, item []float32,
	stride int,
) {
	for at, i := range Top(counts, len(counts)) {
		row, own := place[i*placeStride:], item[i*stride:]
		row[1] = float32(math.Pow(math.Max(counts[i], least), -h.Flat))
		if row[0] = 0; at < h.N {
			row[0] = float32(at + 1)
			own[h.Rank], own[h.Rank+1] = 0, 0
			continue
		}
		own[h.Rank], own[h.Rank+1] = 1, float32(-float64(at-h.N+1)/float64(len(counts)))
	}
}

// Embed computes the eigenvectors of a matrix with noise of standard deviation sigma on
// its packed numbers, and sets the row of each head item. An eigenvalue x counts as x /
// (x + Damp users).
func (h Spectral) Embed(matrix []float32, sigma float64, users int, place []float32, placeStride int, item []float32,
	stride int,
) {
	values, vectors := Denoise(matrix, h.N, min(h.Rank, h.N), sigma)
	for i := range len(item) / stride {
		row := item[i*stride:]
		clear(row[:h.Rank])
		if at := int(place[i*placeStride]); at > 0 {
			for k, x := range values {
				row[k] = float32(float64(vectors[k][at-1]) * math.Sqrt(x/(x+float64(h.Damp*float64(users)))))
			}
		}
	}
}

// Serve computes a user's vector from its items' rows, weighted by recency. Scores of
// head items get a standard deviation of 1; items outside the head lie below deviations
// under the head's mean.
func (h Spectral) Serve(w *method.Work, r learn.Recency, item, place *method.View, below float64, user []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	items, weight, _ := r.Weights(w, w.History)
	scores := w.Floats(w.Items)
	clear(user)
	for x, i := range items {
		vec.Axpy(weight[x]*place.Row(i)[1], item.Row(i), user)
	}
	user[h.Rank], user[h.Rank+1] = 0, 0
	vec.DotsAll(item.Arena[:w.Items*item.Stride], item.Stride, user, 0, scores)
	mean, square := 0.0, 0.0
	for _, x := range scores { // scores outside the head are 0
		mean += float64(x)
		square += float64(float64(x) * float64(x))
	}
	mean /= float64(h.N)
	if v := square/float64(h.N) - float64(mean*mean); v > 1e-20 {
		unit := 1 / math.Sqrt(v)
		vec.Scale(float32(unit), user)
		mean *= unit
	}
	user[h.Rank], user[h.Rank+1] = float32(mean-below), 1
}

var _ method.PopularityRanker = (*OneShot)(nil)

// Popular lists the head items, which are ordered by their counts.
func (m *OneShot) Popular(g *method.Global) []uint32 {
	var out []uint32
	place, s := g.Value[onePlace], g.Stride[onePlace]
	for i := range g.Items {
		if place[i*s] > 0 {
			out = append(out, uint32(i))
		}
	}
	slices.SortFunc(out, func(a, b uint32) int { return cmp.Compare(place[int(a)*s], place[int(b)*s]) })
	return out
}
