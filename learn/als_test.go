package learn_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// tables returns the item rows of a catalogue and their Gram matrix, as a device sees them.
func tables(items, dim int) (w *method.Work, item, gram *method.View) {
	r, s := rand.New(rand.NewPCG(3, 4)), vec.Pad(dim)
	w = &method.Work{Items: items}
	item = &method.View{Slot: method.Slot{PerItem: true, Dim: dim}, Stride: s, Arena: make([]float32, items*s)}
	for i := range items {
		for k := range dim {
			item.Arena[i*s+k] = float32(r.NormFloat64()) / 8
		}
	}
	gram = &method.View{Slot: method.Slot{Rows: dim, Dim: dim}, Stride: s, Val: make([]float32, dim*s)}
	learn.Gram(item.Arena, items, dim, s, gram.Val)
	return w, item, gram
}

func some(n, of int) []uint32 {
	var out []uint32
	for _, i := range rand.New(rand.NewPCG(5, 6)).Perm(of)[:n] {
		out = append(out, uint32(i))
	}
	return out
}

// The user's vector must solve the normal equations over the whole catalogue, computed densely.
func TestUserVectorSolvesNormalEquations(t *testing.T) {
	const dim, a0, reg = 12, 0.3, 0.02
	w, item, gram := tables(50, dim)
	own := some(9, 50)
	got := make([]float32, vec.Pad(dim))
	learn.FitUser(w, item, gram, own, a0, reg, got)
	a, y := mat.NewDense(dim, dim, nil), mat.NewVecDense(dim, nil)
	row := func(i uint32) *mat.VecDense {
		v := mat.NewVecDense(dim, nil)
		for k := range dim {
			v.SetVec(k, float64(item.Row(i)[k]))
		}
		return v
	}
	for i := range uint32(50) {
		a.RankOne(a, a0, row(i), row(i))
	}
	for _, i := range own {
		a.RankOne(a, 1, row(i), row(i))
		y.AddVec(y, row(i))
	}
	for k := range dim {
		a.Set(k, k, a.At(k, k)+reg*(9+a0*50))
	}
	var want mat.VecDense
	if err := want.SolveVec(a, y); err != nil {
		t.Fatal(err)
	}
	for k := range dim {
		if math.Abs(float64(got[k])-want.AtVec(k)) > 1e-4 {
			t.Errorf("element %d is %v, want %v", k, got[k], want.AtVec(k))
		}
	}
}

// BenchmarkUserVector measures the local work of `ials` without the upload, which is also the
// work of a recommendation.
func BenchmarkUserVector(b *testing.B) {
	w, item, gram := tables(3706, 64)
	own, dst := some(160, 3706), make([]float32, 64)
	b.ReportAllocs()
	for b.Loop() {
		learn.FitUser(w, item, gram, own, 0.1, 0.01, dst)
	}
}
