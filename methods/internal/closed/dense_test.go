package closed

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

func TestDenseInverseMatchesGonum(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 200} { // around the block size of 64
		r := rand.New(rand.NewPCG(7, uint64(n)))
		d, x := NewDense(n), mat.NewDense(n, n, nil)
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
	d := NewDense(70)
	d.Data[0] = -1
	if d.Factor() {
		t.Error("a matrix that is not positive definite has a factor")
	}
}
