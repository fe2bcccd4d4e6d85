package sequence

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Features that are the old ones after a rotation of each part are turned back, also if columns are zero. Items without
// old features turn along.
func TestFeaturesAreAlignedWithThoseOfAnEarlierRun(t *testing.T) {
	const items, rank, fresh = 300, 10, 40 // the last items are new
	f := &Features{Rank: rank}
	stride := vec.Pad(3 * rank)
	for _, used := range []int{rank, rank - 3, 1} {
		r := rng.New(rng.Test, uint64(used))
		want, turned := make([]float32, items*stride), make([]float32, items*stride)
		for part := range 3 {
			random := make([]float64, rank*rank)
			for i := range random {
				random[i] = r.Norm()
			}
			rotation := nearestOrthogonal(random, rank)
			checkOrthogonal(t, rotation, rank)
			for i := range items {
				row := want[i*stride+part*rank:][:rank]
				for c := range used {
					row[c] = float32(r.Norm())
				}
				for c := range rank {
					for k, x := range row {
						turned[i*stride+part*rank+c] += x * rotation[k*rank+c]
					}
				}
			}
		}
		g := &method.Global{Items: items, Stride: []int{stride}, Value: [][]float32{slices.Clone(turned)}}
		f.align(g, make([]float32, items*stride))
		if !slices.Equal(g.Value[0], turned) {
			t.Error("features change without old ones")
		}
		old := slices.Clone(want)
		clear(old[(items-fresh)*stride:])
		f.align(g, old)
		for i, x := range want {
			if d := math.Abs(float64(x - g.Value[0][i])); d > 1e-4 {
				t.Fatalf("%d of %d columns: number %d is %g, want %g", used, rank, i, g.Value[0][i], x)
			}
		}
	}
	bad := make([]float64, rank*rank)
	bad[3] = math.NaN()
	if nearestOrthogonal(bad, rank) != nil {
		t.Error("a matrix that is not finite has an orthogonal factor")
	}
	lone := make([]float64, rank*rank)
	lone[rank+4] = 2
	checkOrthogonal(t, nearestOrthogonal(lone, rank), rank)
}

func checkOrthogonal(t *testing.T, m []float32, n int) {
	t.Helper()
	for i := range n {
		for j := range n {
			dot, want := 0.0, 0.0
			if i == j {
				want = 1
			}
			for k := range n {
				dot += float64(m[k*n+i] * m[k*n+j])
			}
			if math.Abs(dot-want) > 1e-5 {
				t.Fatalf("columns %d and %d have the product %g, want %g", i, j, dot, want)
			}
		}
	}
}
