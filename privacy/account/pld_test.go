package account

import (
	"math"
	"testing"
)

func sgm(q, z float64, rounds int64) Event {
	return Event{Mechanism: Gaussian, Adjacency: ZeroOut, Sampler: Poisson, Q: q, Noise: z, Rounds: rounds}
}

// oneRelease is the exact delta of one sampled Gaussian: the larger of the two
// directions, each with its threshold on the line.
func oneRelease(q, sigma, eps float64) float64 {
	up := func(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }
	mix := func(x float64) float64 { return (1-q)*up(x) + q*up(x-1/sigma) }
	at := func(m float64) float64 { return sigma*math.Log((m-1+q)/q) + 1/(2*sigma) } // where 1-q+q·e^.. is m
	x := at(math.Exp(eps))
	d := mix(x) - math.Exp(eps)*up(x)
	if m := math.Exp(-eps); m > 1-q {
		x = at(m)
		d = max(d, (1-up(x))-math.Exp(eps)*(1-mix(x)))
	}
	return d
}

func TestPLDOfOneReleaseIsExact(t *testing.T) {
	for _, q := range []float64{1e-3, 0.9} {
		for _, sigma := range []float64{0.4, 1, 20} {
			for _, delta := range []float64{1e-3, 1e-8} {
				r := epsilonOf(t, delta, Options{Accountant: PLD}, sgm(q, sigma, 1))
				lo, hi := 0.0, 200.0
				for range 100 {
					if mid := (lo + hi) / 2; oneRelease(q, sigma, mid) > delta {
						lo = mid
					} else {
						hi = mid
					}
				}
				// The oracle loses about 1e-15 in delta.
				if r.Epsilon < lo-1e-4*1e-9/delta || r.Epsilon > lo+1e-4+1e-4*lo {
					t.Errorf("q %g, sigma %g, delta %g: epsilon %.9g (%s), exactly %.9g", q, sigma, delta, r.Epsilon,
						r.Accountant, lo)
				}
			}
		}
	}
}

// fftGaussian sends plain Gaussians through the transform that the exact formula
// spares them.
func fftGaussian(sigma float64, rounds int64, delta float64) float64 {
	p := &part{event: Event{Mechanism: Gaussian, Adjacency: ZeroOut, Sampler: None, Q: 1, Noise: sigma, Rounds: rounds}}
	return pldEpsilon([]*part{p}, delta)
}

func TestPLDOfManyGaussiansIsExact(t *testing.T) {
	for _, sigma := range []float64{0.5, 30} {
		for _, rounds := range []int64{1, 1e6} {
			for _, delta := range []float64{0.1, 1e-12, 1e-40} {
				want := gaussianEpsilon(sigma/math.Sqrt(float64(rounds)), delta)
				got := fftGaussian(sigma, rounds, delta)
				if math.IsInf(got, 1) && want > 1000 {
					continue // far beyond what a grid is for; RDP serves
				}
				if got < want*(1-1e-9) || got > want+2e-4+2e-4*want {
					t.Errorf("sigma %g, %d rounds, delta %g: %.9g, exactly %.9g", sigma, rounds, delta, got, want)
				}
			}
		}
	}
}

// lowerBound is a delta that composed releases do exceed: losses rounded down to a
// grid, added up by plain convolution.
func lowerBound(q, sigma float64, rounds int, eps float64) float64 {
	const h, half = 0.004, 4000
	up := func(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }
	mix := func(x float64) float64 { return (1-q)*up(x) + q*up(x-1/sigma) }
	at := func(l float64) float64 {
		if m := (math.Exp(l) - 1 + q) / q; m > 0 {
			return sigma*math.Log(m) + 1/(2*sigma)
		}
		return math.Inf(-1)
	}
	one := make([]float64, 2*half)
	for i := range one {
		one[i] = mix(at(float64(i-half)*h)) - mix(at(float64(i-half+1)*h))
	}
	lo, hi := 0, len(one)-1 // what is cut off is lost, which only lowers the bound
	for one[lo] < 1e-18 {
		lo++
	}
	for one[hi] < 1e-18 {
		hi--
	}
	one = one[lo : hi+1]
	sum, first := []float64{1}, 0
	for range rounds {
		next := make([]float64, len(sum)+len(one)-1)
		for i, x := range sum {
			if x > 1e-18 {
				for j, y := range one {
					next[i+j] += x * y
				}
			}
		}
		sum, first = next, first+lo-half
	}
	d := 0.0
	for i, p := range sum {
		if l := float64(first+i) * h; l > eps {
			d -= p * math.Expm1(eps-l)
		}
	}
	return d
}

