package blend

import (
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// solution is a way to solve for the user's vector: how much the newest items weigh, and the weight of items that
// the user does not have.
type solution struct {
	learn.Recency
	a0 float64
}

// Devices compare each solution with each share of the bank, and the bank alone. The first setting is used
// before the choice.
var (
	solutions = []solution{
		{learn.Recency{Rho: 0.8, Boost: 2, Base: 0.05}, 0.1},
		{learn.Recency{Rho: 0.7, Boost: 5, Base: 0.05}, 0.1},
		{learn.Recency{Rho: 0.9, Boost: 3, Base: 0.05}, 0.1},
		{learn.Recency{Base: 1}, 0.1},
		{learn.Recency{Base: 1}, 1},
		{learn.Recency{Rho: 0.9, Boost: 3, Base: 0.05}, 1},
	}
	shares = []float32{0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9}
)

// settings is the number of settings that devices compare.
var settings = len(solutions)*len(shares) + 1

// setting returns a solution and the share of the bank for a value of the slot "choice". Values outside the grid, which
// a coordinator may send, stand for the nearest one inside, and NaN for the first.
func setting(choice float32) (solution, float32) {
	k := 0
	if choice >= 1 {
		k = int(min(choice, float32(settings))) - 1
	}
	if k == settings-1 {
		return solutions[0], 1
	}
	return solutions[k/len(shares)], shares[k%len(shares)]
}

// sampleSize is the number of items that devices compare with their newest item.
const sampleSize = 1000

// sample returns at most sampleSize items at equal distances from each other, in ascending order. at, in [0, 1), says
// where it starts.
func sample(w *method.Work, at float64) []uint32 {
	n := min(w.Items, sampleSize)
	out := w.Uint32s(n)
	for x := range out {
		out[x] = min(uint32((float64(x)+at)*float64(w.Items)/float64(n)), uint32(w.Items-1)) // it may round up
	}
	return out
}

// unitScores sets out to the scores of items, scaled to a standard deviation of 1, and scales the vector alike.
func unitScores(w *method.Work, h method.Head, items []uint32, out []float32) {
	v, by := &w.View[h.Item], w.View[h.Vector].Val
	vec.Dots(v.Arena, v.Stride, items, by, 0, out)
	vec.Scale(learn.Standardise(out), by)
}

// solve solves for the user's vector with a solution. Items are distinct, newest first.
func (s solver) solve(w *method.Work, x solution, items []uint32) {
	mark := w.Mark()
	defer w.Release(mark)
	v := w.View[s.first:]
	weight, total := x.ByAge(w, len(items))
	learn.RidgeSolve(w, &v[solveItem], &v[solveGram], items, weight, weight, x.a0,
		solveReg*(total+float64(x.a0*float64(w.Items))), v[solveUser].Val)
}

// judge adds to merit how well each setting ranks target. past holds the other items of the device, newest first, and
// the state of the bank must be set.
func judge(w *method.Work, s solver, past []uint32, target uint32, merit []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	items := withTarget(w, target)
	n := len(items)
	next, closed, blend := w.Floats(n), w.Floats(n), w.Floats(n)
	r := rivalsOf(w, items)
	unitScores(w, heads[1], items, next)
	for k, x := range solutions {
		s.solve(w, x, past)
		unitScores(w, heads[0], items, closed)
		for j, share := range shares {
			vec.ScaleTo(1-share, closed, blend)
			vec.Axpy(share, next, blend)
			merit[k*len(shares)+j] += r.gain(blend)
		}
	}
	merit[settings-1] += r.gain(next)
}

// withTarget returns a sample of items that begins with the target.
func withTarget(w *method.Work, target uint32) []uint32 {
	drawn := sample(w, w.Rand.Float64())
	out := append(w.Uint32s(len(drawn) + 1)[:0], target)
	for _, i := range drawn {
		if i != target {
			out = append(out, i)
		}
	}
	return out
}

// rivals are the items of a sample that the user does not have; the first item of the sample is the target.
type rivals struct {
	at    []uint32 // positions in the sample
	every float64  // items of the catalogue that the user does not have, for each of them
}

func rivalsOf(w *method.Work, items []uint32) rivals {
	at, own := w.Uint32s(len(items))[:0], w.Floats(w.Items)
	clear(own)
	for _, i := range w.Samples.Item {
		own[i] = 1
	}
	for x, i := range items[1:] {
		if own[i] == 0 {
			at = append(at, uint32(x+1))
		}
	}
	return rivals{at, float64(w.Items-len(w.Samples.Item)) / float64(max(len(at), 1))}
}

// gain measures how well scores rank the target: its estimated NDCG@10 among all rivals plus its expected NDCG@10
// among 99 of them. Ties count against the target.
func (r rivals) gain(scores []float32) float32 {
	above := 0
	for _, x := range r.at {
		if !(scores[x] < scores[0]) {
			above++
		}
	}
	few := float64(above) * 99 / float64(max(len(r.at), 99))
	return discount(float64(float64(above)*r.every)) + discount(few)
}

// discount is the NDCG@10 of a place, from 0.
func discount(place float64) float32 {
	if place >= 10 {
		return 0
	}
	return float32(math.Ln2 / rng.Log(place+2))
}
