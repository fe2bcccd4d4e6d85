package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Epsilon writes an epsilon for people: four digits at most, rounded up, so that what
// is printed holds.
func Epsilon(v any) string {
	x, ok := v.(float64)
	switch {
	case !ok:
		return clip(clean(word(v)), 30)
	case math.IsInf(x, 1):
		return "inf"
	case !(x > 0):
		return word(x)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-3)
	up := math.Ceil(x/unit*(1-1e-9)) * unit // one that is too large in its tenth digit is rounding, not a cost
	return strconv.FormatFloat(up, 'g', 4, 64)
}

var adjacencyWords = map[string]string{
	"zero-out":    "whether a user's contribution is there or is zero must not show",
	"add-remove":  "whether a user is there must not show",
	"replace-one": "whose data a user has must not show: twice the sensitivity",
}

var samplerWords = map[string]string{
	"poisson": "each device on its own draw",
	"wor":     "a fixed number of devices, without replacement",
	"none":    "nothing is gained from sampling",
}

// explained is a word with what it means.
func explained(w string, words map[string]string) string {
	if s, ok := words[w]; ok {
		return w + " (" + s + ")"
	}
	return w
}

// privacyFacts are what an epsilon means nothing without.
func privacyFacts(r *Result) []fact {
	p := r.Privacy
	var out []fact
	add := func(name, format string, args ...any) {
		out = append(out, fact{name, clip(clean(fmt.Sprintf(format, args...)), 300)})
	}
	budget := ""
	if p.Budget > 0 {
		budget = fmt.Sprintf(", of a budget of %g", p.Budget)
	}
	add("epsilon", "%s at delta %g%s", Epsilon(p.Epsilon), p.Delta, budget)
	if p.Holds != "" {
		add("against", "%s: it holds against %s", p.Against, p.Holds)
	} else if p.Against != "" {
		add("against", "%s", p.Against)
	}
	add("adjacency", "%s", explained(p.Adjacency, adjacencyWords))
	sampler := explained(p.Sampler, samplerWords)
	if p.Sampler != "none" {
		sampler += fmt.Sprintf(", q = %.4g", p.Q)
	}
	add("sampler", "%s, T = %s", sampler, plural(p.Rounds, "round"))
	noise := fmt.Sprintf("%s, %.5g times the sensitivity", p.Mechanism, p.Noise)
	if p.Uneven {
		noise += " in a round with the mean share of the budget"
	}
	if p.Clip > 0 {
		noise += fmt.Sprintf("; an update is no longer than %.4g", p.Clip)
		if p.Adaptive {
			noise += " (at the end: the bound adapts)"
		}
	}
	add("noise", "%s", noise)
	if p.Metrics > 0 {
		add("metrics", "released %s, each with noise %g times the sensitivity, and counted",
			plural(p.MetricReleases, "time"), p.Metrics)
	}
	accountant := p.Accountant
	if p.Conversion != "" {
		accountant += ", conversion " + p.Conversion
	}
	add("accountant", "%s", accountant)
	if p.Broke > 0 {
		add("budget", "spent before round %d: stopped at round %d of %d", p.Broke, p.Broke-1, r.Rounds)
	}
	if p.Kept > 0 {
		add("kept back", "%s with too few devices: nothing was released, and all was paid for", plural(p.Kept, "round"))
	}
	if p.MostVisits > 0 {
		add("visits", "a device took part at most %s, %s times on average", plural(p.MostVisits, "time"),
			digits(p.MeanVisits))
	}
	return out
}

// privacyNotes are the same as sentences: what is promised, how, and what came of it,
// and what is not covered.
func privacyNotes(r *Result) []string {
	line := map[string]string{
		"epsilon": "Privacy: ", "against": "Privacy: ", "budget": "Privacy, spent: ",
		"kept back": "Privacy, spent: ", "visits": "Privacy, spent: ",
	}
	words := map[string][]string{}
	for _, f := range privacyFacts(r) {
		at := cmp.Or(line[f.Name], "Privacy, how: ")
		words[at] = append(words[at], f.Name+" "+f.Value)
	}
	var out []string
	for _, at := range []string{"Privacy: ", "Privacy, how: ", "Privacy, spent: "} {
		if len(words[at]) > 0 {
			out = append(out, at+strings.Join(words[at], "; ")+".")
		}
	}
	for _, c := range r.Privacy.Caveats {
		out = append(out, "Privacy, mind: "+clip(clean(c), 300)+".")
	}
	return out
}

// privateRound says which round a run with a promise reports.
func privateRound(r *Result, rounds string) string {
	if r.Privacy.Metrics > 0 {
		return fmt.Sprintf("Reported round: %s of %d, the best by the metrics that were released, never by test.",
			rounds, r.Rounds)
	}
	return fmt.Sprintf("Reported round: %s of %d, the last that was evaluated: to choose one on validation would be "+
		"a release.", rounds, r.Rounds)
}

// privacyPart is what was spent over rounds.
func privacyPart(run *Run) part {
	p := part{
		ID: "spent", Title: "Privacy spent",
		Intro: "What all releases so far cost together. The line must end at or below the budget; each evaluated " +
			"round has a point.",
	}
	if run.Result.Privacy == nil {
		return p
	}
	spent, bound := series{class: "c0", label: "spent", plain: true}, series{class: "c2", label: "bound", plain: true}
	for _, x := range run.Points {
		if x.Epsilon != nil {
			spent.xs, spent.ys = append(spent.xs, float64(x.Round)), append(spent.ys, *x.Epsilon)
		}
		if x.Clip > 0 {
			bound.xs, bound.ys = append(bound.xs, float64(x.Round)), append(bound.ys, x.Clip)
		}
	}
	if len(spent.xs) < 2 {
		return p
	}
	lines := []series{spent}
	if b := run.Result.Privacy.Budget; b > 0 {
		last := spent.xs[len(spent.xs)-1]
		lines = append(lines, series{
			class: "c1 dash", label: "budget", plain: true, xs: []float64{spent.xs[0], last},
			ys: []float64{b, b},
		})
	}
	l := plot{about: "Epsilon over rounds", x: "round", y: fmt.Sprintf("epsilon at delta %g",
		run.Result.Privacy.Delta), lines: lines, fromZero: true, xZero: true, format: digits}
	p.Figures = append(p.Figures, figure{
		"epsilon", "Epsilon over rounds",
		"Early rounds cost most. A line that meets the budget before the last round has ended the run.", l.draw(),
		l.table("round", "epsilon"),
	})
	if run.Result.Privacy.Adaptive && len(bound.xs) > 1 {
		l := plot{
			about: "Bound on an update over rounds", x: "round", y: "longest update", lines: []series{bound},
			fromZero: true, xZero: true, format: digits,
		}
		p.Figures = append(p.Figures, figure{
			"clip", "The bound on an update",
			"It follows a quantile of the updates' lengths, by a noisy count. One that runs away wants another start or rate.", l.draw(), l.table("round", "clip"),
		})
	}
	return p
}
