package private

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// A packed y y' is the matrix, its length is that of the matrix, which is that of y
// squared, and places where y is zero are not touched.
func TestPackedIsTheMatrix(t *testing.T) {
	const n = 9
	p := Packed{n}
	y := []float32{0.5, 0, -2, 0, 0, 1, 0.25, 0, 3}
	v := &method.View{Slot: method.Slot{Sparse: true, Rows: 1, Dim: p.Len()}}
	p.Outer(y, make([]uint32, n), v)
	if len(v.Indices) != 5*6/2 {
		t.Errorf("%d places are listed for 5 numbers, want 15", len(v.Indices))
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

// noisy is a matrix with noise of deviation 1 on the diagonal and sqrt(1/2) off it, as
// packed noise becomes.
func noisy(n int, r *rng.Rand) []float32 {
	p := Packed{n}
	list := make([]float32, p.Len())
	for i := range list {
		list[i] = float32(r.Norm())
	}
	return p.Matrix(list, 1)
}

// The largest eigenvalue of noise alone is at the edge: of 400 by 400 numbers it is 5 %
// off with a chance far below 1e-6 (its deviation is about n^(-2/3)/2 of it, .9 %).
func TestNoiseAloneStaysBelowTheEdge(t *testing.T) {
	const n = 400
	r := rng.New(rng.Test, 21)
	values, _ := Eigen(noisy(n, &r), n, 1)
	if edge := math.Sqrt(2 * n); math.Abs(values[0]/edge-1) > 0.05 {
		t.Errorf("the largest eigenvalue of noise is %g, and its edge %g", values[0], edge)
	}
	if values, _ := Denoise(noisy(n, &r), n, 20, 1.03); len(values) > 0 {
		t.Errorf("%d directions stand out of nothing", len(values))
	}
}

// A shrunk value is the one that, with the vector that was found, is nearest the truth:
// x = θ (u'v)² for a planted θ u u'. The tolerance is that of single draws.
func TestAShrunkValueIsTheNearestToTheTruth(t *testing.T) {
	const n = 400
	r, s := rng.New(rng.Test, 22), vec.Pad(n)
	a, edge := noisy(n, &r), math.Sqrt(2*n)
	thetas := []float64{3 * edge, 2 * edge, 0.9 * edge}
	truth := make([][]float32, len(thetas))
	for k, theta := range thetas {
		u := make([]float32, s)
		for i := range n {
			if i%len(thetas) == k { // at right angles to each other
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
		t.Fatalf("%d directions stand out, want %d", len(values), len(thetas))
	}
	for k, x := range values {
		c := float64(vec.Dot(truth[k], vectors[k]))
		if want := thetas[k] * c * c; math.Abs(x/want-1) > 0.1 {
			t.Errorf("a value of %.4g becomes %.4g, and %.4g is the nearest", thetas[k], x, want)
		}
	}
}

func TestShrinkLeavesWhatHasNoNoise(t *testing.T) {
	raw, dst := []float32{3, 4, 0, 0, 0, 0, 0, 0, .1, 0, .1, 0, 0, 0, 0, 0}, make([]float32, 16)
	Shrink(4, 8, 0, raw, dst)
	for i := range raw {
		if raw[i] != dst[i] {
			t.Fatalf("without noise %v becomes %v", raw, dst)
		}
	}
	Shrink(4, 8, 0.5, raw, dst) // 1 - 2*.5/25 is left of the first row
	if math.Abs(float64(dst[0])-3*0.96) > 1e-5 || dst[8] != 0 {
		t.Errorf("rows of length 5 and .14 with a variance of .5 become %v", dst)
	}
}