func TestPLDIsAboveALowerBoundAndNearIt(t *testing.T) {
	for _, c := range []struct {
		q, sigma float64
		rounds   int
	}{{0.1, 1, 5}, {0.3, 2, 8}, {0.02, 0.7, 4}, {0.6, 1.5, 3}} {
		for _, delta := range []float64{1e-3, 1e-6} {
			r := epsilonOf(t, delta, Options{Accountant: PLD}, sgm(c.q, c.sigma, int64(c.rounds)))
			if low := lowerBound(c.q, c.sigma, c.rounds, r.Epsilon); low > delta*(1+1e-9) {
				t.Errorf("%+v: epsilon %.6f claims delta %g, and it is %g at least", c, r.Epsilon, delta, low)
			}
			slack := 0.004*float64(c.rounds) + 1e-3
			if low := lowerBound(c.q, c.sigma, c.rounds, r.Epsilon-slack); low < delta {
				t.Errorf("%+v: epsilon %.6f is more than the truth plus %.3f", c, r.Epsilon, slack)
			}
		}
	}
}

func TestPLDAndRDPSayTheSameDeltaBothWays(t *testing.T) {
	for _, o := range []Options{{}, {Conversion: Classic}, {Accountant: PLD}} {
		for _, events := range [][]Event{
			{sgm(0.01, 1, 1000)},
			{sgm(0.1, 2, 50), sgm(0.02, 0.8, 10)},
			{{Mechanism: Laplace, Adjacency: AddRemove, Sampler: None, Noise: 5, Rounds: 80}},
			{{Mechanism: Gaussian, Adjacency: ReplaceOne, Sampler: None, Noise: 5, Rounds: 20}},
		} {
			for _, delta := range []float64{1e-3, 1e-7} {
				s := Spent{Options: o}
				for _, e := range events {
					if err := s.Spend(e); err != nil {
						t.Fatal(err)
					}
				}
				r, err := s.Epsilon(delta)
				if err != nil {
					t.Fatal(err)
				}
				back, err := s.Delta(r.Epsilon)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(math.Log(back.Delta/delta)) > 2e-3 {
					t.Errorf("%+v, %v: epsilon %g of delta %g has delta %g", o, events, r.Epsilon, delta, back.Delta)
				}
			}
		}
	}
}

func TestPLDComposesLaplaceAndResponse(t *testing.T) {
	// n answers of randomised response are right k times with binomial chances.
	const eps0, n = 0.3, 40
	delta := func(eps float64) float64 {
		d := 0.0
		for k := range n + 1 {
			if l := float64(2*k-n) * eps0; l > eps {
				d -= math.Exp(logChoose(n,
					k)-float64(k)*softplus(-eps0)-float64(n-k)*softplus(eps0)) * math.Expm1(eps-l)
			}
		}
		return d
	}
	r := epsilonOf(t, 1e-6, Options{Accountant: PLD}, Event{
		Mechanism: Pure, Adjacency: AddRemove, Sampler: None,
		Epsilon: eps0, Rounds: n,
	})
	if delta(r.Epsilon) > 1e-6 || delta(r.Epsilon-2e-3) < 1e-6 {
		t.Errorf("%d answers of epsilon %g: %.6f (%s), whose delta is %g", n, eps0, r.Epsilon, r.Accountant,
			delta(r.Epsilon))
	}
	// One Laplace release: δ = 1 - e^((ε-1/λ)/2).
	r = epsilonOf(t, 0.01, Options{Accountant: PLD}, Event{
		Mechanism: Laplace, Adjacency: AddRemove, Sampler: None,
		Noise: 2, Rounds: 1,
	})
	if want := 0.5 + 2*math.Log1p(-0.01); r.Epsilon < want-1e-9 || r.Epsilon > want+1e-4 {
		t.Errorf("one Laplace release of scale 2: %.9g, exactly %.9g", r.Epsilon, want)
	}
}
