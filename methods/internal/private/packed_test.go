package private

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// The list holds y y', its norm is |y|², and it has no entries where y is zero.
func TestPackedHoldsTheOuterProduct(t *testing.T) {
	const n = 9
	p := Packed{n}
	y := []float32{0.5, 0, -2, 0, 0, 1, 0.25, 0, 3}
	v := &method.View{Slot: method.Slot{Sparse: true, Rows: 1, Dim: p.Len()}}
	p.Outer(y, make([]uint32, n), v)
	if len(v.Indices) != 5*6/2 {
		t.Errorf("%d entries are listed for 5 numbers, want 15", len(v.Indices))
	}
	list, length, square := make([]float32, p.Len()), 0.0, 0.0
	for k, place := range v.Indices {
		list[place] = v.Values[k]
		length += float64(v.Values[k]) * float64(v.Values[k])
	}
	for _, x := range y {
		square += float64(x) * float64(x)
	}
	if math.Abs(math.Sqrt(length)-square) > 1e-5 {
		t.Errorf("the list has a length of %g, the matrix one of %g", math.Sqrt(length), square)
	}
	s, m := vec.Pad(n), p.Matrix(list, 2)
	for i := range n {
		for j := range n {
			if got, want := m[i*s+j], 2*y[i]*y[j]; math.Abs(float64(got-want)) > 1e-5 {
				t.Errorf("(%d, %d) is %g, want %g", i, j, got, want)
			}
		}
	}
}

// noisy returns a matrix of packed noise: its standard deviation is 1 on the diagonal and
// sqrt(1/2) off it.
func noisy(n int, r *rng.Rand) []float32 {
	p := Packed{n}
	list := make([]float32, p.Len())
	for i := range list {
		list[i] = float32(r.Norm())
	}
	return p.Matrix(list, 1)
}

// The largest eigenvalue of pure noise is at the edge. For n = 400 it is off by 5 % with a
// probability far below 1e-6 (its standard deviation is about n^(-2/3)/2, or .9 %).
func TestEigenvaluesOfPureNoiseStayBelowTheEdge(t *testing.T) {
	const n = 400
	r := rng.New(rng.Test, 21)
	values, _ := Eigen(noisy(n, &r), n, 1)
	if edge := math.Sqrt(2 * n); math.Abs(values[0]/edge-1) > 0.05 {
		t.Errorf("the largest eigenvalue of noise is %g, its edge is %g", values[0], edge)
	}
	if values, _ := Denoise(noisy(n, &r), n, 20, 1.03); len(values) > 0 {
		t.Errorf("%d directions are found in pure noise", len(values))
	}
}

// The shrunk value is the best one for the estimated vector v: x = θ (u'v)² for a planted
// θ u u'. The tolerance allows for single draws.
func TestShrunkEigenvalueIsTheBestEstimate(t *testing.T) {
	const n = 400
	r, s := rng.New(rng.Test, 22), vec.Pad(n)
	a, edge := noisy(n, &r), math.Sqrt(2*n)
	thetas := []float64{3 * edge, 2 * edge, 0.9 * edge}
	truth := make([][]float32, len(thetas))
	for k, theta := range thetas {
		u := make([]float32, s)
		for i := range n {
			if i%len(thetas) == k { // orthogonal to each other
				u[i] = float32(r.Norm())
			}
		}
		vec.Scale(float32(1/math.Sqrt(float64(vec.Dot(u, u)))), u)
		for i := range n {
			vec.Axpy(float32(theta)*u[i], u, a[i*s:(i+1)*s])
		}
		truth[k] = u
	}
	values, vectors := Denoise(a, n, 10, 1)
	if len(values) != len(thetas) {
		t.Fatalf("%d directions are found, want %d", len(values), len(thetas))
	}
	for k, x := range values {
		c := float64(vec.Dot(truth[k], vectors[k]))
		if want := thetas[k] * c * c; math.Abs(x/want-1) > 0.1 {
			t.Errorf("a value of %.4g becomes %.4g, the best is %.4g", thetas[k], x, want)
		}
	}
}

func TestShrinkKeepsRowsWithoutNoise(t *testing.T) {
	raw, dst := []float32{3, 4, 0, 0, 0, 0, 0, 0, .1, 0, .1, 0, 0, 0, 0, 0}, make([]float32, 16)
	Shrink(4, 8, 0, raw, dst)
	for i := range raw {
		if raw[i] != dst[i] {
			t.Fatalf("without noise %v becomes %v", raw, dst)
		}
	}
	Shrink(4, 8, 0.5, raw, dst) // the first row keeps 1 - 2*.5/25
	if math.Abs(float64(dst[0])-3*0.96) > 1e-5 || dst[8] != 0 {
		t.Errorf("rows of length 5 and .14 with a variance of .5 become %v", dst)
	}
}
