package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// fewCandidates is the number of sampled items that a held-out item is ranked against, unless the user has seen
// too many items.
const fewCandidates = 99

// usersOf is the number of users of sampled metrics; 0 if unknown.
func usersOf(s *metrics.Summary) int {
	if v := result.MetricOf(s.Sampled, "users"); v > 0 && v <= math.MaxInt32 {
		return int(v)
	}
	return 0
}

// repeats reports whether the data reveals the test item of more than 1% of the users, so that titles say it.
func repeats(r *result.Result) bool {
	return r.TestItemsInTrain > 0 && r.TestItemsInTrain > r.Users/100
}

// extent is the minimum and the maximum over the runs of a row.
func (r *row) extent(of func(*result.Result) int) (lo, hi int) {
	lo = math.MaxInt
	for _, run := range r.runs {
		lo, hi = min(lo, of(run.Result)), max(hi, of(run.Result))
	}
	return lo, hi
}

// caveats returns the sentences about the users and candidates that a row was measured on.
func caveats(r *row) []string {
	var out []string
	if s := evaluatedNote(r.runs[0].Result); s != "" {
		out = append(out, s)
	}
	users := r.runs[0].Result.Users
	if _, n := r.extent(func(r *result.Result) int { return r.EvaluatedSample }); n > 0 {
		out = append(out, fmt.Sprintf("Evaluated on a sample of %s of %s (--eval-users all evaluates all).",
			format.Count(n), format.Plural(users, "user")))
	} else if lo, hi := r.extent(func(r *result.Result) int { return usersOf(&r.Test) }); hi > 0 && lo < users {
		s := fmt.Sprintf("Tested on %s of %s", counts(lo, hi), format.Plural(users, "user"))
		if lo, hi := r.extent(func(r *result.Result) int { return usersOf(&r.Valid) }); hi > 0 {
			s += fmt.Sprintf(" (%s in validation)", counts(lo, hi))
		}
		out = append(out, s+".")
	}
	if lo, hi := r.extent(func(r *result.Result) int { return r.TestItemsInTrain }); hi > 0 {
		next := "--dedup first keeps one row of each pair."
		if r.runs[0].Result.DataSettings["test-file"] != nil {
			next = "Remove these rows from one of the files: --dedup works within a file."
		}
		out = append(out, fmt.Sprintf("For %s of %s the test item is also among the train rows, because the data "+
			"repeats pairs of user and item. This rewards models that memorise. %s", counts(lo, hi),
			format.Plural(users, "user"), next))
	}
	if lo, hi := r.extent(func(r *result.Result) int { return r.FewCandidates }); hi > 0 {
		out = append(out, fmt.Sprintf("%s %s ranked against fewer than %d items.", plurals(lo, hi, "user"),
			verb(hi, "is", "are"), fewCandidates))
	}
	if lo, hi := r.extent(func(r *result.Result) int { return r.IdleDevices }); hi > 0 {
		out = append(out, fmt.Sprintf("%s %s no training data under this protocol.", plurals(lo, hi, "device"),
			verb(hi, "has", "have")))
	}
	return out
}

// evaluatedNote says what tacit evaluate evaluated; empty for a run.
func evaluatedNote(r *result.Result) string {
	e := r.Evaluated
	if e == nil {
		return ""
	}
	s := fmt.Sprintf("Evaluated again without training: the model of %s, round %d.",
		format.Clip(format.Clean(e.Run), 80), e.Round)
	if e.OtherNegatives {
		s += fmt.Sprintf(" It was trained under protocol %s, whose rule for negatives differs: compare it only with "+
			"models that were trained so.", format.Clip(format.Clean(e.Protocol), 40))
	}
	if e.Tuned {
		s += " Devices trained once more on the last model before scoring, as they do when they recommend."
	}
	return s
}

// sharedCaveats returns the caveats of rows in one table; those of all rows name no row.
func sharedCaveats(rows []*row) []string {
	var said rowNotes
	for _, r := range rows {
		for _, s := range caveats(r) {
			said.add(r.name(), s)
		}
	}
	var out []string
	for i, line := range said.lines() {
		if s := said.order[i]; len(said.names[s]) == len(rows) {
			line = s
		}
		out = append(out, line)
	}
	return out
}

// counts writes a number that differs between runs.
func counts(lo, hi int) string {
	if lo == hi {
		return format.Count(lo)
	}
	return format.Count(lo) + " to " + format.Count(hi)
}

// plurals is plural for a number that differs between runs.
func plurals(lo, hi int, noun string) string {
	if lo == hi {
		return format.Plural(lo, noun)
	}
	return format.Count(lo) + " to " + format.Plural(hi, noun)
}

func verb(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// choiceNote says how the program chose the settings; empty if it did not.
func choiceNote(c *result.Choice) string {
	if c == nil || c.Chosen < 0 || c.Chosen >= len(c.Tried) {
		return ""
	}
	var tried []string
	for _, t := range c.Tried {
		tried = append(tried, fmt.Sprintf("%s (%s)", t.Settings, format.Fraction(t.NDCG)))
	}
	return fmt.Sprintf("Settings: %s, the best by %s on the validation items of seed %d (never on test) among: %s. "+
		"The search took %s.",
		c.Tried[c.Chosen].Settings, strings.ToUpper(c.By), c.Seed, strings.Join(tried, ", "),
		format.Duration(c.Seconds))
}
