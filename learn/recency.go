package learn

import (
	"math"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Recency weights an item of age a, with 0 for the newest: Base + Boost Rho^a.
type Recency struct{ Rho, Boost, Base float64 }

// Weights returns the distinct items of a history, newest first, their weights, and the sum of
// the weights. The slices are scratch memory.
func (r Recency) Weights(w *method.Work, history []uint32) (items []uint32, weight []float32, total float64) {
	items = NewestFirst(w, history)
	weight, total = r.ByAge(w, len(items))
	return items, weight, total
}

// NewestFirst returns the distinct items of a history, newest first, in scratch memory.
func NewestFirst(w *method.Work, history []uint32) []uint32 {
	items := w.Uint32s(len(history))
	mark := w.Mark()
	defer w.Release(mark)
	seen := w.Floats(w.Items)
	clear(seen)
	n := 0
	for t := len(history) - 1; t >= 0; t-- {
		if i := history[t]; seen[i] == 0 {
			items[n], seen[i] = i, 1
			n++
		}
	}
	return items[:n]
}

// ByAge returns the weights of n items, newest first, and their sum, in scratch memory.
func (r Recency) ByAge(w *method.Work, n int) (weight []float32, total float64) {
	weight = w.Floats(n)
	power := 1.0
	for a := range weight {
		x := r.Base + float64(r.Boost*power)
		weight[a], total, power = float32(x), total+x, power*r.Rho
	}
	return weight, total
}

// StandardiseScores scales the vector by so that its scores over all items have a standard
// deviation of 1, and sets dst to these scores. If all scores are equal, it does not scale.
func StandardiseScores(v *method.View, by, dst []float32) {
	vec.DotsAll(v.Arena[:len(dst)*v.Stride], v.Stride, by, 0, dst)
	vec.Scale(Standardise(dst), by)
}

// Standardise scales scores to a standard deviation of 1 and returns the factor. If all scores
// are equal, it does not scale and returns 1.
func Standardise(dst []float32) float32 {
	mean, square := 0.0, 0.0
	for _, x := range dst {
		mean += float64(x)
		square += float64(float64(x) * float64(x))
	}
	n := float64(len(dst))
	mean /= n
	v := square/n - float64(mean*mean)
	if !(v > 1e-20) {
		return 1
	}
	unit := float32(1 / math.Sqrt(v))
	vec.Scale(unit, dst)
	return unit
}
