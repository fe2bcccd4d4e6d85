package metrics

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// bruteForce enumerates all signs of the ranks of |d|.
func bruteForce(d []float64) float64 {
	n := len(d)
	rank := func(i int) float64 {
		r := 1.0
		for j := range d {
			if math.Abs(d[j]) < math.Abs(d[i]) {
				r++
			}
		}
		return r
	}
	mean, seen := float64(n*(n+1))/4, 0.0
	for i, x := range d {
		if x > 0 {
			seen += rank(i)
		}
	}
	extreme := 0
	for signs := range 1 << n {
		s := 0.0
		for i := range d {
			if signs>>i&1 == 1 {
				s += rank(i)
			}
		}
		if math.Abs(s-mean) >= math.Abs(seen-mean) {
			extreme++
		}
	}
	return float64(extreme) / float64(int(1)<<n)
}

func TestWilcoxonIsExactForFewDifferences(t *testing.T) {
	r := rng.New(rng.Test, 1)
	for n := 1; n <= 12; n++ {
		d := make([]float64, n)
		for i := range d {
			d[i] = r.Norm() + 0.4
		}
		if got, want := Wilcoxon(d), bruteForce(d); math.Abs(got-want) > 1e-12 {
			t.Errorf("n = %d: p is %g, want %g", n, got, want)
		}
	}
	// A worked example: differences 6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60,
	// -67, 75 (Darwin's maize, Fisher 1935): W- = 24, exact two-sided p = 0.04126.
	if got := Wilcoxon([]float64{
		49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60,
		-48,
	}); math.Abs(got-0.04126) > 5e-5 {
		t.Errorf("Darwin's maize: p is %.5f, want 0.04126", got)
	}
}

func TestNormalApproximationIsNearExactValue(t *testing.T) {
	r := rng.New(rng.Test, 2)
	for range 20 {
		const n = 40
		d, plus := make([]float64, n), 0
		for i := range d { // the magnitudes are the ranks
			d[i] = float64(i + 1)
			if r.Uint32n(10) < 4 {
				d[i] = -d[i]
			} else {
				plus += i + 1
			}
		}
		if got, want := Wilcoxon(d), exactSignedRank(n, plus); math.Abs(got-want) > 0.006 {
			t.Errorf("p is %.4f by the approximation, %.4f exactly", got, want)
		}
	}
}

// Without an effect, a test at 5 % rejects in 5 % of cases. Over 2000 cases the fraction is
// within 1.9 percentage points of that, except with probability 1 in 10,000; the seed is fixed,
// so the test is deterministic.
func TestWilcoxonFalsePositiveRateOnHits(t *testing.T) {
	r := rng.New(rng.Test, 3)
	alarms := 0
	for range 2000 {
		d := make([]float64, 300)
		for i := range d { // the difference of two hit rates: -1, 0 or 1
			d[i] = float64(r.Uint32n(2)) - float64(r.Uint32n(2))
		}
		if Wilcoxon(d) < 0.05 {
			alarms++
		}
	}
	if share := float64(alarms) / 2000; math.Abs(share-0.05) > 0.019 {
		t.Errorf("%.1f %% false positives, want 5 %%", 100*share)
	}
	if Wilcoxon(nil) != 1 || Wilcoxon([]float64{0, 0}) != 1 {
		t.Error("p is not 1 for zero differences")
	}
}

func TestBootstrapCoversTheMean(t *testing.T) {
	r := rng.New(rng.Test, 4)
	covered := 0
	for k := range 200 {
		d := make([]float64, 150)
		for i := range d {
			d[i] = r.Norm() + 0.2
		}
		if lo, hi := Bootstrap(d, 400, uint64(k)); lo <= 0.2 && 0.2 <= hi {
			covered++
		}
	}
	if covered < 178 { // 95 % of 200 is 190; below 178 for about 1 in 10,000 seeds
		t.Errorf("the interval covers the mean in %d of 200 cases, want about 190", covered)
	}
}

func TestHolmMatchesWorkedExample(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("adjusted p %d is %g, want %g", i, got[i], want)
		}
	}
}
