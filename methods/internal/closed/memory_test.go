package closed

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/tacit-rec/tacit/vec"
)

// A dense solver finds the same solution of the normal equations.
func TestTheSequenceHeadIsRidgeRegression(t *testing.T) {
	m := Memory{Rates: Rates{0, 0.5}, Dim: 3}
	r, f, items := rand.New(rand.NewPCG(1, 2)), m.Wide(), 6
	s := vec.Pad(f)
	table := make([][]float32, items)
	for i := range table {
		table[i] = make([]float32, vec.Pad(m.Dim))
		for k := range m.Dim {
			table[i][k] = float32(r.NormFloat64())
		}
	}
	square, next, head := make([]float32, f*s), make([]float32, items*s), make([]float32, items*s)
	a, b := mat.NewDense(f, f, nil), mat.NewDense(f, items, nil)
	for range 40 {
		memory, plain := make([]float32, s), make([]float64, f)
		for range 7 {
			seen, then := r.IntN(items), r.IntN(items)
			m.See(table[seen], memory)
			norm := math.Sqrt(float64(vec.Dot(table[seen], table[seen])))
			for k, rho := range []float64{0, 0.5} {
				for i := range m.Dim {
					plain[k*m.Dim+i] = rho*plain[k*m.Dim+i] + float64(table[seen][i])/norm
				}
			}
			plain[f-1] = 1
			for i := range f {
				if math.Abs(plain[i]-float64(memory[i])) > 1e-5 {
					t.Fatalf("place %d of a memory is %v, want %v", i, memory[i], plain[i])
				}
				for j := range f {
					square[i*s+j] += memory[i] * memory[j]
					a.Set(i, j, a.At(i, j)+plain[i]*plain[j])
				}
				next[then*s+i] += memory[i]
				b.Set(i, then, b.At(i, then)+plain[i])
			}
		}
	}
	const reg = 3
	keep := make([]bool, items)
	for i := range keep {
		keep[i] = true
	}
	m.Head(keep, reg, 0, square, next, head, s)
	ridge := reg * mat.Trace(a) / float64(100*f)
	for i := range f {
		a.Set(i, i, a.At(i, i)+ridge)
	}
	var want mat.Dense
	if err := want.Solve(a, b); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		for k := range f {
			if got := float64(head[i*s+k]); math.Abs(got-want.At(k, i)) > 1e-4 {
				t.Errorf("head of item %d, place %d: %v, want %v", i, k, got, want.At(k, i))
			}
		}
	}
}

func TestRatesAreReadAndWritten(t *testing.T) {
	var r Rates
	if err := r.UnmarshalText([]byte("0, 0.5,0.9")); err != nil {
		t.Fatal(err)
	}
	if b, _ := r.MarshalText(); string(b) != "0,0.5,0.9" {
		t.Errorf("MarshalText returns %q", b)
	}
	for _, bad := range []string{"", "1", "-0.1", "x", "nan", "0,0,0,0,0,0,0,0,0"} {
		if err := new(Rates).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
