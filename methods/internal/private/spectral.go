package private

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Spectral is a table of items by eigenvectors of how often those of the head go
// together: Rank columns, one that is 1 for items outside the head, and one by which
// these are ordered. Beside it stands a table of places: an item's in the head, from 1,
// or 0; and its weight.
type Spectral struct {
	N          int // items of the head
	Rank       int
	Damp, Flat float64
}

// Choose takes the items with the largest counts for the head, and puts the others in
// their order. A count below least is not told from least.
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

// Embed finds the eigenvectors of a matrix with noise of deviation sigma on its packed
// numbers, and gives each item of the head its row of them. A value x counts as x / (x +
// Damp users).
func (h Spectral) Embed(matrix []float32, sigma float64, users int, place []float32, placeStride int, item []float32,
	stride int,
) {
	values, vectors := Denoise(matrix, h.N, min(h.Rank, h.N), sigma)
	for i := range len(item) / stride {
		row := item[i*stride:]
		clear(row[:h.Rank])
		if at := int(place[i*placeStride]); at > 0 {
			for k, x := range values {
				row[k] = float32(float64(vectors[k][at-1]) * math.Sqrt(x/(x+h.Damp*float64(users))))
			}
		}
	}
}

// Serve makes a user's vector: its items' rows, by how new they are. Scores of the head
// are brought to a deviation of 1, and items outside it lie so many below its mean.
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
	for _, x := range scores { // those outside the head are 0
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
