package closed

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Rates are the decay rates of a Memory: the fraction of an item that is left one step
// later.
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
			return fmt.Errorf("must be 1 to 8 rates of at least 0 and below 1, such as 0,0.5,0.9")
		}
		out = append(out, float32(x))
	}
	*r = out
	return nil
}

// Memory summarises a history as a vector: for each rate, the decayed sum of its items'
// rows at unit length, the newest with weight 1; and a constant 1 at the end.
type Memory struct {
	Rates Rates
	Dim   int
}

// Wide returns the length of a memory.
func (m Memory) Wide() int { return len(m.Rates)*m.Dim + 1 }

// Range returns the largest magnitude of a number in a memory. Rows have unit length.
func (m Memory) Range() float64 {
	most := float32(0)
	for _, rho := range m.Rates {
		most = max(most, rho)
	}
	return 1 / (1 - float64(most))
}

// See adds an item's row to a memory.
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

// Of sets memory to that of a whole history.
func (m Memory) Of(item *method.View, history []uint32, memory []float32) {
	clear(memory)
	for _, i := range history {
		m.See(item.Row(i), memory)
	}
}

// Sums adds, for each item of a history except the first, the memory before it to the
// item's row of next, and the outer product of that memory to square. base is the first
// row of next.
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
	learn.Gemm(&w.Scratch, m.Wide(), m.Wide(), n, x.T(), x, vec.Rows(square.Val, s))
}

// Head computes the ridge regression of the next item on the memory before it: each row
// of head becomes (square + reg tr(square)/(100 wide) I)^-1 next. Rows of items not in
// keep are zero. noise is the standard deviation of the noise on each number of square.
func (m Memory) Head(keep []bool, reg, noise float64, square, next, head []float32, stride int) {
	f := m.Wide()
	Semidefinite(square, f, stride, noise)
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
	if trace == 0 || !learn.Cholesky(a, f) {
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
		learn.CholeskySolve(a, y)
		for k := range y {
			head[r*stride+k] = float32(y[k])
		}
	}
}
