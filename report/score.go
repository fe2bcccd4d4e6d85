package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/rank"
)

// tolerance is how far, as a fraction, a mean may be from a published number
// and still count as that number: 1.5 points.
const tolerance = 0.015

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

func scoresOf(s *rank.Summary) scores {
	if s == nil {
		s = new(rank.Summary)
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
	m := &Many{Runs: runs}
	m.Mean.Valid, m.SD.Valid = over(runs, func(r *Result) rank.Summary { return r.Valid })
	m.Mean.Test, m.SD.Test = over(runs, func(r *Result) rank.Summary { return r.Test })
	return m
}

// over takes mean and standard deviation of every metric that all runs have.
func over(runs []*Result, of func(*Result) rank.Summary) (mean, sd rank.Summary) {
	part := func(pick func(rank.Summary) map[string]float64) (mean, sd map[string]float64) {
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
	mean.Sampled, sd.Sampled = part(func(s rank.Summary) map[string]float64 { return s.Sampled })
	mean.Full, sd.Full = part(func(s rank.Summary) map[string]float64 { return s.Full })
	return mean, sd
}

// isPaper reports whether a published number may stand beside one that was
// measured under the protocol: these three are ours, and no paper used them.
func isPaper(protocol string) bool {
	return protocol != "isolated" && protocol != "deployed" && protocol != "temporal"
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

// verdict holds both metrics against the tolerance.
func (g gap) verdict() string {
	var off []string
	if math.Abs(g.hr) > tolerance+1e-9 {
		off = append(off, points(g.hr)+" points HR@10")
	}
	if math.Abs(g.ndcg) > tolerance+1e-9 {
		off = append(off, points(g.ndcg)+" points NDCG@10")
	}
	switch {
	case len(off) > 0:
		return "not reproduced: off by " + strings.Join(off, " and ")
	case math.IsNaN(g.hr) && math.IsNaN(g.ndcg):
		return "nothing to compare"
	}
	return fmt.Sprintf("within %g points", 100*tolerance)
}

// leakWord is how a protocol is told to people.
func leakWord(leaks bool) string {
	if leaks {
		return "leaks"
	}
	return "does not leak"
}

// refNames are the references that every report carries, in order.
var refNames = []struct{ key, name string }{
	{"popularity", "popularity"}, {"ease", "EASE"}, {"local", "local-only"}, {"memoriser", "memoriser"},
}

// refKeys are the references of any run: the four, and what else there is.
func refKeys(rows []*row) []string {
	more := map[string]bool{}
	for _, r := range rows {
		for _, run := range r.runs {
			for k := range run.Result.References {
				more[k] = true
			}
		}
	}
	var keys []string
	for _, n := range refNames {
		keys = append(keys, n.key)
		delete(more, n.key)
	}
	return append(keys, slices.Sorted(maps.Keys(more))...)
}

// refRow is a reference as a line of a table.
type refRow struct {
	name   string
	scores spreads
	reason string // why there is none
	about  string
}

// refRows are the references of rows that share a table.
func refRows(rows []*row) []refRow {
	var out []refRow
	for _, key := range refKeys(rows) {
		if key != "local" {
			out = append(out, pool(key, rows))
			continue
		}
		// Local training is that of the method, so each row has its own; the others
		// depend on the data alone.
		var own []refRow
		for _, r := range rows {
			l := pool(key, []*row{r})
			if len(rows) > 1 {
				l.name += " (" + r.label + ")"
			}
			same := func(o refRow) bool { return fmt.Sprint(o.scores) == fmt.Sprint(l.scores) && o.reason == l.reason }
			if !slices.ContainsFunc(own, same) {
				own = append(own, l)
			}
		}
		if len(own) == 1 {
			own[0].name = refName(key)
		}
		out = append(out, own...)
	}
	return out
}

func refName(key string) string {
	for _, n := range refNames {
		if n.key == key {
			return n.name
		}
	}
	return clip(key, 40)
}

// pool is a reference over the seeds of rows. A value that a seed gives twice
// counts once.
func pool(key string, rows []*row) refRow {
	type one struct {
		seed uint64
		scores
	}
	out := refRow{name: refName(key)}
	seen := map[one]bool{}
	var all []scores
	for _, r := range rows {
		for _, run := range r.runs {
			ref := run.Result.References[key]
			if ref == nil {
				continue
			}
			out.about = cmp.Or(out.about, ref.About)
			if ref.Test == nil {
				out.reason = cmp.Or(out.reason, ref.Reason)
				continue
			}
			s := one{run.Result.Seed, scoresOf(ref.Test)}
			id := s
			for i, x := range id.scores {
				if math.IsNaN(x) {
					id.scores[i] = -1 // NaN is no key
				}
			}
			if !seen[id] {
				seen[id] = true
				all = append(all, s.scores)
			}
		}
	}
	if out.scores = spreadsOf(all); len(all) > 0 {
		out.reason = ""
		for i, s := range out.scores {
			if s.sd == 0 { // the seed has no say in it
				out.scores[i].n = min(s.n, 1)
			}
		}
	} else {
		out.reason = cmp.Or(out.reason, "not computed")
	}
	return out
}
