package privacy

import (
	"math"
	"math/rand/v2"
	"testing"
)

// hostile are updates that try to be longer than they may be.
func hostile(r *rand.Rand, n int) []float32 {
	row := make([]float32, n)
	kind := r.IntN(9)
	for i := range row {
		switch kind {
		case 0:
			row[i] = float32(r.NormFloat64())
		case 1:
			row[i] = math.MaxFloat32
		case 2:
			row[i] = -math.MaxFloat32 * float32(r.IntN(2))
		case 3:
			row[i] = math.SmallestNonzeroFloat32
		case 4:
			row[i] = float32(math.Inf(1 - 2*r.IntN(2)))
		case 5:
			row[i] = float32(math.NaN())
		case 6:
			row[i] = 0.5 / float32(1<<20) // each rounds up, if anything does
		case 7:
			row[i] = float32(math.Exp(40 * r.NormFloat64()))
		}
	}
	if kind == 8 {
		row[r.IntN(n)] = float32(math.Ldexp(1, r.IntN(250)-125))
	}
	return row
}

func lengthOf(sum []int64, l1 bool) float64 {
	n := 0.0
	for _, x := range sum {
		if l1 {
			n += math.Abs(float64(x))
		} else {
			n += float64(x) * float64(x)
		}
	}
	if l1 {
		return n
	}
	return math.Sqrt(n)
}

// The promise that every epsilon rests on: no update is longer, in integers, than its
// sensitivity.
func TestNoUpdateIsLongerThanItsSensitivity(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := Bound{
			Clip: math.Exp(5 * r.NormFloat64()), L1: r.IntN(2) == 0, Levels: math.Ldexp(1, 4+r.IntN(17)),
			Bit: true,
		}
		if r.IntN(2) == 0 {
			b.RowClip = b.Clip * math.Exp(2*r.NormFloat64())
		}
		n, wide := 1+r.IntN(4), 1+r.IntN(12)
		d := Delta{BitAt: n * wide}
		for k := range n {
			d.Rows, d.At = append(d.Rows, hostile(r, wide)), append(d.At, k*wide)
		}
		sum := make([]int64, n*wide+1)
		b.Encode(&d, sum)
		numbers := n * wide
		if got, most := lengthOf(sum[:numbers], b.L1), b.Sensitivity(numbers); got > most*(1+1e-12) {
			t.Fatalf("an update of length %g where at most %g is promised: %+v of %+v", got, most, b, d)
		}
		if bit := sum[numbers]; bit != BitLevels/2 && bit != -BitLevels/2 {
			t.Fatalf("the clipping bit moved the sum by %d", bit)
		}
	}
}

func TestAShortUpdateIsKeptAsItIs(t *testing.T) {
	b := Bound{Clip: 2, Levels: 1 << 20, Bit: true}
	d := Delta{Rows: [][]float32{{0.5, -1}, {0.25}}, At: []int{0, 4}, BitAt: 7}
	sum := make([]int64, 8)
	norm, finite := b.Encode(&d, sum)
	if want := math.Sqrt(0.25 + 1 + 0.0625); math.Abs(norm-want) > 1e-15 || !finite {
		t.Errorf("norm %v, want %v", norm, want)
	}
	for i, want := range []float64{0.5, -1, 0, 0, 0.25} {
		if got := float64(sum[i]) * b.Unit(); got != want {
			t.Errorf("number %d is %v, want %v", i, got, want)
		}
	}
	if sum[7] != BitLevels/2 {
		t.Error("an update within the bound does not say so")
	}
	long := Delta{Rows: [][]float32{{3, 4}}, At: []int{0}, BitAt: 7}
	sum = make([]int64, 8)
	b.Encode(&long, sum)
	if x, y := float64(sum[0])*b.Unit(), float64(sum[1])*b.Unit(); math.Abs(x-1.2) > 1e-5 || math.Abs(y-1.6) > 1e-5 {
		t.Errorf("clipped to %v, %v, want 1.2, 1.6", x, y)
	}
	if sum[7] != -BitLevels/2 {
		t.Error("an update beyond the bound says that it is within")
	}
}
