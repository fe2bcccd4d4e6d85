package learn

import (
	"math"

	"github.com/tacit-rec/tacit/vec"
)

// Orthogonal replaces a matrix by one with the same singular vectors and singular values near 1,
// between about 0.7 and 1.2. x holds rows of cols numbers, stride floats apart; padding stays as
// it is. A matrix of zeros, or with a number that is not finite, becomes zero.
//
// It is five steps of the Newton-Schulz iteration with the coefficients of Jordan et al. (Muon,
// 2024), which raise small singular values quickly and do not converge further.
func Orthogonal(x []float32, rows, cols, stride int) {
	long, short := max(rows, cols), min(rows, cols)
	wide := vec.Pad(long)
	// a is x or its transpose, with as few rows as possible, scaled to norm 1.
	a, next := make([]float32, short*wide), make([]float32, short*wide)
	at := func(i, j int) (from, to int) {
		if rows <= cols {
			return i*stride + j, i*wide + j
		}
		return i*stride + j, j*wide + i
	}
	square := 0.0
	for i := range rows {
		for j := range cols {
			from, _ := at(i, j)
			square += float64(float64(x[from]) * float64(x[from]))
		}
	}
	scale := float32(1 / math.Sqrt(square))
	if square == 0 || square-square != 0 {
		scale = 0
	}
	for i := range rows {
		for j := range cols {
			if from, to := at(i, j); scale != 0 {
				a[to] = x[from] * scale
			}
		}
	}
	for range 5 {
		newtonSchulz(a, next, short, long)
		a, next = next, a
	}
	for i := range rows {
		for j := range cols {
			to, from := at(i, j)
			x[to] = a[from]
		}
	}
}

// newtonSchulz sets next to p a + (q b + r b b) a, where b = a a'. a has n rows of m numbers.
func newtonSchulz(a, next []float32, n, m int) {
	const p, q, r = 3.4445, -4.7750, 2.0315
	wide, s := vec.Pad(m), vec.Pad(n)
	b, c := make([]float32, n*s), make([]float32, n*s)
	pack := make([]float32, vec.GemmRoom(m))
	vec.Gemm(n, n, m, vec.Rows(a, wide), vec.Rows(a, wide).T(), pack, vec.Rows(b, s))
	vec.Gemm(n, n, n, vec.Rows(b, s), vec.Rows(b, s), pack, vec.Rows(c, s))
	vec.Scale(r, c)
	vec.Axpy(q, b, c)
	vec.ScaleTo(p, a, next)
	vec.Gemm(n, m, n, vec.Rows(c, s), vec.Rows(a, wide), pack, vec.Rows(next, wide))
}
