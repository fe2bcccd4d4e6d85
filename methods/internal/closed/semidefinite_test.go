package closed

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
)

// outerSum is a sum of outer products of random vectors, in rows of stride numbers.
func outerSum(dim, stride, vectors int) []float32 {
	r := rng.New(7)
	out, p := make([]float32, dim*stride), make([]float32, dim)
	for range vectors {
		for i := range p {
			p[i] = float32(r.Norm())
		}
		for i := range dim {
			for j := range dim {
				out[i*stride+j] += p[i] * p[j]
			}
		}
	}
	return out
}

// Sums of honest devices keep their bits, whether or not they have full rank, and with noise.
func TestHonestSumsKeepTheirBits(t *testing.T) {
	const dim, stride = 9, 16
	for _, vectors := range []int{0, 1, 5, 9, 200} {
		m := outerSum(dim, stride, vectors)
		want := slices.Clone(m)
		if !Semidefinite(m, dim, stride, 0) || !slices.Equal(m, want) {
			t.Errorf("a sum of %d outer products is changed", vectors)
		}
	}
	m, r := outerSum(dim, stride, 3), rng.New(8)
	for i := range dim {
		for j := range i + 1 {
			m[i*stride+j] += float32(0.5 * r.Norm())
		}
	}
	if !Semidefinite(m, dim, stride, 0.5) {
		t.Error("noise is taken for a lie")
	}
}

// A sum with negative eigenvalues becomes the nearest matrix without: what is left of it has the positive
// eigenvalues.
func TestALieInASumIsRemoved(t *testing.T) {
	const dim, stride = 9, 16
	honest := outerSum(dim, stride, 200)
	for name, lie := range map[string]func(i, j int) float32{
		"everything": func(int, int) float32 { return -1000 },
		"diagonal":   func(i, j int) float32 { return map[bool]float32{true: -1e6}[i == j] },
		"one row":    func(i, _ int) float32 { return map[bool]float32{true: 1000}[i == 3] },
	} {
		m := slices.Clone(honest)
		for i := range dim {
			for j := range dim {
				m[i*stride+j] += lie(i, j)
			}
		}
		if Semidefinite(m, dim, stride, 0) {
			t.Errorf("%s: the sum counts as one of honest devices", name)
		}
		a := make([]float64, dim*dim)
		for i := range dim {
			for j := range dim {
				if a[i*dim+j] = float64(m[i*stride+j]); m[i*stride+j] != m[j*stride+i] {
					t.Errorf("%s: the sum is not symmetric", name)
				}
			}
		}
		values, _ := learn.Eigen(a, dim)
		if least := slices.Min(values); least < -1e-4*slices.Max(values)-1e-3 {
			t.Errorf("%s: an eigenvalue is %g", name, least)
		}
		if name == "everything" && !(slices.Max(values) > 50) {
			t.Errorf("%s: the honest part is gone: %v", name, values)
		}
	}
}
