package metrics

import (
	"cmp"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// Wilcoxon returns the two-sided p-value of the signed-rank test (Wilcoxon 1945)
// that paired differences are symmetric about 0. Zeros are dropped, and ties get their mean
// rank. With at most 25 differences and no ties the value is exact; otherwise it is the normal
// approximation with corrections for ties and continuity. If all differences are zero it is 1.
func Wilcoxon(d []float64) float64 {
	p, _ := SignedRank(d)
	return p
}

// SignedRank is Wilcoxon with the sign of the effect: 1 if the rank sum of the positive
// differences is above its mean, -1 if below, otherwise 0. It can differ from the sign of the
// mean difference if few large differences oppose many small ones.
func SignedRank(d []float64) (p float64, side int) {
	xs := slices.DeleteFunc(slices.Clone(d), func(x float64) bool { return x == 0 })
	n := len(xs)
	if n == 0 {
		return 1, 0
	}
	slices.SortFunc(xs, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	plus, tied := 0.0, 0.0
	for lo := 0; lo < n; {
		hi := lo
		for hi < n && math.Abs(xs[hi]) == math.Abs(xs[lo]) {
			hi++
		}
		rank := float64(float64(lo+hi+1) / 2) // the mean of lo+1..hi
		for _, x := range xs[lo:hi] {
			if x > 0 {
				plus += rank
			}
		}
		t := float64(hi - lo)
		tied += float64(t*t*t) - t
		lo = hi
	}
	m := float64(n)
	mean := float64(m * (m + 1) / 4)
	side = cmp.Compare(plus, mean)
	if n <= 25 && tied == 0 {
		return exactSignedRank(n, int(plus)), side
	}
	sd := math.Sqrt(m*(m+1)*(float64(2*m)+1)/24 - tied/48)
	z := max(0, math.Abs(plus-mean)-0.5) / sd
	return math.Erfc(z / math.Sqrt2), side
}

// exactSignedRank is the probability that the rank sum of n fair signs is at least as far from
// its mean as plus.
func exactSignedRank(n, plus int) float64 {
	total := n * (n + 1) / 2
	ways := make([]float64, total+1) // by rank sum
	ways[0] = 1
	for r := 1; r <= n; r++ {
		for s := total; s >= r; s-- {
			ways[s] += ways[s-r]
		}
	}
	tail := 0.0
	for s := range min(plus, total-plus) + 1 {
		tail += ways[s]
	}
	return min(1, 2*tail/math.Ldexp(1, n))
}

// Bootstrap returns the 95 % percentile interval of the mean of d over resamples of the users
// (Efron 1979).
func Bootstrap(d []float64, resamples int, seed uint64) (lo, hi float64) {
	if len(d) == 0 {
		return math.NaN(), math.NaN()
	}
	means := make([]float64, resamples)
	r := rng.New(seed, rng.Bootstrap)
	for b := range means {
		s := 0.0
		for range d {
			s += d[r.Uint32n(uint32(len(d)))]
		}
		means[b] = s / float64(len(d))
	}
	slices.Sort(means)
	at := func(q float64) float64 { return means[min(resamples-1, int(q*float64(resamples)))] }
	return at(0.025), at(0.975)
}

// Holm returns p-values adjusted for multiple comparisons (Holm 1979), in the given order.
func Holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out, worst := make([]float64, len(ps)), 0.0
	for k, i := range order {
		worst = max(worst, min(1, float64(len(ps)-k)*ps[i]))
		out[i] = worst
	}
	return out
}
