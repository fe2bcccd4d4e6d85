package closed

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// RankGain is how well scores rank a target among the items that the user does not have,
// ties against it: its NDCG@10 among all of them, and that among 99 drawn from them.
func RankGain(w *method.Work, scores []float32, target uint32) float32 {
	want, above := scores[target], -1 // the target is not above itself
	for _, x := range scores {
		if x >= want {
			above++
		}
	}
	for _, i := range w.Samples.Item {
		if i != target && scores[i] >= want {
			above--
		}
	}
	gain := func(place float64) float64 {
		if place >= 10 {
			return 0
		}
		return math.Ln2 / math.Log(place+2)
	}
	others := w.Items - len(w.Samples.Item)
	return float32(gain(float64(above)) + gain(float64(above)*99/float64(max(others, 99))))
}

// Mixture is what of the blended scores is the sequence head's, and what that of a model
// over pairs of items.
type Mixture struct{ Head, Items float32 }

// MixtureGrid is the settings that devices judge: each Recency with each Share.
type MixtureGrid struct {
	Recency []learn.Recency
	Mixture []Mixture
}

// Len is how many settings there are.
func (g MixtureGrid) Len() int { return len(g.Recency) * len(g.Mixture) }

// At is setting k.
func (g MixtureGrid) At(k int) (learn.Recency, Mixture) {
	return g.Recency[k/len(g.Mixture)], g.Mixture[k%len(g.Mixture)]
}

// Judge adds how well each setting ranks the target. recent scores all items by one
// Recency, next holds the head's scores, and items those of the model over pairs, or
// nothing.
func (g MixtureGrid) Judge(w *method.Work, target uint32, next, items []float32, recent func(learn.Recency) []float32,
	merit []float32,
) {
	mark := w.Mark()
	defer w.Release(mark)
	blend := w.Floats(w.Items)
	for k, r := range g.Recency {
		inner := w.Mark()
		scores := recent(r)
		for j, s := range g.Mixture {
			vec.ScaleTo(1-s.Head-s.Items, scores, blend)
			vec.Axpy(s.Head, next, blend)
			if s.Items > 0 {
				vec.Axpy(s.Items, items, blend)
			}
			merit[k*len(g.Mixture)+j] += RankGain(w, blend, target)
		}
		w.Release(inner)
	}
}

// Best is the setting with the most merit, the first of equals.
func (g MixtureGrid) Best(merit []float32) int {
	best := 0
	for k, x := range merit[:g.Len()] {
		if x > merit[best] {
			best = k
		}
	}
	return best
}
