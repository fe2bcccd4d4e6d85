package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// tolerance is how far, as a fraction, a mean may be from a published number
// and still count as that number: 1.5 points.
const tolerance = 0.015

// oneSeed is how far, as a fraction, one seed has to be from a published number
// before that counts as not reproduced.
const oneSeed = 0.03

// scores are the test metrics that a table shows, NaN where there is none.
type scores [4]float64

// spreads are scores over several runs.
type spreads [4]spread

var scoreNames = [4]string{"sampled HR@10", "sampled NDCG@10", "full HR@10", "full NDCG@10"}

// at returns a metric, or NaN.
func at(m map[string]float64, key string) float64 {
	if v, ok := m[key]; ok {
		return v
	}
	return math.NaN()
}

func scoresOf(s *metrics.Summary) scores {
	if s == nil {
		s = new(metrics.Summary)
	}
	return scores{at(s.Sampled, "hr@10"), at(s.Sampled, "ndcg@10"), at(s.Full, "hr@10"), at(s.Full, "ndcg@10")}
}

// spreadOf is the mean and the standard deviation of a sample (n-1), without
// the values that are not there.
func spreadOf(xs []float64) spread {
	s := spread{mean: math.NaN()}
	sum := 0.0
	for _, x := range xs {
		if !math.IsNaN(x) {
			s.n++
			sum += x
		}
	}
	if s.n == 0 {
		return s
	}
	s.mean = sum / float64(s.n)
	sum = 0
	for _, x := range xs {
		if !math.IsNaN(x) {
			sum += (x - s.mean) * (x - s.mean)
		}
	}
	if s.n > 1 {
		s.sd = math.Sqrt(sum / float64(s.n-1))
	}
	return s
}

func spreadsOf(all []scores) spreads {
	var out spreads
	for i := range out {
		xs := make([]float64, len(all))
		for j, s := range all {
			xs[j] = s[i]
		}
		out[i] = spreadOf(xs)
	}
	return out
}

// Repeat puts runs that differ in their seed together. The metrics are those
// that all runs have; SD is that of a sample, and 0 for one run.
func Repeat(runs []*Result) *Many {
	m := &Many{Runs: runs, Versus: Against(runs)}
	m.Mean.Valid, m.SD.Valid = over(runs, func(r *Result) metrics.Summary { return r.Valid })
	m.Mean.Test, m.SD.Test = over(runs, func(r *Result) metrics.Summary { return r.Test })
	return m
}

// over takes mean and standard deviation of every metric that all runs have.
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
			s := spreadOf(xs)
			mean[k], sd[k] = s.mean, s.sd
		}
		return mean, sd
	}
	mean.Sampled, sd.Sampled = part(func(s metrics.Summary) map[string]float64 { return s.Sampled })
	mean.Full, sd.Full = part(func(s metrics.Summary) map[string]float64 { return s.Full })
	return mean, sd
}

// isPaper reports whether some paper used the protocol: these three are ours.
func isPaper(protocol string) bool {
	return protocol != "isolated" && protocol != "deployed" && protocol != "temporal"
}

// under reports whether a published number may stand beside one that was measured
// under the protocol.
func (p *Published) under(protocol string) bool {
	return p != nil && cmp.Or(p.Protocol, "paper") == protocol
}

// gap is how far we are from a published number, as fractions; NaN for none.
type gap struct{ hr, ndcg float64 }

func gapOf(s spreads, p *Published) gap {
	return gap{s[0].mean - published(p.HR10), s[1].mean - published(p.NDCG10)}
}

// published is a number of a paper; one that it does not give is 0 in a file.
func published(x float64) float64 {
	if x == 0 {
		return math.NaN()
	}
	return x
}

// verdict holds both metrics against the tolerance. One seed is no verdict unless
// it is far off.
func (g gap) verdict(seeds int) string {
	var off []string
	far, below := false, false
	for _, m := range []struct {
		by   float64
		name string
	}{{g.hr, "HR@10"}, {g.ndcg, "NDCG@10"}} {
		if math.Abs(m.by) > tolerance+1e-9 {
			off = append(off, points(m.by)+" points "+m.name)
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
	case len(off) > 0: // not the same number either, but nothing is missing
		return "above the published number: " + words
	case math.IsNaN(g.hr) && math.IsNaN(g.ndcg):
		return "nothing to compare"
	}
	return fmt.Sprintf("within %g points", 100*tolerance)
}

// leakWord is how a protocol is told to people. Data that repeats pairs gives the
// test item away without a leak of the protocol.
func leakWord(leaks, repeats bool) string {
	switch {
	case leaks:
		return "leaks"
	case repeats:
		return "does not leak, but repeats"
	}
	return "does not leak"
}
