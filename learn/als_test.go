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

// tables are the item rows of a catalogue and their products, as a device sees them.
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

// The user's vector is that of the normal equations over the whole catalogue, written out.
func TestAUsersVectorSolvesItsEquations(t *testing.T) {
	const dim, a0, reg = 12, 0.3, 0.02
	w, item, gram := tables(50, dim)
	own := some(9, 50)
	got := make([]float32, vec.Pad(dim))
	learn.Fit(w, item, gram, own, a0, reg, got)
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
			t.Errorf("place %d is %v, want %v", k, got[k], want.AtVec(k))
		}
	}
}

// What a device does in a round of `ials` but for sending, and to recommend.
func BenchmarkAUsersVector(b *testing.B) {
	w, item, gram := tables(3706, 64)
	own, dst := some(160, 3706), make([]float32, 64)
	b.ReportAllocs()
	for b.Loop() {
		learn.Fit(w, item, gram, own, 0.1, 0.01, dst)
	}
}

func TestALargeMatrixIsSolvedAndInverted(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 200} { // blocks are 64
		r := rand.New(rand.NewPCG(7, uint64(n)))
		d, x := learn.NewDense(n), mat.NewDense(n, n, nil)
		for i := range n {
			for j := range n {
				x.Set(i, j, r.NormFloat64())
			}
		}
		var a, inverse mat.Dense
		a.Mul(x, x.T())
		for i := range n {
			a.Set(i, i, a.At(i, i)+float64(n))
			for j := range n {
				d.Data[i*d.Stride+j] = float32(a.At(i, j))
			}
		}
		if err := inverse.Inverse(&a); err != nil {
			t.Fatal(err)
		}
		if !d.Factor() {
			t.Fatalf("%d: not positive definite", n)
		}
		got, long := d.Inverse(), mat.Max(&inverse)
		for i := range n {
			for j := range n {
				if far := math.Abs(float64(got.Data[i*got.Stride+j]) - inverse.At(i, j)); far > 1e-5*long {
					t.Fatalf("%d: place %d, %d of the inverse is off by %g of the largest", n, i, j, far/long)
				}
			}
		}
	}
	d := learn.NewDense(70)
	d.Data[0] = -1
	if d.Factor() {
		t.Error("a matrix that is not positive definite has a factor")
	}
}
