package methods

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// choose takes the items with the largest counts for the head, and puts the others in
// their order. The counts are released already, so nothing here costs anything.
func (m *OneShot) choose(g *method.Global) {
	n, _ := learn.Column(g.Value[oneN], g.Items, g.Stride[oneN])
	place, item, h := g.Value[onePlace], g.Value[oneItem], m.head(g.Items).N
	least := math.Max(1, g.Noise) // of smaller ones nothing is known
	for at, i := range learn.Top(n, g.Items) {
		row, own := place[i*g.Stride[onePlace]:], item[i*g.Stride[oneItem]:]
		row[1] = float32(math.Pow(math.Max(n[i], least), -m.Flat))
		if row[0] = 0; at < h {
			row[0] = float32(at + 1)
			own[m.Rank], own[m.Rank+1] = 0, 0
			continue
		}
		own[m.Rank], own[m.Rank+1] = 1, float32(-float64(at-h+1)/float64(g.Items))
	}
}

// decompose finds the eigenvectors of what was summed up so far, times scale, with noise
// of deviation sigma on its numbers, and gives each item of the head its row of them.
func (m *OneShot) decompose(g *method.Global, scale, sigma float64) {
	h, s := m.head(g.Items), g.Stride[oneItem]
	values, vectors := learn.Denoise(h.Matrix(g.Value[oneTotal], scale), h.N, min(m.Rank, h.N), scale*sigma)
	for i := range g.Items {
		row := g.Value[oneItem][i*s:]
		clear(row[:m.Rank])
		if at := int(g.Value[onePlace][i*g.Stride[onePlace]]); at > 0 {
			for k, x := range values {
				row[k] = float32(float64(vectors[k][at-1]) * math.Sqrt(x/(x+m.Damp*float64(g.Users))))
			}
		}
	}
}

// serve makes the user's vector: its items' rows, by how new they are. Scores of the
// head are brought to a deviation of 1, and items outside it lie so many below its mean.
func (m *OneShot) serve(w *method.Work, h int, below float64) {
	item, user, scores := &w.View[oneItem], w.View[oneUser].Val, w.Room(10, w.Items)
	items, weight, _ := learn.Recency{Rho: m.Fade, Boost: 1 - m.Old, Base: m.Old}.Weights(w, w.History)
	clear(user)
	for x, i := range items {
		vec.Axpy(weight[x]*w.View[onePlace].Row(i)[1], item.Row(i), user)
	}
	user[m.Rank], user[m.Rank+1] = 0, 0
	vec.DotsAll(item.Arena[:w.Items*item.Stride], item.Stride, user, 0, scores)
	mean, square := 0.0, 0.0
	for _, x := range scores { // those outside the head are 0
		mean += float64(x)
		square += float64(float64(x) * float64(x))
	}
	mean /= float64(h)
	if v := square/float64(h) - float64(mean*mean); v > 1e-20 {
		unit := 1 / math.Sqrt(v)
		vec.Scale(float32(unit), user)
		mean *= unit
	}
	user[m.Rank], user[m.Rank+1] = float32(mean-below), 1
}
