package result

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// Comparison compares one run with the first by one metric, over the same users.
type Comparison struct {
	Run    string  `json:"run"`
	Metric string  `json:"metric"`
	Base   float64 `json:"base"`
	Value  float64 `json:"value"`
	Lo     float64 `json:"difference_lo"` // 95% bootstrap interval of the difference
	Hi     float64 `json:"difference_hi"`
	P      float64 `json:"p"`      // paired Wilcoxon
	PHolm  float64 `json:"p_holm"` // corrected for all comparisons
	Users  int     `json:"users"`
	// Verdict is "better" or "worse" if the test is significant and mean and ranks have the same sign, "mixed" if
	// they have not, and otherwise "no difference shown".
	Verdict string `json:"verdict"`
	ranks   int    // the sign of the signed ranks
}

// Mixed is the verdict if mean and ranks disagree.
const Mixed = "mixed"

func (c Comparison) verdict() string {
	switch {
	case c.PHolm >= 0.05:
		return "no difference shown"
	case disagrees(c.Value-c.Base, c.ranks):
		return Mixed
	case c.Value > c.Base:
		return "better"
	}
	return "worse"
}

// Compare compares every run with the first, over users. The runs must have the same data, protocol and seeds, so
// that each user was ranked against the same items. With several seeds, each user counts by its mean over them.
func Compare(runs []*Run) ([]Comparison, error) { return CompareAt(runs, 10) }

// CompareAt is Compare with the metrics at other list lengths. Those at 10 use the user scores of the runs, others the
// ranks, in which the held-out item loses every tie.
func CompareAt(runs []*Run, at ...int) ([]Comparison, error) {
	if len(runs) < 2 {
		return nil, errors.New("a comparison requires at least two runs")
	}
	base, out := runs[0], []Comparison(nil)
	for _, r := range runs {
		if r.Result == nil {
			return nil, fmt.Errorf("%s is a search, not a run; run its preset.toml", r.Dir)
		}
	}
	for _, r := range runs[1:] {
		if err := comparable(base, r); err != nil {
			return nil, err
		}
		for _, k := range at {
			cs, err := compareRun(base, r, k)
			if err != nil {
				return nil, fmt.Errorf("%s and %s: %w", base.Dir, r.Dir, err)
			}
			out = append(out, cs...)
		}
	}
	AdjustComparisons(out)
	return out, nil
}

// compareRun compares one run with the base by the metrics at k.
func compareRun(base, r *Run, k int) ([]Comparison, error) {
	beside := k == 10 && hasUserScores(base) && hasUserScores(r)
	var out []Comparison
	for m := range MetricNames {
		x, y := perUser(base, m, k, beside), perUser(r, m, k, beside)
		if len(x) == 0 || len(y) == 0 {
			continue
		}
		c, err := compareUsers(x, y)
		if err != nil {
			return nil, err
		}
		c.Run, c.Metric = RunName(r), strings.TrimSuffix(MetricNames[m], "10")+strconv.Itoa(k)
		out = append(out, c)
	}
	return out, nil
}

// CompareMethods is Compare for two methods with several seeds each; it returns nothing if user scores are missing.
func CompareMethods(base, other *Repeated) ([]Comparison, error) {
	run := func(m *Repeated) *Run {
		out := &Run{Dir: m.Runs[0].Method, Result: m.Runs[0]}
		for _, r := range m.Runs {
			out.Seeds = append(out.Seeds, &Run{Result: r})
		}
		return out
	}
	return Compare([]*Run{run(base), run(other)})
}

// AdjustComparisons applies Holm's correction for all comparisons and sets their verdicts.
func AdjustComparisons(cs []Comparison) {
	ps := make([]float64, len(cs))
	for i := range cs {
		ps[i] = cs[i].P
	}
	for i, p := range metrics.Holm(ps) {
		cs[i].PHolm = p
		cs[i].Verdict = cs[i].verdict()
	}
}

// RunName is the method and folder of a run.
func RunName(r *Run) string { return r.Result.Method + " (" + filepath.Base(r.Dir) + ")" }

// bootstraps is the number of resamples for an interval.
const bootstraps = 2000

