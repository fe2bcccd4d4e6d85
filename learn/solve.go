package learn

import "math"

// Solve replaces y by the solution of a x = y for a symmetric positive definite a,
// of which the lower half is read, and a by its Cholesky factor. It reports false
// where a is not positive definite; then both are spoilt.
func Solve(a, y []float64) bool {
	if !Factor(a, len(y)) {
		return false
	}
	Back(a, y)
	return true
}

// Factor replaces a symmetric positive definite matrix by its Cholesky factor, in the
// lower half.
func Factor(a []float64, d int) bool {
	for j := range d {
		aj := a[j*d : j*d+j+1]
		for i := j; i < d; i++ {
			ai := a[i*d : i*d+j+1]
			s := ai[j]
			for k, x := range aj[:j] {
				s -= float64(ai[k] * x)
			}
			if i > j {
				ai[j] = s / aj[j]
				continue
			}
			if !(s > 0) {
				return false
			}
			aj[j] = math.Sqrt(s)
		}
	}
	return true
}

// Back replaces y by the solution of a x = y for the factor of a.
func Back(a, y []float64) {
	d := len(y)
	for i := range d {
		for k, x := range a[i*d : i*d+i] {
			y[i] -= float64(x * y[k])
		}
		y[i] /= a[i*d+i]
	}
	for i := d - 1; i >= 0; i-- {
		for k := i + 1; k < d; k++ {
			y[i] -= float64(a[k*d+i] * y[k])
		}
		y[i] /= a[i*d+i]
	}
}
