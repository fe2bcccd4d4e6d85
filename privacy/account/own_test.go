package account

import (
	"math"
	"math/big"
	"testing"
)

// wide is the precision of the oracles here, in bits.
const wide = 400

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(wide).SetFloat64(x) }

// bigExp is e^x: the series at x/2^k, squared k times.
func bigExp(x *big.Float) *big.Float {
	const halvings = 40
	small := new(big.Float).SetPrec(wide).SetMantExp(x, -halvings)
	sum, term := bigFloat(1), bigFloat(1)
	for k := 1; k < 60; k++ {
		term.Mul(term, small)
		term.Quo(term, bigFloat(float64(k)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// bigLog1p is ln(1+x) for a small or moderate x > 0, by Newton on bigExp.
func bigLog1p(x *big.Float) float64 {
	one := bigFloat(1)
	a := new(big.Float).SetPrec(wide).Add(one, x)
	f, _ := x.Float64()
	y := bigFloat(math.Log1p(f))
	for range 4 {
		e := bigExp(y)
		d := new(big.Float).SetPrec(wide).Sub(a, e)
		y.Add(y, d.Quo(d, e))
	}
	out, _ := y.Float64()
	return out
}

func bigChoose(n, k int) *big.Float {
	return new(big.Float).SetPrec(wide).SetInt(new(big.Int).Binomial(int64(n), int64(k)))
}

func bigPow(x *big.Float, n int) *big.Float {
	out := bigFloat(1)
	for range n {
		out.Mul(out, x)
	}
	return out
}

// bigSampled is the RDP of the sampled Gaussian by the binomial sum as it is
// written in the paper, with 400 bits.
func bigSampled(q, sigma float64, a int) float64 {
	sum := bigFloat(0)
	in := bigFloat(q)
	out := new(big.Float).SetPrec(wide).Sub(bigFloat(1), in)
	variance := new(big.Float).SetPrec(wide).Mul(bigFloat(sigma), bigFloat(sigma))
	for k := 0; k <= a; k++ {
		e := bigFloat(float64(k) * float64(k-1) / 2)
		t := bigExp(e.Quo(e, variance))
		t.Mul(t, bigChoose(a, k))
		t.Mul(t, bigPow(in, k))
		t.Mul(t, bigPow(out, a-k))
		sum.Add(sum, t)
	}
	return bigLog1p(sum.Sub(sum, bigFloat(1))) / float64(a-1)
}

func TestSampledGaussianAgainstBigNumbers(t *testing.T) {
	w := &worst{t: t, what: "RDP"}
	for _, q := range []float64{1e-6, 1e-3, 0.1, 0.7, 0.999} {
		for _, sigma := range []float64{0.5, 1, 3, 40} {
			for _, a := range []int{2, 3, 7, 20} {
				if float64(a*a)/sigma/sigma > 600 {
					continue // the series of bigExp is not made for it
				}
				e := Event{Mechanism: Gaussian, Adjacency: ZeroOut, Sampler: Poisson, Q: q, Noise: sigma, Rounds: 1}
				got, err := e.RDP(float64(a))
				if err != nil {
					t.Fatal(err)
				}
				w.near("sampled", got, bigSampled(q, sigma, a), 1e-12, 0)
			}
		}
	}
	w.log()
}

// A fractional order next to an integer has nearly its value, and lies on a convex curve.
func TestFractionalOrdersJoinTheIntegerOnes(t *testing.T) {
	for _, q := range []float64{1e-6, 1e-3, 0.1, 0.9} {
		for _, sigma := range []float64{0.11, 0.3, 1, 5, 100} {
			s := newSampled(q, sigma, []float64{10.5, 11})
			for _, a := range []float64{2, 3, 5, 10} {
				got, want := s.fractional(a), s.cgf(int(a))
				if math.Abs(got-want) > 1e-11*want {
					t.Errorf("q %g, sigma %g, order %g: the integral gives %.15g, the sum %.15g", q, sigma, a, got,
						want)
				}
			}
			for a := 1.1; a < 10; a += 0.1 {
				if mid, chord := s.fractional(a), (s.fractional(a-0.05)+s.fractional(a+0.05))/2; mid > chord*(1+1e-12) {
					t.Errorf("q %g, sigma %g: the cumulant is not convex at %g", q, sigma, a)
				}
			}
		}
	}
}

// bigMoment is the l-th forward difference at 0 of e^(x(x-1)/2σ²), with 400 bits.
func bigMoment(l int, sigma float64) float64 {
	sum := bigFloat(0)
	variance := new(big.Float).SetPrec(wide).Mul(bigFloat(sigma), bigFloat(sigma))
	for k := 0; k <= l; k++ {
		e := bigFloat(float64(k) * float64(k-1) / 2)
		x := bigExp(e.Quo(e, variance))
		x.Mul(x, bigChoose(l, k))
		if (l-k)%2 == 1 {
			x.Neg(x)
		}
		sum.Add(sum, x)
	}
	exponent := sum.MantExp(sum)
	m, _ := sum.Float64()
	return math.Log(m) + float64(exponent)*math.Ln2
}

func TestMomentsOfTheorem27AgainstBigNumbers(t *testing.T) {
	for _, sigma := range []float64{0.6, 2, 10, 50, 1e4} {
		got := logMoments(24, sigma)
		for l := 2; l <= 24; l += 2 {
			if float64(l*l)/sigma/sigma > 600 {
				continue
			}
			if want := bigMoment(l, sigma); math.Abs(got[l]-want) > 1e-11*max(1, math.Abs(want)) {
				t.Errorf("sigma %g, l %d: ln B is %.15g, want %.15g", sigma, l, got[l], want)
			}
		}
	}
}

func TestTheorem27IsNeverAboveTheorem9(t *testing.T) {
	for _, q := range []float64{1e-4, 0.01, 0.3} {
		for _, sigma := range []float64{0.3, 1, 4, 30, 1e6} {
			orders := append(integers(2, 300), 1.5, 400.5)
			nine, better := newFixedSize(q, sigma, 9, orders), newFixedSize(q, sigma, 27, orders)
			for _, a := range orders {
				x, y := nine.rdp(a), better.rdp(a)
				if y > x*(1+1e-12) || x > gaussianRDP(a, sigma) {
					t.Errorf("q %g, sigma %g, order %g: theorem 9 %g, theorem 27 %g, unsampled %g", q, sigma, a, x, y,
						gaussianRDP(a, sigma))
				}
			}
		}
	}
}

// renyi is the divergence of order a between two densities, by brute force.
func renyi(a float64, p, q func(float64) float64, from, to float64) float64 {
	const n = 400000
	h, sum := (to-from)/n, 0.0
	for i := range n {
		x := from + (float64(i)+0.5)*h
		sum += math.Exp(a*math.Log(p(x)) + (1-a)*math.Log(q(x)))
	}
	return math.Log(sum*h) / (a - 1)
}

func TestCurvesAgainstBruteForce(t *testing.T) {
	normal := func(m, s float64) func(float64) float64 {
		return func(x float64) float64 {
			return math.Exp(-(x-m)*(x-m)/2/s/s) / s / math.Sqrt(2*math.Pi)
		}
	}
	laplace := func(m, s float64) func(float64) float64 {
		return func(x float64) float64 { return math.Exp(-math.Abs(x-m)/s) / 2 / s }
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: %.12g, want %.12g", what, got, want)
		}
	}
	for _, a := range []float64{1.3, 2, 4.5} {
		near("gaussian", gaussianRDP(a, 2), renyi(a, normal(1, 2), normal(0, 2), -60, 60))
		near("laplace", laplaceRDP(a, 3), renyi(a, laplace(1, 3), laplace(0, 3), -200, 200))
		mixed := func(x float64) float64 { return 0.8*normal(0, 1.5)(x) + 0.2*normal(1, 1.5)(x) }
		near("sampled", newSampled(0.2, 1.5, []float64{a}).rdp(a), renyi(a, mixed, normal(0, 1.5), -40, 40))
		p := math.Exp(0.7) / (1 + math.Exp(0.7))
		near("pure", pureRDP(a, 0.7), math.Log(math.Pow(p, a)*math.Pow(1-p, 1-a)+
			math.Pow(1-p, a)*math.Pow(p, 1-a))/(a-1))
	}
	// Small releases: the leading terms, without cancellation.
	for _, x := range []float64{1e-3, 1e-6, 1e-9} {
		if got := pureRDP(2, x); math.Abs(got/(x*x)-1) > 1e-5 {
			t.Errorf("pure %g: %g, want about %g", x, got, x*x)
		}
		if got := laplaceRDP(2, 1/x); math.Abs(got/(x*x)-1) > 2*x {
			t.Errorf("laplace 1/%g: %g, want about %g", x, got, x*x)
		}
	}
	if lo, hi := laplaceRDP(2.5, 2.5/0.0499999), laplaceRDP(2.5, 2.5/0.0500001); math.Abs(hi/lo-1) > 1e-5 {
		t.Errorf("the two forms of laplace do not meet: %g and %g", lo, hi)
	}
}
