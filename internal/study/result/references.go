package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/format"
)

// Versus compares the method with a reference: paired Wilcoxon tests over the users that both were measured on, at
// the reported round. Each user counts by its mean over the seeds.
type Versus struct {
	Users   int                   `json:"users"`
	Sampled map[string]PairedTest `json:"sampled"` // by metric: "hr@10", "ndcg@10"
	Full    map[string]PairedTest `json:"full"`    // nil if the protocol has no full ranking
	// Verdict is by the sampled metrics: "better than NAME" or "worse than NAME" only if the tests are significant,
	// otherwise "no better than NAME". "mixed against NAME" means that mean and ranks have different signs.
	Verdict string `json:"verdict"`
}

// PairedTest is one test.
type PairedTest struct {
	Difference float64 `json:"difference"` // the method less the reference, as a fraction
	P          float64 `json:"p"`
	PHolm      float64 `json:"p_holm"` // adjusted for all references and metrics of the method
	// Ranks is the sign of the signed ranks, which P tests: 1 above, -1 below, 0 for neither or unknown.
	Ranks int `json:"ranks,omitempty"`
}

// SignificanceLevel is the corrected p below which a method differs from a reference.
const SignificanceLevel = 0.01

// mixed reports a significant difference whose mean has the opposite sign.
func (p PairedTest) mixed() bool {
	return p.PHolm < SignificanceLevel && disagrees(p.Difference, p.Ranks)
}

// disagrees reports whether a mean difference and its signed ranks have different signs; ranks of 0 never do.
func disagrees(mean float64, ranks int) bool { return ranks != 0 && cmp.Compare(mean, 0) != ranks }

// Sign is 1 if the method is significantly above, by its mean and its ranks, -1 if it is below, otherwise 0.
func (p PairedTest) Sign() int {
	switch {
	case !(p.PHolm < SignificanceLevel) || p.mixed():
		return 0
	case p.Difference > 0:
		return 1
	}
	return -1
}

// Metric returns a test by its index in MetricNames; false if it was not made.
func (v *Versus) Metric(m int) (PairedTest, bool) {
	of := v.Sampled
	if m >= 2 {
		of = v.Full
	}
	p, ok := of[metricKeys[m%2]]
	return p, ok
}

var metricKeys = [2]string{"hr@10", "ndcg@10"}

// Phrase is the verdict with %s in place of the reference.
func (v *Versus) Phrase() string {
	hr, ndcg := v.Sampled["hr@10"].Sign(), v.Sampled["ndcg@10"].Sign()
	by := "HR@10"
	if hr == 0 {
		by = "NDCG@10"
	}
	switch {
	case hr > 0 && ndcg > 0:
		return "better than %s"
	case hr < 0 && ndcg < 0:
		return "worse than %s"
	case hr == 0 && ndcg == 0 && (v.Sampled["hr@10"].mixed() || v.Sampled["ndcg@10"].mixed()):
		return "mixed against %s (mean and ranks disagree)"
	case hr == 0 && ndcg == 0:
		return "no better than %s"
	case hr > 0 && ndcg < 0:
		return "better than %s by HR@10, worse by NDCG@10"
	case hr < 0 && ndcg > 0:
		return "better than %s by NDCG@10, worse by HR@10"
	case hr+ndcg > 0:
		return "better than %s by " + by + " alone"
	}
	return "no better than %s, and worse by " + by
}

// VersusReferences compares a method with each of its references, over the users of runs that differ only in their
// seed. It returns nil unless all runs have user scores.
func VersusReferences(runs []*Result) map[string]*Versus {
	keys := map[string]bool{}
	for _, r := range runs {
		if r.UserScores == nil {
			return nil
		}
		for k := range r.UserScores.Of {
			keys[k] = true
		}
	}
	delete(keys, methodKey)
	type test struct {
		key    string
		metric int
		PairedTest
	}
	var tests []test
	var ps []float64
	out := map[string]*Versus{}
	for _, key := range SortReferences(keys) {
		v := &Versus{Sampled: map[string]PairedTest{}}
		for m := range MetricNames {
			d := differences(runs, key, m)
			if len(d) == 0 {
				continue
			}
			t := test{key, m, PairedTest{Difference: mean(d)}}
			t.P, t.Ranks = metrics.SignedRank(d)
			tests, ps = append(tests, t), append(ps, t.P)
			v.Users = max(v.Users, len(d))
		}
		if v.Users > 0 {
			out[key] = v
		}
	}
	for i, p := range metrics.Holm(ps) {
		t, v := tests[i], out[tests[i].key]
		t.PHolm = p
		if t.metric >= 2 {
			if v.Full == nil {
				v.Full = map[string]PairedTest{}
			}
			v.Full[metricKeys[t.metric-2]] = t.PairedTest
		} else {
			v.Sampled[metricKeys[t.metric]] = t.PairedTest
		}
	}
	for key, v := range out {
		v.Verdict = fmt.Sprintf(v.Phrase(), ReferenceTitle(key))
	}
	return out
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// SortReferences returns the standard references first, then the others by name.
func SortReferences(keys map[string]bool) []string {
	var out, more []string
	for _, n := range ReferenceNames {
		if keys[n.Key] {
			out = append(out, n.Key)
		}
	}
	for k := range keys {
		if !slices.Contains(out, k) {
			more = append(more, k)
		}
	}
	slices.Sort(more)
	return append(out, more...)
}

// differences returns the difference of metric m for each user: of the means over the runs in which both were
// measured.
func differences(runs []*Result, key string, m int) []float64 {
	at := map[string]int{}
	var sum, n []float64
	for _, r := range runs {
		own, ref := r.UserScores.Of[methodKey], r.UserScores.Of[key]
		if own == nil || ref == nil {
			continue
		}
		for u, id := range r.UserScores.Users {
			d := float64(own[m][u]) - float64(ref[m][u])
			if math.IsNaN(d) {
				continue
			}
			i, seen := at[id]
			if !seen {
				i = len(sum)
				at[id], sum, n = i, append(sum, 0), append(n, 0)
			}
			sum[i] += d
			n[i]++
		}
	}
	for i := range sum {
		sum[i] /= n[i]
	}
	return sum
}

// check reports the first invalid value of a loaded test.
func (v *Versus) check() error {
	if v == nil {
		return nil
	}
	if v.Users < 0 || len(v.Verdict) > maxName {
		return fmt.Errorf("users is %d and verdict has %d bytes, expected 0 or more and at most %d", v.Users,
			len(v.Verdict), maxName)
	}
	for m, name := range MetricNames {
		if p, ok := v.Metric(m); ok && !(p.P >= 0 && p.P <= 1 && p.PHolm >= 0 && p.PHolm <= 1) {
			return fmt.Errorf("%s has p %g and %g, expected 0 to 1", name, p.P, p.PHolm)
		}
	}
	return nil
}

// ReferenceNames are the references that every report shows, in order.
var ReferenceNames = []ReferenceName{
	{"popularity", "popularity", "p"},
	{"ease", "EASE", "e"},
	{"local", "local-only", "l"},
	{"memoriser", "memoriser", "m"},
}

// ReferenceName is how a reference is called: its key in result.json, its name in tables, and the letter that
// marks methods above it.
type ReferenceName struct{ Key, Name, Letter string }

// ReferenceTitle returns the name of a reference in tables.
func ReferenceTitle(key string) string {
	for _, n := range ReferenceNames {
		if n.Key == key {
			return n.Name
		}
	}
	return format.Clip(key, 40)
}
