package vec

import (
	"math"
	"slices"
	"testing"
)

func TestReluClampsAtZeroAndKeepsNaN(t *testing.T) {
	nan := float32(math.NaN())
	for n := range 20 { // the twin processes the tail
		x := make([]float32, n+3)
		want := make([]float32, n+3)
		for i := range x {
			x[i] = float32(i%5) - 2
			want[i] = max(x[i], 0)
		}
		x[n], want[n] = nan, nan
		Relu(x)
		for i := range x {
			if x[i] != want[i] && !(x[i] != x[i] && want[i] != want[i]) {
				t.Fatalf("%d numbers: element %d is %g, want %g", n+3, i, x[i], want[i])
			}
		}
		d := make([]float32, len(x))
		for i := range d {
			d[i] = 7
		}
		ReluBack(x, d)
		for i := range d {
			if pass := x[i] > 0; pass != (d[i] == 7) || !pass && d[i] != 0 {
				t.Fatalf("%d numbers: element %d came out as %g, its gradient is %g", n+3, i, x[i], d[i])
			}
		}
	}
}

func TestOuterAndColumns(t *testing.T) {
	dst := make([]float32, 6)
	Outer([]float32{2, -1}, []float32{1, 2, 3}, dst)
	if want := []float32{2, 4, 6, -1, -2, -3}; !slices.Equal(dst, want) {
		t.Errorf("the outer product is %v, want %v", dst, want)
	}
	sum := []float32{10, 0, 0}
	Columns(dst, sum)
	if want := []float32{11, 2, 3}; !slices.Equal(sum, want) {
		t.Errorf("the column sums are %v, want %v", sum, want)
	}
}

func TestSoftMovesTowardsZero(t *testing.T) {
	nan := float32(math.NaN())
	x := []float32{3, 0.5, 0.4, 0, -0.2, -0.5, -2, nan}
	Soft(0.5, x)
	for i, want := range []float32{2.5, 0, 0, 0, 0, 0, -1.5} {
		if x[i] != want {
			t.Errorf("number %d is %g, want %g", i, x[i], want)
		}
	}
	if x[7] == x[7] {
		t.Errorf("NaN became %g", x[7])
	}
}
