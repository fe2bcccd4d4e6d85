package learn

import "math"

// Solve replaces y by the solution of a x = y for a symmetric positive definite a, and a by its
// Cholesky factor. It reads the lower half of a. If a is not positive definite, it returns false
// and the contents of a and y are undefined.
func Solve(a, y []float64) bool {
	if !Cholesky(a, len(y)) {
		return false
	}
	CholeskySolve(a, y)
	return true
}

// Cholesky replaces the lower half of a symmetric positive definite matrix by its Cholesky
// factor. It returns false if the matrix is not positive definite. It processes four independent
// rows together for speed, without changing the order of any sum.
func Cholesky(a []float64, d int) bool {
	for j := range d {
		aj := a[j*d : j*d+j]
		s := a[j*d+j]
		for _, x := range aj {
			s -= float64(x * x)
		}
		if !(s > 0) {
			return false
		}
		root := math.Sqrt(s)
		a[j*d+j] = root
		i := j + 1
		for ; i+4 <= d; i += 4 {
			r0, r1, r2, r3 := a[i*d:][:j+1], a[(i+1)*d:][:j+1], a[(i+2)*d:][:j+1], a[(i+3)*d:][:j+1]
			s0, s1, s2, s3 := r0[j], r1[j], r2[j], r3[j]
			for k, x := range aj {
				s0 -= float64(r0[k] * x)
				s1 -= float64(r1[k] * x)
				s2 -= float64(r2[k] * x)
				s3 -= float64(r3[k] * x)
			}
			r0[j], r1[j], r2[j], r3[j] = s0/root, s1/root, s2/root, s3/root
		}
		for ; i < d; i++ {
			r := a[i*d:][:j+1]
			s := r[j]
			for k, x := range aj {
				s -= float64(r[k] * x)
			}
			r[j] = s / root
		}
	}
	return true
}

// CholeskySolve replaces y by the solution of a x = y, given the Cholesky factor of a.
func CholeskySolve(a, y []float64) {
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
