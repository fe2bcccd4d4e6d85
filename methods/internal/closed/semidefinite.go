package closed

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
)

// Semidefinite makes a sum of outer products a symmetric positive semidefinite matrix, whatever single
// devices sent. It mirrors the lower triangle, and if an eigenvalue is negative beyond rounding errors
// and noise, which no sum of honest devices has, it sets all negative eigenvalues to 0. Otherwise it
// changes nothing else, and returns true. noise is the standard deviation of the noise on each number.
func Semidefinite(m []float32, dim, stride int, noise float64) bool {
	a, trace := make([]float64, dim*dim), 0.0
	for r := range dim {
		for c := range r + 1 {
			x := m[r*stride+c]
			m[c*stride+r] = x
			a[r*dim+c], a[c*dim+r] = float64(x), float64(x)
		}
		trace += math.Abs(float64(m[r*stride+r]))
	}
	// The largest eigenvalue of symmetric noise is about 2 noise sqrt(dim).
	slack := 1e-5*trace/float64(dim) + float64(4*noise*math.Sqrt(float64(dim)))
	b := append([]float64(nil), a...)
	for r := range dim {
		b[r*dim+r] += slack + math.SmallestNonzeroFloat32
	}
	if learn.Cholesky(b, dim) {
		return true
	}
	values, vectors := learn.Eigen(a, dim)
	for r := range dim {
		for c := range r + 1 {
			x := 0.0
			for k, v := range values {
				if v > 0 {
					x += float64(float64(v*vectors[k][r]) * vectors[k][c])
				}
			}
			m[r*stride+c], m[c*stride+r] = float32(x), float32(x)
		}
	}
	return false
}
