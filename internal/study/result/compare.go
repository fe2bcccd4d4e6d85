package result

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// Comparison is one run against the first, by one metric, over the same users.
type Comparison struct {
	Run    string  `json:"run"`
	Metric string  `json:"metric"`
	Base   float64 `json:"base"`
	Value  float64 `json:"value"`
	Lo     float64 `json:"difference_lo"` // 95 % bootstrap interval of the difference
	Hi     float64 `json:"difference_hi"`
	P      float64 `json:"p"`      // paired Wilcoxon
	PHolm  float64 `json:"p_holm"` // adjusted for all contrasts of the comparison
	Users  int     `json:"users"`
	// Verdict is "better" or "worse" only where the test says so, and the mean is on the
	// side of the ranks; else it is "mixed".
	Verdict string `json:"verdict"`
	ranks   int    // the side of the signed ranks
}

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

// Compare sets every run against the first, over users. The runs must be of the
// same data, protocol and seeds: then each user was ranked against the same items.
// Runs of several seeds count with each user's mean over them.
func Compare(runs []*Run) ([]Comparison, error) {
	if len(runs) < 2 {
		return nil, errors.New("report: a comparison needs two runs or more")
	}
	base, out := runs[0], []Comparison(nil)
	for _, r := range runs {
		if r.Result == nil {
			return nil, fmt.Errorf("report: %s is a search and no run; run its preset.toml", r.Dir)
		}
	}
	for _, r := range runs[1:] {
		if err := comparable(base, r); err != nil {
			return nil, err
		}
		beside := hasUserScores(base) && hasUserScores(r)
		for m := range MetricNames {
			x, y := perUser(base, m, beside), perUser(r, m, beside)
			if len(x) == 0 || len(y) == 0 {
				continue
			}
			c, err := compareUsers(x, y)
			if err != nil {
				return nil, fmt.Errorf("report: %s and %s: %w", base.Dir, r.Dir, err)
			}
			c.Run, c.Metric = RunName(r), MetricNames[m]
			out = append(out, c)
		}
	}
	AdjustComparisons(out)
	return out, nil
}

// CompareMethods is Compare for a method against another, each with its seeds; nothing where
// the metrics of their users are not at hand.
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

// AdjustComparisons corrects the tests for having looked at all of them, and judges them.
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

func RunName(r *Run) string { return r.Result.Method + " (" + filepath.Base(r.Dir) + ")" }

// bootstraps is the number of resamples of an interval.
const bootstraps = 2000

func compareUsers(x, y map[string]float64) (Comparison, error) {
	if len(x) != len(y) {
		return Comparison{}, fmt.Errorf("%d users and %d users were evaluated", len(x), len(y))
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
			return c, fmt.Errorf("user %s was evaluated in one only", id)
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

// comparable says why two runs cannot be compared.
func comparable(a, b *Run) error {
	x, y := a.Result, b.Result
	switch {
	case x.DataHash != y.DataHash:
		return fmt.Errorf("report: %s is on %s and %s on %s, or on other rows of it", a.Dir, x.Dataset, b.Dir,
			y.Dataset)
	case x.Protocol != y.Protocol:
		return fmt.Errorf("report: %s is under protocol %s and %s under %s", a.Dir, x.Protocol, b.Dir, y.Protocol)
	case SeedList(a) != SeedList(b):
		return fmt.Errorf("report: %s has the seeds %s and %s has %s: users would be ranked against other items",
			a.Dir, SeedList(a), b.Dir, SeedList(b))
	}
	return nil
}

func SeedList(r *Run) string {
	var out []string
	for _, s := range EachSeed([]*Run{r}) {
		out = append(out, fmt.Sprint(s.Result.Seed))
	}
	return strings.Join(out, ", ")
}

// hasUserScores reports whether all seeds of a run have the metrics of each user, and not
// only ranks.
func hasUserScores(r *Run) bool {
	return !slices.ContainsFunc(EachSeed([]*Run{r}), func(s *Run) bool {
		return s.Result.UserScores == nil ||
			s.Result.UserScores.Of[methodKey] == nil
	})
}

// perUser is metric m of each evaluated user, as a mean over the run's seeds: as the
// run tells it beside the references, or from the ranks. A user with several test items
// counts by their mean.
func perUser(r *Run, m int, beside bool) map[string]float64 {
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
		for _, u := range s.Users {
			id, at := owner(s.Result, u.ID), u.TestRank
			if m >= 2 {
				at = u.TestFull
			}
			switch {
			case at == 0:
			case at > 10:
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

// owner is the user of a line of ranks: where users are held out whole each has several
// lines, ID/1, ID/2 and so on.
func owner(r *Result, id string) string {
	if at := strings.LastIndexByte(id, '/'); at >= 0 && r.Protocol == "privrec" {
		return id[:at]
	}
	return id
}

// EachSeed gives the runs of folders with several seeds each for itself.
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
