package reference

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/vec"
)

// ease returns the weights, made anew only for other train rows.
func (k *Cache) ease(s *data.Split) ([]float32, error) {
	of := fmt.Sprint(s.Info().Hash, s.Split)
	if s.Shuffle || s.ShuffleTies || s.NewUserShare > 0 {
		of += fmt.Sprint(" ", s.Seed, s.NewUserShare)
	}
	if k != nil && k.of == of {
		return k.weights, nil
	}
	b, err := ease(s, easeLambda)
	if err == nil && k != nil {
		k.of, k.weights = of, b
	}
	return b, err
}

// ease returns the item-item weights B = I - P/diag(P), P = (X'X + lambda I)^-1
// (Steck 2019), row by row, with a zero diagonal.
func ease(s *data.Split, lambda float64) ([]float32, error) {
	n := s.Items()
	g := mat.NewSymDense(n, nil)
	raw := g.RawSymmetric().Data // the upper triangle counts
	var p data.Part
	seen := make([]bool, n)
	for u := range s.Users() {
		if s.User(u, &p); p.New {
			continue
		}
		own := distinct(p.Train, seen)
		for _, i := range own {
			for _, j := range own {
				if i <= j {
					raw[int(i)*n+int(j)]++
				}
			}
		}
	}
	for i := range n {
		raw[i*n+i] += lambda
	}
	var c mat.Cholesky
	if !c.Factorize(g) {
		return nil, errors.New("the item-item matrix is not positive definite")
	}
	if err := c.InverseTo(g); err != nil {
		return nil, err
	}
	b := make([]float32, n*n)
	for i := range n {
		for j := range n {
			if i != j {
				b[i*n+j] = float32(-g.At(i, j) / g.At(j, j))
			}
		}
	}
	return b, nil
}

// distinct returns the items without repeats; seen must be all false, and is
// again afterwards.
func distinct(items []uint32, seen []bool) []uint32 {
	var out []uint32
	for _, i := range items {
		if !seen[i] {
			seen[i] = true
			out = append(out, i)
		}
	}
	for _, i := range out {
		seen[i] = false
	}
	return out
}

type easeScorer struct {
	b     []float32
	items int
	own   []uint32
	all   []float32
	seen  []bool
}

func (e *easeScorer) For(_ int, p *data.Part) {
	if e.seen == nil {
		e.seen, e.all = make([]bool, e.items), make([]float32, e.items)
	}
	e.own = distinct(p.Train, e.seen)
	clear(e.all)
	for _, i := range e.own {
		vec.Add(e.b[int(i)*e.items:(int(i)+1)*e.items], e.all)
	}
}

func (e *easeScorer) Score(items []uint32, dst []float32) { pick(e.all, items, dst) }

func (e *easeScorer) ScoreAll(dst []float32) { copy(dst, e.all) }