func compareUsers(x, y map[string]float64) (Comparison, error) {
	if len(x) != len(y) {
		return Comparison{}, fmt.Errorf("evaluated on different users (%d and %d users)", len(x), len(y))
	}
	ids := make([]string, 0, len(x))
	for id := range x {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var c Comparison
	d := make([]float64, len(ids))
	for i, id := range ids {
		v, ok := y[id]
		if !ok {
			return c, fmt.Errorf("user %s was evaluated in only one of them", id)
		}
		d[i] = v - x[id]
		c.Base += x[id] / float64(len(ids))
		c.Value += v / float64(len(ids))
	}
	c.Users = len(ids)
	c.P, c.ranks = metrics.SignedRank(d)
	c.Lo, c.Hi = metrics.Bootstrap(d, bootstraps, 1)
	return c, nil
}

// comparable reports why two runs cannot be compared.
func comparable(a, b *Run) error {
	x, y := a.Result, b.Result
	switch {
	case x.DataHash != y.DataHash:
		return fmt.Errorf("%s uses %s and %s uses %s, or other rows of it; compare runs on the same data", a.Dir,
			x.Dataset, b.Dir,
			y.Dataset)
	case x.Protocol != y.Protocol:
		return fmt.Errorf("%s uses protocol %s and %s uses %s; compare runs under the same protocol", a.Dir,
			x.Protocol, b.Dir, y.Protocol)
	case x.TrainedUnder() != y.TrainedUnder():
		return fmt.Errorf("%s was trained under protocol %s and %s under %s; compare runs trained under the same "+
			"protocol", a.Dir, x.TrainedUnder(), b.Dir, y.TrainedUnder())
	case SeedList(a) != SeedList(b):
		return fmt.Errorf("%s has the seeds %s and %s has the seeds %s; compare runs with the same seeds, so that "+
			"users are ranked against the same items",
			a.Dir, SeedList(a), b.Dir, SeedList(b))
	}
	return nil
}

// SeedList lists the seeds of a run.
func SeedList(r *Run) string {
	var out []string
	for _, s := range EachSeed([]*Run{r}) {
		out = append(out, fmt.Sprint(s.Result.Seed))
	}
	return strings.Join(out, ", ")
}

// hasUserScores reports whether all seeds of a run have user scores, and not only ranks.
func hasUserScores(r *Run) bool {
	return !slices.ContainsFunc(EachSeed([]*Run{r}), func(s *Run) bool {
		return s.Result.UserScores == nil ||
			s.Result.UserScores.Of[methodKey] == nil
	})
}

// perUser returns metric m at k of each evaluated user, as a mean over the run's seeds, from the user scores or from
// the ranks. A user with several test items counts by their mean.
func perUser(r *Run, m, k int, beside bool) map[string]float64 {
	sum, n := map[string]float64{}, map[string]float64{}
	add := func(id string, x float64) {
		sum[id] += x
		n[id]++
	}
	for _, s := range EachSeed([]*Run{r}) {
		if b := s.Result.UserScores; beside {
			for u, id := range b.Users {
				if x := float64(b.Of[methodKey][m][u]); x == x {
					add(id, x)
				}
			}
			continue
		}
		if together(s.Result) {
			for id, own := range ranksTogether(s, m) {
				hit, _, gain := metrics.Together(own, k, metrics.Against)
				add(id, [2]float64{hit, gain}[m%2])
			}
			continue
		}
		for _, u := range s.Users {
			id, at := owner(s.Result, u.ID), u.TestRank
			if m >= 2 {
				at = u.TestFull
			}
			switch {
			case at == 0:
			case at > k:
				add(id, 0)
			case m%2 == 0:
				add(id, 1)
			default:
				add(id, 1/math.Log2(float64(at)+1))
			}
		}
	}
	for id := range n {
		sum[id] /= n[id]
	}
	return sum
}

// owner is the user of a line of ranks. If whole users are held out, each has several lines: ID/1, ID/2 and so on.
func owner(r *Result, id string) string {
	if at := strings.LastIndexByte(id, '/'); at >= 0 && r.Protocol == "privrec" {
		return id[:at]
	}
	return id
}

// together reports whether the test items of a user were ranked in one list. The user then has a line for each.
func together(r *Result) bool { return r.DataSettings["test-rows"] == "all" }

// ranksTogether returns the ranks of each user's test items, as metrics.Together reads them, for metric m.
func ranksTogether(r *Run, m int) map[string][]metrics.Rank {
	out := map[string][]metrics.Rank{}
	for _, u := range r.Users { // the lines of a user are in the order of ranks
		at := u.TestRank
		if m >= 2 {
			at = u.TestFull
		}
		if before := len(out[u.ID]); at > before {
			out[u.ID] = append(out[u.ID], metrics.Rank{Above: int32(at - 1 - before)})
		}
	}
	return out
}

// EachSeed returns the runs, with folders of several seeds expanded to one run per seed.
func EachSeed(runs []*Run) []*Run {
	var out []*Run
	for _, r := range runs {
		switch {
		case len(r.Seeds) > 0:
			out = append(out, r.Seeds...)
		case r.Result != nil:
			out = append(out, r)
		}
	}
	return out
}
