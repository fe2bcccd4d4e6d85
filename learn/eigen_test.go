package learn

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// A matrix times an eigenvector is its eigenvalue times the vector, the vectors are orthonormal, and the largest
// eigenvalue comes first.
func TestEigen(t *testing.T) {
	r := rng.New(7)
	for _, n := range []int{1, 2, 3, 8, 31, 60} {
		a := make([]float64, n*n)
		for i := range n {
			for j := range i + 1 {
				x := r.Norm()
				if n == 8 && i != j {
					x = 0 // equal to its diagonal
				}
				a[i*n+j], a[j*n+i] = x, x
			}
		}
		values, vectors := Eigen(slices.Clone(a), n)
		if !slices.IsSortedFunc(values, func(x, y float64) int { return -int(math.Copysign(1, x-y)) }) {
			t.Errorf("n = %d: the eigenvalues %v do not descend", n, values)
		}
		for k, v := range vectors {
			for i := range n {
				got, with := 0.0, 0.0
				for j := range n {
					got += a[i*n+j] * v[j]
					with += vectors[i][j] * v[j]
				}
				want := 0.0
				if i == k {
					want = 1
				}
				if math.Abs(got-values[k]*v[i]) > 1e-11 || math.Abs(with-want) > 1e-12 {
					t.Fatalf("n = %d: vector %d: %g, want %g; product with vector %d: %g", n, k, got, values[k]*v[i], i,
						with)
				}
			}
		}
	}
}

func TestEigenOfNothing(t *testing.T) {
	values, vectors := Eigen(make([]float64, 9), 3)
	if !slices.Equal(values, []float64{0, 0, 0}) || len(vectors) != 3 {
		t.Errorf("a zero matrix has the eigenvalues %v and %d vectors", values, len(vectors))
	}
	if values, _ := Eigen(nil, 0); values != nil {
		t.Errorf("an empty matrix has the eigenvalues %v", values)
	}
}
