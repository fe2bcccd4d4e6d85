package secagg

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTheTailIsThatOfAGaussian(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	if got := Tail(100, 1, 2*math.Exp(-8)); got != 400 { // 2 exp(-4^2/2)
		t.Errorf("the bound is %d, want 4 deviations, 400", got)
	}
	// In 1e6 draws of deviation 10, one is over the bound with a chance below 1e-6.
	bound, r := Tail(10, 1e6, 1e-6), rand.New(rand.NewPCG(8, 8))
	for range 1000000 {
		if x := math.Abs(math.Round(10 * r.NormFloat64())); x > float64(bound) {
			t.Fatalf("a draw of %g is over %d", x, bound)
		}
	}
}
