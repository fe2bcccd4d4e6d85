package learn

import (
	"cmp"
	"math"
	"slices"
)

// Eigen returns the eigenvalues of a symmetric n by n matrix, the largest first, and their eigenvectors at unit
// length as rows. It overwrites a. (Cyclic Jacobi; Golub and Van Loan, section 8.5.) It is for matrices of a few
// hundred rows, and has the same bits on every platform.
func Eigen(a []float64, n int) (values []float64, vectors [][]float64) {
	rows := make([]float64, n*n)
	for i := range n {
		rows[i*n+i] = 1
	}
	for range 60 {
		off, all := 0.0, 0.0
		for i, x := range a[:n*n] {
			square := float64(x * x)
			if all += square; i%n != i/n {
				off += square
			}
		}
		if !(off > 1e-28*all) {
			break
		}
		for p := range n {
			for q := p + 1; q < n; q++ {
				rotate(a, rows, n, p, q)
			}
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(a[y*n+y], a[x*n+x]) })
	for _, i := range order {
		values = append(values, a[i*n+i])
		vectors = append(vectors, rows[i*n:(i+1)*n:(i+1)*n])
	}
	return values, vectors
}

// rotate makes the number at (p, q) zero.
func rotate(a, rows []float64, n, p, q int) {
	if a[p*n+q] == 0 {
		return
	}
	theta := (a[q*n+q] - a[p*n+p]) / (2 * a[p*n+q])
	t := math.Copysign(1/(math.Abs(theta)+math.Sqrt(float64(theta*theta)+1)), theta)
	c := 1 / math.Sqrt(float64(t*t)+1)
	s := t * c
	for k := p; k < n*n; k += n {
		x, y := a[k], a[k+q-p]
		a[k], a[k+q-p] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
	turn(a[p*n:(p+1)*n], a[q*n:(q+1)*n], c, s)
	turn(rows[p*n:(p+1)*n], rows[q*n:(q+1)*n], c, s)
}

// turn rotates two rows.
func turn(u, v []float64, c, s float64) {
	v = v[:len(u)]
	for k, x := range u {
		y := v[k]
		u[k], v[k] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
}
