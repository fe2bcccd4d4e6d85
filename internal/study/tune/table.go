package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/report"
)

// Effect is the influence of one parameter on the objective on the first rung, on which all trials ran
// the same number of rounds: the medians for its best and worst values. The other parameters varied at
// the same time.
type Effect struct {
	Key         string  `json:"key"`
	Best        string  `json:"best"`
	BestMedian  float64 `json:"best_median"`
	Worst       string  `json:"worst"`
	WorstMedian float64 `json:"worst_median"`
}

// enough is the number of trials that effects require.
const enough = 8

// effects compares the quarters of each interval, and the values of each list.
func effects(axes []Axis, got []Trial) []Effect {
	got = slices.DeleteFunc(slices.Clone(got), func(t Trial) bool { return t.Status != ok })
	out := []Effect{}
	if len(got) < enough {
		return out
	}
	for _, a := range axes {
		var groups []Effect
		for label, ts := range grouped(a, got) {
			m := median(ts)
			groups = append(groups, Effect{a.Key, label, m, label, m})
		}
		if len(groups) < 2 {
			continue
		}
		slices.SortFunc(groups, func(x, y Effect) int {
			return cmp.Or(cmp.Compare(y.BestMedian, x.BestMedian), strings.Compare(x.Best, y.Best))
		})
		e, last := groups[0], groups[len(groups)-1]
		e.Worst, e.WorstMedian = last.Best, last.BestMedian
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(x, y Effect) int {
		return cmp.Compare(y.BestMedian-y.WorstMedian, x.BestMedian-x.WorstMedian)
	})
	return out
}

func grouped(a Axis, got []Trial) map[string][]Trial {
	out := map[string][]Trial{}
	if a.List != nil {
		for _, t := range got {
			v := fmt.Sprint(t.Params[a.Key])
			out[v] = append(out[v], t)
		}
		return out
	}
	at := func(t Trial) float64 {
		x, err := strconv.ParseFloat(fmt.Sprint(t.Params[a.Key]), 64)
		if err != nil {
			return math.NaN() // a schedule instead of a number
		}
		return x
	}
	got = slices.DeleteFunc(slices.Clone(got), func(t Trial) bool { return math.IsNaN(at(t)) })
	slices.SortStableFunc(got, func(x, y Trial) int { return cmp.Compare(at(x), at(y)) })
	for q := range 4 {
		if part := got[q*len(got)/4 : (q+1)*len(got)/4]; len(part) > 0 {
			label := fmt.Sprint(part[0].Params[a.Key], " to ", part[len(part)-1].Params[a.Key])
			out[label] = append(out[label], part...)
		}
	}
	return out
}

