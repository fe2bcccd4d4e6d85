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
	slack := 1e-5*trace/float64(dim) + 4*noise*math.Sqrt(float64(dim))
	b := append([]float64(nil), a...)
	for r := range dim {
		b[r*dim+r] += slack + math.SmallestNonzeroFloat32
	}
	if learn.Cholesky(b, dim) {
		return true
	}
	values, vectors := eigen(a, dim)
	for r := range dim {
		for c := range r + 1 {
			x := 0.0
			for k, v := range values {
				if v > 0 {
					x += float64(v*vectors[r*dim+k]) * vectors[c*dim+k]
				}
			}
			m[r*stride+c], m[c*stride+r] = float32(x), float32(x)
		}
	}
	return false
}

// eigen returns the eigenvalues of a symmetric matrix, which it overwrites, and their eigenvectors as
// columns (Jacobi 1846). It is slow, and runs only if a device has lied.
func eigen(a []float64, n int) (values, vectors []float64) {
	vectors = make([]float64, n*n)
	for i := range n {
		vectors[i*n+i] = 1
	}
	for range 60 {
		off, all := 0.0, 0.0
		for i := range n {
			for j := range n {
				if x := a[i*n+j]; i != j {
					off += float64(x * x)
				}
				all += float64(a[i*n+j] * a[i*n+j])
			}
		}
		if !(off > 1e-24*all) {
			break
		}
		for p := range n {
			for q := p + 1; q < n; q++ {
				rotate(a, vectors, n, p, q)
			}
		}
	}
	for i := range n {
		values = append(values, a[i*n+i])
	}
	return values, vectors
}

// rotate makes the number at (p, q) zero.
func rotate(a, v []float64, n, p, q int) {
	if a[p*n+q] == 0 {
		return
	}
	theta := (a[q*n+q] - a[p*n+p]) / (2 * a[p*n+q])
	t := math.Copysign(1/(math.Abs(theta)+math.Sqrt(float64(theta*theta)+1)), theta)
	c := 1 / math.Sqrt(float64(t*t)+1)
	s := t * c
	for k := range n {
		x, y := a[k*n+p], a[k*n+q]
		a[k*n+p], a[k*n+q] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
	for k := range n {
		x, y := a[p*n+k], a[q*n+k]
		a[p*n+k], a[q*n+k] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
	for k := range n {
		x, y := v[k*n+p], v[k*n+q]
		v[k*n+p], v[k*n+q] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
}
