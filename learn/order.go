package learn

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Rates are how much of an item is left in a memory one step later.
type Rates []float32

func (r Rates) MarshalText() ([]byte, error) {
	var words []string
	for _, x := range r {
		words = append(words, strconv.FormatFloat(float64(x), 'g', -1, 32))
	}
	return []byte(strings.Join(words, ",")), nil
}

func (r *Rates) UnmarshalText(b []byte) error {
	var out Rates
	for word := range strings.SplitSeq(string(b), ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(word), 32)
		if err != nil || !(x >= 0 && x < 1) || len(out) == 8 {
			return fmt.Errorf("want up to 8 rates from 0 to below 1, such as 0,0.5,0.9")
		}
		out = append(out, float32(x))
	}
	*r = out
	return nil
}

// Memory is what a history leaves: for each rate the sum of its items' rows at unit
// length, the newest whole and each earlier one less by the rate; and a 1 at the end.
type Memory struct {
	Rates Rates
	Dim   int
}

// Wide is the length of a memory.
func (m Memory) Wide() int { return len(m.Rates)*m.Dim + 1 }

// Reach is what no number of a memory is above: rows are seen at unit length.
func (m Memory) Reach() float64 {
	most := float32(0)
	for _, rho := range m.Rates {
		most = max(most, rho)
	}
	return 1 / (1 - float64(most))
}

// See adds an item's row.
func (m Memory) See(row, memory []float32) {
	norm := float32(math.Sqrt(float64(vec.Dot(row, row))))
	if norm == 0 {
		norm = 1
	}
	for k, rho := range m.Rates {
		part := memory[k*m.Dim : (k+1)*m.Dim]
		for i := range part {
			part[i] = float32(rho*part[i]) + row[i]/norm
		}
	}
	memory[len(m.Rates)*m.Dim] = 1
}

// Of is the memory of a whole history.
func (m Memory) Of(item *method.View, history []uint32, memory []float32) {
	clear(memory)
	for _, i := range history {
		m.See(item.Row(i), memory)
	}
}

// Sums adds, for each item of a history but the first, the memory before it to the
// item's row of next, which follow one another from row base on, and the memories
// times themselves to square.
func (m Memory) Sums(w *method.Work, item *method.View, history []uint32, base uint32, next, square *method.View,
	memory []float32,
) {
	s, n := square.Stride, len(history)-1
	if n < 1 {
		return
	}
	mark := w.Mark()
	defer w.Release(mark)
	seen := w.Floats(n * s)
	clear(seen)
	clear(memory)
	for t := range n {
		m.See(item.Row(history[t]), memory)
		copy(seen[t*s:(t+1)*s], memory)
		vec.Add(memory, next.Row(base+history[t+1]))
	}
	x := vec.Rows(seen, s)
	gemm(&w.Scratch, m.Wide(), m.Wide(), n, x.T(), x, vec.Rows(square.Val, s))
}

// Head is the ridge regression of the next item on the memory before it: each row
// of head becomes (square + reg tr(square)/(100 wide) I)^-1 next. Items that keep does
// not hold have zeros.
func (m Memory) Head(keep []bool, reg float64, square []float32, next, head []float32, stride int) {
	f := m.Wide()
	a, trace := make([]float64, f*f), 0.0
	for i := range f {
		for j := range f {
			a[i*f+j] = float64(square[i*stride+j])
		}
		trace += a[i*f+i]
	}
	for i := range f {
		a[i*f+i] += reg * trace / float64(100*f)
	}
	if trace == 0 || !Factor(a, f) {
		return
	}
	y := make([]float64, f)
	clear(head)
	for r, kept := range keep {
		if !kept {
			continue
		}
		for k := range y {
			y[k] = float64(next[r*stride+k])
		}
		Back(a, y)
		for k := range y {
			head[r*stride+k] = float32(y[k])
		}
	}
}

// Recency says how much an item of age a weighs, 0 being the newest: Base + Boost
// Rho^a.
type Recency struct{ Rho, Boost, Base float64 }

// Weights lists the distinct items of a history, the newest first, with their
// weights, in scratch memory, and what the weights add up to.
func (r Recency) Weights(w *method.Work, history []uint32) (items []uint32, weight []float32, total float64) {
	items, seen := w.Uint32s(len(history)), w.Floats(w.Items)
	weight = w.Floats(len(history))
	clear(seen)
	n, power := 0, 1.0
	for t := len(history) - 1; t >= 0; t-- {
		i := history[t]
		if seen[i] != 0 {
			continue
		}
		x := r.Base + float64(r.Boost*power)
		items[n], weight[n], seen[i] = i, float32(x), 1
		total, power = total+x, power*r.Rho
		n++
	}
	return items[:n], weight[:n], total
}

// Level scales a vector so that the scores that it gives all items have a standard
// deviation of 1, and leaves these in dst. Where all are the same it stays.
func Level(v *method.View, by, dst []float32) {
	vec.DotsAll(v.Arena[:len(dst)*v.Stride], v.Stride, by, 0, dst)
	vec.Scale(Even(dst), by)
}

// Even scales scores to a standard deviation of 1, and returns by what.
func Even(dst []float32) float32 {
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

// Merit is how well scores rank a target among the items that the user does not have,
// ties against it: its NDCG@10 among all of them, and that among 99 drawn from them.
func Merit(w *method.Work, scores []float32, target uint32) float32 {
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

// Share is what of the blended scores is the sequence head's, and what that of a model
// over pairs of items.
type Share struct{ Head, Items float32 }

// Grid is the settings that devices judge: each Recency with each Share.
type Grid struct {
	Recency []Recency
	Share   []Share
}

// Len is how many settings there are.
func (g Grid) Len() int { return len(g.Recency) * len(g.Share) }

// At is setting k.
func (g Grid) At(k int) (Recency, Share) { return g.Recency[k/len(g.Share)], g.Share[k%len(g.Share)] }

// Judge adds how well each setting ranks the target. recent scores all items by one
// Recency, next holds the head's scores, and items those of the model over pairs, or
// nothing.
func (g Grid) Judge(w *method.Work, target uint32, next, items []float32, recent func(Recency) []float32,
	merit []float32,
) {
	mark := w.Mark()
	defer w.Release(mark)
	blend := w.Floats(w.Items)
	for k, r := range g.Recency {
		inner := w.Mark()
		scores := recent(r)
		for j, s := range g.Share {
			vec.ScaleTo(1-s.Head-s.Items, scores, blend)
			vec.Axpy(s.Head, next, blend)
			if s.Items > 0 {
				vec.Axpy(s.Items, items, blend)
			}
			merit[k*len(g.Share)+j] += Merit(w, blend, target)
		}
		w.Release(inner)
	}
}

// Best is the setting with the most merit, the first of equals.
func (g Grid) Best(merit []float32) int {
	best := 0
	for k, x := range merit[:g.Len()] {
		if x > merit[best] {
			best = k
		}
	}
	return best
}
