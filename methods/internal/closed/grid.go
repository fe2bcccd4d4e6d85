package closed

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// RankGain measures how well scores rank a target among the items that the user does not
// have; ties count against the target. It returns the target's NDCG@10 among all of them
// plus its expected NDCG@10 among 99 sampled ones.
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

// MixtureGrid lists the settings that devices compare: each Recency with each Share, the
// weight of the sequence head's scores in the blend. The user's vector has the rest.
type MixtureGrid struct {
	Recency []learn.Recency
	Share   []float32
}

// Len returns the number of settings.
func (g MixtureGrid) Len() int { return len(g.Recency) * len(g.Share) }

// At returns setting k. A number outside the grid stands for the nearest one inside.
func (g MixtureGrid) At(k int) (learn.Recency, float32) {
	k = min(max(k, 0), g.Len()-1)
	return g.Recency[k/len(g.Share)], g.Share[k%len(g.Share)]
}

// Judge adds the RankGain of each setting to merit. recent scores all items with one
// Recency, and next holds the sequence head's scores.
func (g MixtureGrid) Judge(w *method.Work, target uint32, next []float32, recent func(learn.Recency) []float32,
	merit []float32,
) {
	mark := w.Mark()
	defer w.Release(mark)
	blend := w.Floats(w.Items)
	for k, r := range g.Recency {
		inner := w.Mark()
		scores := recent(r)
		for j, share := range g.Share {
			vec.ScaleTo(1-share, scores, blend)
			vec.Axpy(share, next, blend)
			merit[k*len(g.Share)+j] += RankGain(w, blend, target)
		}
		w.Release(inner)
	}
}

// Best returns the setting with the largest merit; of equals, the first.
func (g MixtureGrid) Best(merit []float32) int {
	best := 0
	for k, x := range merit[:g.Len()] {
		if x > merit[best] {
			best = k
		}
	}
	return best
}
