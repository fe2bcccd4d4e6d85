package learn_test

import (
	"hash/fnv"
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/vec"
)

// randomMatrix has singular values of very different sizes: column j is scaled by 1/(1+j).
func randomMatrix(rows, cols int) []float32 {
	r, stride := rng.New(rng.Test, uint64(rows), uint64(cols)), vec.Pad(cols)
	x := make([]float32, rows*stride)
	for i := range rows {
		for j := range cols {
			x[i*stride+j] = float32(r.Norm() / float64(1+j))
		}
		for j := cols; j < stride; j++ {
			x[i*stride+j] = 7
		}
	}
	return x
}

// The rows of the shorter side become nearly orthonormal, and the product with the transpose of
// the original is symmetric and positive: singular vectors stay.
func TestOrthogonalKeepsSingularVectors(t *testing.T) {
	for _, size := range [][2]int{{6, 20}, {20, 6}, {9, 9}, {1, 5}, {5, 1}} {
		rows, cols := size[0], size[1]
		stride := vec.Pad(cols)
		before, x := randomMatrix(rows, cols), randomMatrix(rows, cols)
		learn.Orthogonal(x, rows, cols, stride)
		product := func(a, b []float32, i, j int) (sum float64) {
			for k := range max(rows, cols) {
				if rows <= cols {
					sum += float64(a[i*stride+k]) * float64(b[j*stride+k])
				} else {
					sum += float64(a[k*stride+i]) * float64(b[k*stride+j])
				}
			}
			return sum
		}
		n := min(rows, cols)
		for i := range n {
			if l := product(x, x, i, i); l < 0.3 || l > 1.6 {
				t.Errorf("%d by %d: row %d has the squared length %g, want about 1", rows, cols, i, l)
			}
			for j := range i {
				ab, ba := product(x, before, i, j), product(x, before, j, i)
				size := math.Sqrt(product(before, before, i, i) * product(before, before, j, j))
				if math.Abs(ab-ba) > 1e-4*(1+size) {
					t.Errorf("%d by %d: the product with the original has %g at %d, %d and %g at %d, %d; want equal "+
						"values", rows, cols, ab, i, j, ba, j, i)
				}
			}
		}
		for i := range rows {
			for j := cols; j < stride; j++ {
				if x[i*stride+j] != 7 {
					t.Fatalf("%d by %d: padding was changed", rows, cols)
				}
			}
		}
	}
}

func TestOrthogonalOfUnusableMatrixIsZero(t *testing.T) {
	for _, bad := range []float32{0, float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32} {
		x := make([]float32, 3*8)
		x[9] = bad
		learn.Orthogonal(x, 3, 5, 8)
		for _, v := range x {
			if v-v != 0 || math.Abs(float64(v)) > 1.3 {
				t.Errorf("with %g in it the result has %g", bad, v)
			}
		}
	}
}

func TestOrthogonalHasTheSameBitsEverywhere(t *testing.T) {
	h := fnv.New64a()
	for _, size := range [][2]int{{6, 20}, {33, 17}} {
		x := randomMatrix(size[0], size[1])
		learn.Orthogonal(x, size[0], size[1], vec.Pad(size[1]))
		for _, v := range x {
			b := math.Float32bits(v)
			h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
		}
	}
	if got := h.Sum64(); got != 0xf9103dbc85ef9b2 {
		t.Errorf("the digest is %#x, want 0xf9103dbc85ef9b2", got)
	}
}
