package privacy

import (
	"math"
	"math/rand/v2"
	"testing"
)

func seeded(n byte) *Source { return NewSource(rand.NewChaCha8([32]byte{n})) }

// chi is the statistic of counts against probabilities, and the degrees of freedom;
// cells that expect fewer than 20 are put together.
func chi(counts map[int64]int, n int, p func(x int64) float64, reach int64) (x float64, df int) {
	rest, restP := n, 1.0
	for v := -reach; v <= reach; v++ {
		want := p(v) * float64(n)
		if want < 20 {
			continue
		}
		d := float64(counts[v]) - want
		x += d * d / want
		rest -= counts[v]
		restP -= p(v)
		df++
	}
	if want := restP * float64(n); want > 5 {
		d := float64(rest) - want
		x += d * d / want
	} else {
		df--
	}
	return x, df
}

// The false alarm rate of each case is below 1e-6: a chi-square variable of df
// degrees is above df + 6 sqrt(2 df) + 20 less often than that.
func TestNoiseHasItsExactDistribution(t *testing.T) {
	const n = 400_000
	for _, sigma := range []uint64{1, 2, 3, 10, 57} {
		s := seeded(byte(sigma))
		gauss, laplace := map[int64]int{}, map[int64]int{}
		for range n {
			gauss[s.gauss(sigma)]++
			laplace[s.laplace(sigma)]++
		}
		weights := func(f func(x float64) float64) func(int64) float64 {
			sum := 0.0
			for x := -4000; x <= 4000; x++ {
				sum += f(float64(x))
			}
			return func(x int64) float64 { return f(float64(x)) / sum }
		}
		sd := float64(sigma)
		for _, c := range []struct {
			name   string
			counts map[int64]int
			p      func(int64) float64
		}{
			{"gauss", gauss, weights(func(x float64) float64 { return math.Exp(-x * x / (2 * sd * sd)) })},
			{"laplace", laplace, weights(func(x float64) float64 { return math.Exp(-math.Abs(x) / sd) })},
		} {
			if x, df := chi(c.counts, n, c.p, 2000); x > float64(df)+6*math.Sqrt(2*float64(df))+20 {
				t.Errorf("%s of %d: chi-square %.1f with %d degrees of freedom", c.name, sigma, x, df)
			}
		}
	}
}

// With 200,000 draws the mean is within 6 of its standard errors but for a chance of 2e-9, and
// so is the variance.
func TestWideNoiseHasItsMoments(t *testing.T) {
	const n, sigma = 200_000, 1 << 20
	sum := make([]int64, n)
	seeded(9).AddGauss(sigma, sum)
	mean, square := 0.0, 0.0
	for _, x := range sum {
		mean += float64(x) / n
		square += float64(x) * float64(x) / n
	}
	if math.Abs(mean) > 6*sigma/math.Sqrt(n) {
		t.Errorf("the mean is %.0f", mean)
	}
	if r := square / (sigma * sigma); math.Abs(r-1) > 6*math.Sqrt(2.0/n) {
		t.Errorf("the variance is %.4f of what it should be", r)
	}
}

func TestNoiseBeyondItsExactRangeIsRefused(t *testing.T) {
	for _, sigma := range []int64{-1, maxSigma + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("noise of deviation %d was drawn", sigma)
				}
			}()
			seeded(1).AddGauss(sigma, make([]int64, 1))
		}()
	}
}

func BenchmarkGauss(b *testing.B) {
	s, sum := seeded(1), make([]int64, 1682*32)
	b.ReportAllocs()
	for b.Loop() {
		s.AddGauss(1<<20, sum)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(sum)), "ns/number")
}
