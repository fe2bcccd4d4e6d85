// Package naive is a round of PFedRec as a plain Go loop: a map for a device's rows, closures, math.Exp and
// no reuse of memory. Package bench compares the engine with it. It never evaluates, and it is not
// bit-compatible with the engine.
package naive

import (
	"math"
	"math/rand/v2"

	"github.com/tacit-rec/tacit/data"
)

// Program is a federation that trains PFedRec.
type Program struct {
	dim, items  int
	table       []float32
	w           [][]float32 // score function by user, bias last
	train, hide [][]uint32
	seed, round uint64
}

// New initialises a program with a split.
func New(s *data.Split, dim int, seed uint64) *Program {
	r := rand.New(rand.NewPCG(seed, 0))
	p := &Program{dim: dim, items: s.Items(), table: make([]float32, s.Items()*dim), seed: seed}
	for i := range p.table {
		p.table[i] = float32(r.NormFloat64())
	}
	var part data.Part
	for u := range s.Users() {
		s.User(u, &part)
		w := make([]float32, dim+1)
		for k := range w {
			w[k] = (2*r.Float32() - 1) / float32(math.Sqrt(float64(dim)))
		}
		h := s.Hidden(&part)
		p.w = append(p.w, w)
		p.train = append(p.train, append([]uint32(nil), part.Train...))
		p.hide = append(p.hide, append(append([]uint32(nil), h[0]...), h[1]...))
	}
	return p
}

type sample struct {
	item uint32
	y    float32
}

// Round trains every device once, on the given number of goroutines.
func (p *Program) Round(jobs int) {
	sums := make(chan []float32)
	for g := range jobs {
		go func() {
			sum := make([]float32, len(p.table))
			for u := g; u < len(p.w); u += jobs {
				p.trainDevice(u, sum)
			}
			sums <- sum
		}()
	}
	total := make([]float32, len(p.table))
	for range jobs {
		for i, v := range <-sums {
			total[i] += v
		}
	}
	for i, v := range total {
		p.table[i] += v / float32(len(p.w))
	}
	p.round++
}

// draw returns the samples of a device.
func (p *Program) draw(u int) []sample {
	r := rand.New(rand.NewPCG(p.seed^p.round<<32, uint64(u)))
	seen := map[uint32]bool{}
	for _, list := range [][]uint32{p.train[u], p.hide[u]} {
		for _, i := range list {
			seen[i] = true
		}
	}
	var out []sample
	for _, i := range p.train[u] {
		out = append(out, sample{i, 1})
		for range 4 {
			n := r.Uint32N(uint32(p.items))
			for seen[n] {
				n = r.Uint32N(uint32(p.items))
			}
			out = append(out, sample{n, 0})
		}
	}
	r.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out
}

// trainDevice trains one device and adds its delta to sum.
func (p *Program) trainDevice(u int, sum []float32) {
	const lr, batch = 0.1, 256
	rate, w := float32(lr*80*float64(p.items)), p.w[u]
	local := map[uint32][]float32{}
	row := func(i uint32) []float32 {
		r, ok := local[i]
		if !ok {
			r = append([]float32(nil), p.table[int(i)*p.dim:(int(i)+1)*p.dim]...)
			local[i] = r
		}
		return r
	}
	errorOf := func(s sample, r []float32, n int) float32 {
		z := w[p.dim]
		for k, x := range r {
			z += w[k] * x
		}
		return (float32(1/(1+math.Exp(-float64(z)))) - s.y) / float32(n)
	}
	all := p.draw(u)
	for lo := 0; lo < len(all); lo += batch {
		b := all[lo:min(lo+batch, len(all))]
		grad := make([]float32, p.dim+1)
		for _, s := range b {
			r := row(s.item)
			e := errorOf(s, r, len(b))
			for k, x := range r {
				grad[k] += e * x
			}
			grad[p.dim] += e
		}
		for k, g := range grad {
			w[k] -= lr * g
		}
		errs := make([]float32, len(b))
		for x, s := range b {
			errs[x] = errorOf(s, row(s.item), len(b))
		}
		for x, s := range b {
			r := row(s.item)
			for k := range r {
				r[k] -= rate * errs[x] * w[k]
			}
		}
	}
	for i, r := range local {
		for k, x := range r {
			sum[int(i)*p.dim+k] += x - p.table[int(i)*p.dim+k]
		}
	}
}
