package result

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/format"
)

// Tolerance is the largest difference, as a fraction, at which a mean counts as the published metric: 1.5 points.
const Tolerance = 0.015

// oneSeed is the smallest difference, as a fraction, at which a single seed counts as not reproduced.
const oneSeed = 0.03

// Scores are the test metrics that tables show, in the order of MetricNames; NaN if not measured.
type Scores [4]float64

// MetricNames are the names of the Scores.
var MetricNames = [4]string{"sampled HR@10", "sampled NDCG@10", "full HR@10", "full NDCG@10"}

// MetricOf returns a metric, or NaN.
func MetricOf(m map[string]float64, key string) float64 {
	if v, ok := m[key]; ok {
		return v
	}
	return math.NaN()
}

// ScoresOf returns the scores of a summary, which may be nil.
func ScoresOf(s *metrics.Summary) Scores {
	if s == nil {
		s = new(metrics.Summary)
	}
	return Scores{
		MetricOf(s.Sampled, "hr@10"), MetricOf(s.Sampled, "ndcg@10"), MetricOf(s.Full, "hr@10"),
		MetricOf(s.Full, "ndcg@10"),
	}
}

// Spread is a mean over N runs with its standard deviation; N is 0 if nothing was measured.
type Spread struct {
	Mean, SD float64
	N        int
}

// SpreadOf returns the mean and the sample standard deviation (n-1) of xs, ignoring NaN.
func SpreadOf(xs []float64) Spread {
	s := Spread{Mean: math.NaN()}
	sum := 0.0
	for _, x := range xs {
		if !math.IsNaN(x) {
			s.N++
			sum += x
		}
	}
	if s.N == 0 {
		return s
	}
	s.Mean = sum / float64(s.N)
	sum = 0
	for _, x := range xs {
		if !math.IsNaN(x) {
			sum += (x - s.Mean) * (x - s.Mean)
		}
	}
	if s.N > 1 {
		s.SD = math.Sqrt(sum / float64(s.N-1))
	}
	return s
}

// CombineSeeds combines runs that differ only in their seed. The metrics are those that all runs have; SD is that
// of a sample, and 0 for one run.
func CombineSeeds(runs []*Result) *Repeated {
	m := &Repeated{Schema: Schema, Runs: runs, Versus: VersusReferences(runs)}
	m.Mean.Valid, m.SD.Valid = over(runs, func(r *Result) metrics.Summary { return r.Valid })
	m.Mean.Test, m.SD.Test = over(runs, func(r *Result) metrics.Summary { return r.Test })
	return m
}

// over returns the mean and standard deviation of every metric that all runs have.
func over(runs []*Result, of func(*Result) metrics.Summary) (mean, sd metrics.Summary) {
	part := func(pick func(metrics.Summary) map[string]float64) (mean, sd map[string]float64) {
		values := map[string][]float64{}
		for _, r := range runs {
			for k, v := range pick(of(r)) {
				values[k] = append(values[k], v)
			}
		}
		for k, xs := range values {
			if len(xs) != len(runs) {
				continue
			}
			if mean == nil {
				mean, sd = map[string]float64{}, map[string]float64{}
			}
			s := SpreadOf(xs)
			mean[k], sd[k] = s.Mean, s.SD
		}
		return mean, sd
	}
	mean.Sampled, sd.Sampled = part(func(s metrics.Summary) map[string]float64 { return s.Sampled })
	mean.Full, sd.Full = part(func(s metrics.Summary) map[string]float64 { return s.Full })
	return mean, sd
}

// ComparableUnder reports whether published metrics are comparable with those measured under the protocol. It is
// false for nil.
func (p *Published) ComparableUnder(protocol string) bool {
	return p != nil && cmp.Or(p.Protocol, "paper") == protocol
}

// Gap is the difference from published metrics, as fractions; NaN if there is nothing to compare.
type Gap struct{ HR, NDCG float64 }

// GapTo returns the difference of our metrics from the published ones.
func GapTo(p *Published, hr, ndcg float64) Gap {
	return Gap{hr - PublishedMetric(p.HR10), ndcg - PublishedMetric(p.NDCG10)}
}

// PublishedMetric returns x, or NaN for 0, which stands for a metric that the paper does not give.
func PublishedMetric(x float64) float64 {
	if x == 0 {
		return math.NaN()
	}
	return x
}

// Verdict compares both metrics with the tolerance. A single seed is not judged unless it is far off.
func (g Gap) Verdict(seeds int) string {
	var off []string
	far, below := false, false
	for _, m := range []struct {
		by   float64
		name string
	}{{g.HR, "HR@10"}, {g.NDCG, "NDCG@10"}} {
		if math.Abs(m.by) > Tolerance+1e-9 {
			off = append(off, format.Points(m.by)+" points "+m.name)
			far = far || math.Abs(m.by) >= oneSeed
			below = below || m.by < 0
		}
	}
	words := strings.Join(off, " and ")
	switch {
	case len(off) > 0 && seeds == 1 && !far:
		if len(off) == 1 {
			words = strings.TrimSuffix(words, " HR@10")
		}
		return "off by " + words + " with one seed; seeds move HR@10 by about a point, try --seeds 5"
	case len(off) > 0 && below:
		return "not reproduced: off by " + words
	case len(off) > 0:
		return "above the published number: " + words
	case math.IsNaN(g.HR) && math.IsNaN(g.NDCG):
		return "nothing to compare"
	}
	return fmt.Sprintf("within %g points", 100*Tolerance)
}
