package private

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/vec"
)

// symmetric returns a random symmetric matrix with some dominant directions. With twins
// every row and column occurs twice, so some eigenvalues are zero.
func symmetric(n, spikes int, twins bool, seed uint64) []float32 {
	r, s := rng.New(rng.Test, seed), vec.Pad(n)
	x := make([]float64, n*n)
	for range spikes {
		v := make([]float64, n)
		for i := range v {
			if v[i] = r.Norm(); twins {
				v[i] = v[i/2]
			}
		}
		for i := range n {
			for j := range n {
				x[i*n+j] += v[i] * v[j]
			}
		}
	}
	a := make([]float32, n*s)
	for i := range n {
		for j := range i + 1 {
			y := x[i*n+j]
			if !twins {
				y += r.Norm()
			}
			a[i*s+j], a[j*s+i] = float32(y), float32(y)
		}
	}
	return a
}

// The eigenvalues equal gonum's, and the vectors are orthogonal eigenvectors.
func TestEigenMatchesGonum(t *testing.T) {
	for _, c := range []struct {
		n, spikes int
		twins     bool
	}{
		{1, 1, false},
		{2, 1, false},
		{3, 0, false},
		{8, 2, false},
		{61, 5, false},
		{200, 20, false},
		{40, 3, true},
		{64, 0, true},
	} {
		a := symmetric(c.n, c.spikes, c.twins, uint64(c.n))
		s, k := vec.Pad(c.n), min(c.n, 30)
		full := mat.NewSymDense(c.n, nil)
		for i := range c.n {
			for j := range i + 1 {
				full.SetSym(i, j, float64(a[i*s+j]))
			}
		}
		var want mat.EigenSym
		if !want.Factorize(full, false) {
			t.Fatal("gonum finds no eigenvalues")
		}
		all := want.Values(nil)
		scale := math.Max(math.Abs(all[0]), math.Abs(all[c.n-1])) + 1e-12
		values, vectors := Eigen(append([]float32(nil), a...), c.n, k)
		for j, w := range values {
			if math.Abs(w-all[c.n-1-j]) > 3e-6*scale {
				t.Errorf("%+v: value %d is %g, want %g", c, j, w, all[c.n-1-j])
			}
			off, length := 0.0, 0.0
			for i := range c.n {
				y := -w * float64(vectors[j][i])
				for x := range c.n {
					y += float64(a[i*s+x]) * float64(vectors[j][x])
				}
				off, length = off+y*y, length+float64(vectors[j][i])*float64(vectors[j][i])
			}
			if math.Sqrt(off) > 2e-5*scale || math.Abs(length-1) > 1e-5 {
				t.Errorf("%+v: vector %d has a length of %g, and a v - w v one of %g (the largest value is %g)", c, j,
					math.Sqrt(length), math.Sqrt(off), scale)
			}
			for i := range j {
				if x := vec.Dot(vectors[i], vectors[j]); math.Abs(float64(x)) > 1e-5 {
					t.Errorf("%+v: vectors %d and %d are not orthogonal: %g", c, i, j, x)
				}
			}
		}
	}
}

func BenchmarkEigen(b *testing.B) {
	const n = 1500
	a, x := symmetric(n, 50, false, 1), make([]float32, n*vec.Pad(n))
	for b.Loop() {
		copy(x, a)
		Eigen(x, n, 96)
	}
}