func median(ts []Trial) float64 {
	var xs []float64
	for _, t := range ts {
		xs = append(xs, t.value())
	}
	slices.Sort(xs)
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// nearEnd is the fraction of an interval that counts as its end.
const nearEnd = 0.05

// edges lists the values at an end of the searched range.
func edges(axes []Axis, best map[string]any) []string {
	out := []string{}
	for _, a := range axes {
		text := fmt.Sprint(best[a.Key])
		u, in := a.Where(text)
		if a.List != nil && (len(a.List) < 3 || !rising(a.List)) {
			continue
		}
		near := nearEnd
		if a.Whole || a.List != nil {
			near = 0
		}
		switch {
		case in && u <= near:
			out = append(out, fmt.Sprintf("%s = %s is at the lower end of %s", a.Key, text, a))
		case in && u >= 1-near:
			out = append(out, fmt.Sprintf("%s = %s is at the upper end of %s", a.Key, text, a))
		}
	}
	return out
}

// rising reports whether a list consists of increasing numbers.
func rising(list []string) bool {
	last := math.Inf(-1)
	for _, v := range list {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || x <= last {
			return false
		}
		last = x
	}
	return true
}

// Tables returns the result for people: the best settings, the current ones, and the effects of the
// parameters.
func (r *Result) Tables() []*report.Table {
	leak := "does not leak"
	if r.Leaks {
		leak = "LEAKS"
	}
	t := &report.Table{
		Title: fmt.Sprintf("%s on %s, protocol %s (%s): best settings on validation", r.Method, r.Dataset,
			r.Protocol, leak),
		Align: "l",
	}
	t.Header = []string{"trial"}
	for _, a := range r.axes {
		t.Header, t.Align = append(t.Header, a.Key), t.Align+"r"
	}
	t.Header, t.Align = append(t.Header, "valid HR@10", "valid NDCG@10"), t.Align+"r"
	full := r.Best.Valid.Full != nil
	if full {
		t.Header = append(t.Header, "full HR@10", "full NDCG@10")
	}
	t.Header = append(t.Header, "round")
	if r.Seeds > 1 {
		t.Header = append(t.Header, "sd of "+r.Objective)
	}
	rows := r.Top
	if r.Default != nil && !slices.ContainsFunc(rows, func(s RankedTrial) bool { return s.Trial == 0 }) {
		rows = append(slices.Clone(rows), *r.Default)
		t.Rule = len(rows) - 1
	}
	for _, s := range rows {
		t.Rows = append(t.Rows, r.row(s, full))
	}
	t.Notes = r.notes()
	if len(r.Mattered) == 0 {
		return []*report.Table{t}
	}
	m := &report.Table{
		Title:  fmt.Sprintf("Effects of parameters: validation %s after %d rounds", r.Objective, r.Rungs[0].Rounds),
		Header: []string{"parameter", "best at", "median", "worst at", "median"}, Align: "llrlr",
		Notes: []string{"Each line compares quarters of the trials that did not diverge, by the parameter's " +
			"value; the " +
			"other parameters varied at the same time."},
	}
	for _, e := range r.Mattered {
		m.Rows = append(m.Rows, []any{e.Key, e.Best, e.BestMedian, e.Worst, e.WorstMedian})
	}
	return []*report.Table{t, m}
}

func (r *Result) row(s RankedTrial, full bool) []any {
	name := fmt.Sprint(s.Trial)
	if s.Trial == 0 {
		name = "0 (current)"
	}
	row := []any{name}
	for _, a := range r.axes {
		row = append(row, fmt.Sprint(s.Params[a.Key]))
	}
	row = append(row, s.Valid.Sampled["hr@10"], s.Valid.Sampled["ndcg@10"])
	if full {
		row = append(row, s.Valid.Full["hr@10"], s.Valid.Full["ndcg@10"])
	}
	row = append(row, s.BestRound)
	if r.Seeds > 1 {
		row = append(row, s.SD)
	}
	return row
}

func (r *Result) notes() []string {
	var out, rungs []string
	what := r.Metric + " " + r.Objective
	switch {
	case r.Default == nil:
		out = append(out, "The current settings did not finish, so the gain is unknown.")
	case r.Best.Trial == 0:
		out = append(out, "No setting is better than the current ones.")
	default:
		out = append(out, fmt.Sprintf("Trial %d has a validation %s of %.4f, %+.2f points compared with the current "+
			"settings.", r.Best.Trial, what, r.Best.Value, 100*(r.Best.Value-r.Default.Value)))
	}
	users := r.Best.Valid.Sampled["users"]
	if p := r.Best.Value; r.Objective == "hr@10" && users > 0 {
		out = append(out, fmt.Sprintf("The value of the best of %d trials is optimistic; one standard error over %.0f "+
			"users is %.2f points. The search did not use test items: tacit run %s measures on them.",
			r.Trials, users, 100*math.Sqrt(p*(1-p)/users), r.Preset))
	} else {
		out = append(out, fmt.Sprintf("The value of the best of %d trials is optimistic. The search did not use "+
			"test items: tacit run %s measures on them.", r.Trials, r.Preset))
	}
	for _, k := range r.Rungs {
		rungs = append(rungs, fmt.Sprintf("%d to round %d", k.Trials, k.Rounds))
	}
	s := fmt.Sprintf("%s search by validation %s at the round that validation HR@10 selects: %s", r.Search,
		what, strings.Join(rungs, ", "))
	if r.Seeds > 1 {
		s += fmt.Sprintf("; the best %d and trial 0 with %d seeds each", finalists, r.Seeds)
	}
	out = append(out, s+".")
	if r.Trials < r.asked {
		out = append(out, fmt.Sprintf("The space has only these %d settings.", r.Trials))
	}
	if r.Diverged+r.Refused > 0 {
		out = append(out, fmt.Sprintf("%d trials diverged, %d had settings that the method rejects; see %s.",
			r.Diverged,
			r.Refused, logFile))
	}
	for _, e := range r.AtEdge {
		out = append(out, "Warning: "+e+"; widen it.")
	}
	if r.Leaks {
		out = append(out, "Warning: the protocol leaks, on validation items too: the best setting may be the one that "+
			"memorises best which items were not drawn.")
	}
	return append(out, "Best value so far on the first rung: "+spark(r.history[0]))
}

// spark draws the best value so far, one character per trial, at most 60.
func spark(ts []Trial) string {
	const marks = 60
	var xs []float64
	top := 0.0
	for _, t := range ts {
		top = math.Max(top, t.value())
		xs = append(xs, top)
	}
	lo, n := xs[0], min(len(xs), marks)
	var b strings.Builder
	for i := range n {
		x := xs[(i+1)*len(xs)/n-1]
		level := 0
		if top > lo {
			level = int((x - lo) / (top - lo) * 7)
		}
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[level])
	}
	return b.String()
}
