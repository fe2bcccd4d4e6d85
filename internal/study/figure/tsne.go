package figure

import (
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// TSNE projects the rows of a table to the plane such that neighbours stay neighbours (van der Maaten and Hinton,
// JMLR 2008; exact, so quadratic in the rows). It starts from PCA. Distances between groups and their sizes have no
// meaning. perplexity is the approximate number of neighbours of a row, at most a third of the rows. TSNE polls stop
// and ends early if it returns true.
func TSNE(r Rows, perplexity float64, steps int, seed uint64, stop func() bool) [][2]float64 {
	n := r.N
	y := make([][2]float64, n)
	if n < 4 {
		return y
	}
	p, _ := affinities(distances(r), n, math.Min(perplexity, float64(n-1)/3))
	start, _ := PCA(r)
	scale := 0.0
	for _, c := range start {
		scale = math.Max(scale, math.Max(math.Abs(c[0]), math.Abs(c[1])))
	}
	random := rng.New(seed, rng.Figure, streamTSNE)
	for i := range y {
		for k := range 2 { // equal rows must not start at the same point
			y[i][k] = 1e-4 * random.Norm()
			if scale > 0 {
				y[i][k] += 1e-2 * start[i][k] / scale
			}
		}
	}
	const early, exaggeration = 0.3, 12.0
	rate := math.Max(50, float64(n)/exaggeration) // Belkina et al., 2019
	g, v, gain := make([][2]float64, n), make([][2]float64, n), make([][2]float64, n)
	for i := range gain {
		gain[i] = [2]float64{1, 1}
	}
	for t := range steps {
		if stop != nil && t%10 == 0 && stop() {
			break
		}
		boost, momentum := 1.0, 0.8
		if float64(t) < early*float64(steps) {
			boost, momentum = exaggeration, 0.5
		}
		gradient(p, y, boost, g)
		for i := range y {
			for k := range 2 {
				if (g[i][k] > 0) == (v[i][k] > 0) {
					gain[i][k] = math.Max(0.01, gain[i][k]*0.8)
				} else {
					gain[i][k] += 0.2
				}
				v[i][k] = momentum*v[i][k] - rate*gain[i][k]*g[i][k]
				y[i][k] += v[i][k]
			}
		}
	}
	return y
}

// The streams of this package.
const (
	streamTSNE uint64 = iota + 1
	streamDirection
)

// distances returns the squared distances between rows, as an n by n matrix.
func distances(r Rows) []float32 {
	n := r.N
	d := make([]float32, n*n)
	for i := range n {
		a := r.Row(i)
		for j := range i {
			s := float32(0)
			for k, x := range r.Row(j) {
				s += (a[k] - x) * (a[k] - x)
			}
			d[i*n+j], d[j*n+i] = s, s
		}
	}
	return d
}

// affinities returns the symmetric probabilities p of t-SNE, which sum to 1, and the perplexity
// reached for each row. Bisection finds the width of each row's
// kernel.
func affinities(d []float32, n int, perplexity float64) (p []float32, reached []float64) {
	cond, reached := make([]float32, n*n), make([]float64, n)
	row := make([]float64, n)
	for i := range n {
		beta, lo, hi := 1.0, 0.0, math.Inf(1)
		near := math.Inf(1)
		for j := range n {
			if j != i {
				near = math.Min(near, float64(d[i*n+j]))
			}
		}
		for range 60 {
			reached[i] = perplexityAt(d[i*n:i*n+n], i, beta, near, row)
			if math.Abs(math.Log(reached[i]/perplexity)) < 1e-5 {
				break
			}
			if reached[i] > perplexity {
				if lo = beta; math.IsInf(hi, 1) {
					beta *= 2
				} else {
					beta = (lo + hi) / 2
				}
			} else {
				hi = beta
				beta = (lo + hi) / 2
			}
		}
		for j, x := range row {
			cond[i*n+j] = float32(x)
		}
	}
	p = cond
	for i := range n {
		for j := range i {
			s := (cond[i*n+j] + cond[j*n+i]) / float32(2*n)
			p[i*n+j], p[j*n+i] = s, s
		}
		p[i*n+i] = 0
	}
	return p, reached
}

// perplexityAt fills row with the probabilities of a kernel of width beta, and returns the exponential of their
// entropy. near is the smallest distance, which keeps the sum above zero.
func perplexityAt(d []float32, self int, beta, near float64, row []float64) float64 {
	sum, mean := 0.0, 0.0
	for j := range row {
		row[j] = 0
		if j == self {
			continue
		}
		x := beta * (float64(d[j]) - near)
		row[j] = math.Exp(-x)
		sum += row[j]
		mean += row[j] * x
	}
	for j := range row {
		row[j] /= sum
	}
	return math.Exp(math.Log(sum) + mean/sum)
}

// gradient computes the gradient of the Kullback-Leibler divergence by the positions y, with p times boost.
func gradient(p []float32, y [][2]float64, boost float64, g [][2]float64) {
	n := len(y)
	// Attraction is p q dy and repulsion q^2 dy / sum q with q = 1/(1+|dy|^2). Computing each pair twice is faster
	// than writing to both ends.
	push, sum := make([][2]float64, n), 0.0
	xs, ys := make([]float64, n), make([]float64, n)
	for i := range y {
		xs[i], ys[i] = y[i][0], y[i][1]
	}
	for i := range n {
		x, y, row := xs[i], ys[i], p[i*n:i*n+n]
		var ax, ay, bx, by, s float64
		ys := ys[:len(row)]
		xs := xs[:len(row)]
		for j, v := range row {
			dx, dy := x-xs[j], y-ys[j]
			q := 1 / (1 + dx*dx + dy*dy)
			s += q
			w := float64(v) * q
			ax += w * dx
			ay += w * dy
			w = q * q
			bx += w * dx
			by += w * dy
		}
		sum += s - 1 // without itself
		g[i], push[i] = [2]float64{ax, ay}, [2]float64{bx, by}
	}
	for i := range g {
		for k := range 2 {
			g[i][k] = 4 * (boost*g[i][k] - push[i][k]/sum)
		}
	}
}
