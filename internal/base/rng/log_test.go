package rng

import (
	"math"
	"math/big"
	"testing"
)

const precision = 200 // bits of the reference

// bigExp computes exp from its series: of y/1024, followed by ten squarings.
func bigExp(y *big.Float) *big.Float {
	f := func() *big.Float { return new(big.Float).SetPrec(precision) }
	x := f().Quo(y, f().SetInt64(1024))
	sum, term := f().SetInt64(1), f().SetInt64(1)
	for k := int64(1); k < 40; k++ {
		term.Quo(term.Mul(term, x), f().SetInt64(k))
		sum.Add(sum, term)
	}
	for range 10 {
		sum.Mul(sum, sum)
	}
	return sum
}

// bigLog takes one step of Newton's method from math.Log, which doubles its digits.
func bigLog(x float64) *big.Float {
	f := func(v float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(v) }
	y := f(math.Log(x))
	r := f(0).Mul(f(x), bigExp(f(0).Neg(y)))
	r.Sub(r, f(1)) // log x = y + log(1+r), r below 1e-13
	half := f(0).Mul(r, r)
	return y.Add(y, r.Sub(r, half.Quo(half, f(2))))
}

func TestLogIsWithinItsBound(t *testing.T) {
	const bound = 5e-16 // as documented
	worst, at := 0.0, 0.0
	check := func(x float64) {
		want := bigLog(x)
		if want.Sign() == 0 {
			if got := Log(x); got != 0 {
				t.Errorf("Log(%g) is %g, want 0", x, got)
			}
			return
		}
		d := new(big.Float).SetPrec(precision).SetFloat64(Log(x))
		d.Quo(d.Sub(d, want), want)
		if e, _ := d.Float64(); math.Abs(e) > worst {
			worst, at = math.Abs(e), x
		}
	}
	r := New(Test, 5)
	for range 4000 { // every magnitude
		check(math.Float64frombits(r.Uint64()>>12 | uint64(1+r.Uint32n(2046))<<52))
	}
	for range 8000 { // small logarithms, and arguments for which its two parts cancel
		check(0.3 + 2*r.Float64())
	}
	for k := -52; k <= 10; k++ {
		for _, m := range []float64{
			1, math.Sqrt2, math.Nextafter(math.Sqrt2, 0), math.Nextafter(math.Sqrt2, 2),
			math.Nextafter(2, 0),
		} {
			check(math.Ldexp(m, k))
			check(1 + math.Ldexp(m, k))
			if k < -1 {
				check(1 - math.Ldexp(m, k))
			}
		}
	}
	// The last is the worst of 150,000 arguments between 0.7 and 1.5: 4.07e-16.
	for _, x := range []float64{1, 0x1p-1022, math.MaxFloat64, math.E, 10, 0.7033474767828235} {
		check(x)
	}
	if worst > bound {
		t.Errorf("the relative error of Log(%v) is %.3g, want at most %g", at, worst, bound)
	}
	t.Logf("largest relative error %.3g, at %v", worst, at)
}
