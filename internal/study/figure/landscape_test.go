package figure

import (
	"math"
	"slices"
	"testing"
)

func point() []Tensor {
	return []Tensor{{normal(300, 8, 20), false}, {normal(5, 16, 21), false}, {normal(1, 16, 22), true}}
}

func dot(a, b [][]float32) float64 {
	s := 0.0
	for t := range a {
		for i := range a[t] {
			s += float64(a[t][i]) * float64(b[t][i])
		}
	}
	return s
}

func TestAuthorsDirectionsAreOfLengthOneAndLean(t *testing.T) {
	at := point()
	d0, d1 := Direction(Authors, at, 1, 0), Direction(Authors, at, 1, 1)
	near(t, "length", dot(d0, d0), 1, 1e-5)
	near(t, "length", dot(d1, d1), 1, 1e-5)
	// Entries have mean 1 and variance 1, so E[d0.d1]/E[d0.d0] is 1/2. With 2496 entries
	// the cosine is within 0.1 of that but for less than one seed in a million.
	near(t, "cosine", dot(d0, d1), 0.5, 0.1)
}

func TestFilterDirectionsHaveTheRowsLengths(t *testing.T) {
	at := point()
	clear(at[0].Row(7))
	d0, d1 := Direction(Filter, at, 1, 0), Direction(Filter, at, 1, 1)
	for k, w := range at {
		for i := range w.N {
			want, got := 0.0, 0.0
			for j, x := range w.Row(i) {
				want += float64(x) * float64(x)
				got += math.Pow(float64(d0[k][i*w.Stride+j]), 2)
			}
			if w.Flat {
				want = 0
			}
			near(t, "squared length of a row", got, want, 1e-4*(1+want))
		}
		for i, x := range d0[k] {
			if i%w.Stride >= w.Dim && x != 0 {
				t.Fatal("a direction moves what is between the rows")
			}
		}
	}
	near(t, "cosine", dot(d0, d1)/math.Sqrt(dot(d0, d0)*dot(d1, d1)), 0, 0.1)
	if again := Direction(Filter, at, 1, 0); !slices.Equal(again[1], d0[1]) {
		t.Error("the same seed gave another direction")
	}
}

// On a quadratic bowl every figure is known.
func TestALandscapeOfABowl(t *testing.T) {
	at := []Tensor{{Rows{2, 2, 2, []float32{0, 0, 0, 0}}, false}}
	d0, d1 := [][]float32{{1, 0, 0, 0}}, [][]float32{{0, 2, 0, 0}}
	dst := [][]float32{make([]float32, 4)}
	loss := func(p [][]float32) float64 { return dot(p, p) }
	axis := Axis(5, 1)
	if !slices.Equal(axis, []float64{-1, -0.5, 0, 0.5, 1}) {
		t.Fatalf("axis is %v", axis)
	}
	var grid [][]float64
	for _, b := range axis {
		var row []float64
		for _, a := range axis {
			Move(at, d0, d1, a, b, dst)
			row = append(row, loss(dst))
			near(t, "loss", loss(dst), a*a+4*b*b, 1e-6)
		}
		grid = append(grid, row)
	}
	s := SharpnessOf(grid, 0)
	near(t, "most", s.Most, 5, 1e-6)
	near(t, "mean", s.Mean, 2.5, 1e-6)
	up := Ascent([][]float32{{3, 4}}, 0.5)
	near(t, "ascent", float64(up[0][0]), 0.3, 1e-6)
	near(t, "ascent", float64(up[0][1]), 0.4, 1e-6)
	if still := Ascent([][]float32{{0, 0}}, 1); still[0][0] != 0 {
		t.Error("a zero gradient has a direction")
	}
	if SharpnessOf(nil, 1) != (Sharpness{}) {
		t.Error("no grid has a sharpness")
	}
}
