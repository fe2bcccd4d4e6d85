package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

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
func privacyFacts(r *result.Result) []fact {
	p := r.Privacy
	var out []fact
	add := func(name, layout string, args ...any) {
		out = append(out, fact{name, format.Clip(format.Clean(fmt.Sprintf(layout, args...)), 300)})
	}
	budget := ""
	if p.Budget > 0 {
		budget = fmt.Sprintf(", of a budget of %g", p.Budget)
	}
	add("epsilon", "%s at delta %g%s", format.Epsilon(p.Epsilon), p.Delta, budget)
	if p.HoldsAgainst != "" {
		add("against", "%s: it holds against %s", p.Against, p.HoldsAgainst)
	} else if p.Against != "" {
		add("against", "%s", p.Against)
	}
	add("adjacency", "%s", explained(p.Adjacency, adjacencyWords))
	sampler := explained(p.Sampler, samplerWords)
	if p.Sampler != "none" {
		sampler += fmt.Sprintf(", q = %.4g", p.Q)
	}
	add("sampler", "%s, T = %s", sampler, format.Plural(p.Rounds, "round"))
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
	if p.MetricsNoise > 0 {
		add("metrics", "released %s, each with noise %g times the sensitivity, and counted",
			format.Plural(p.MetricsReleased, "time"), p.MetricsNoise)
	}
	accountant := p.Accountant
	if p.Conversion != "" {
		accountant += ", conversion " + p.Conversion
	}
	add("accountant", "%s", accountant)
	if p.SpentBefore > 0 {
		add("budget", "spent before round %d: stopped at round %d of %d", p.SpentBefore, p.SpentBefore-1, r.Rounds)
	}
	if p.Discarded > 0 {
		add("kept back", "%s with too few devices: nothing was released, and all was paid for",
			format.Plural(p.Discarded, "round"))
	}
	if p.MostParticipations > 0 {
		add("visits", "a device took part at most %s, %s times on average", format.Plural(p.MostParticipations, "time"),
			format.Digits(p.MeanParticipations))
	}
	return out
}

// privacyNotes are the same as sentences: what is promised, how, and what came of it,
// and what is not covered.
func privacyNotes(r *result.Result) []string {
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
		out = append(out, "Privacy, mind: "+format.Clip(format.Clean(c), 300)+".")
	}
	return out
}

// privateRound says which round a run with a promise reports.
func privateRound(r *result.Result, rounds string) string {
	if r.Privacy.MetricsNoise > 0 {
		return fmt.Sprintf("Reported round: %s of %d, the best by the metrics that were released, never by test.",
			rounds, r.Rounds)
	}
	return fmt.Sprintf("Reported round: %s of %d, the last that was evaluated: to choose one on validation would be "+
		"a release.", rounds, r.Rounds)
}

// privacyPart is what was spent over rounds.
func privacyPart(run *result.Run) part {
	p := part{
		ID: "spent", Title: "Privacy spent",
		Intro: "What all releases so far cost together. The line must end at or below the budget; each evaluated " +
			"round has a point.",
	}
	if run.Result.Privacy == nil {
		return p
	}
	spent, bound := chart.Series{Class: "c0", Label: "spent", Plain: true}, chart.Series{
		Class: "c2", Label: "bound",
		Plain: true,
	}
	for _, x := range run.Points {
		if x.Epsilon != nil {
			spent.X, spent.Y = append(spent.X, float64(x.Round)), append(spent.Y, *x.Epsilon)
		}
		if x.Clip > 0 {
			bound.X, bound.Y = append(bound.X, float64(x.Round)), append(bound.Y, x.Clip)
		}
	}
	if len(spent.X) < 2 {
		return p
	}
	lines := []chart.Series{spent}
	if b := run.Result.Privacy.Budget; b > 0 {
		last := spent.X[len(spent.X)-1]
		lines = append(lines, chart.Series{
			Class: "c1 dash", Label: "budget", Plain: true, X: []float64{spent.X[0], last},
			Y: []float64{b, b},
		})
	}
	l := chart.Plot{About: "Epsilon over rounds", X: "round", Y: fmt.Sprintf("epsilon at delta %g",
		run.Result.Privacy.Delta), Lines: lines, YZero: true, XZero: true, Format: format.Digits}
	p.Figures = append(p.Figures, figure{
		"epsilon", "Epsilon over rounds",
		"Early rounds cost most. A line that meets the budget before the last round has ended the run.", l.Draw(),
		plotTable(&l, "round", "epsilon"),
	})
	if run.Result.Privacy.Adaptive && len(bound.X) > 1 {
		l := chart.Plot{
			About: "Bound on an update over rounds", X: "round", Y: "longest update", Lines: []chart.Series{bound},
			YZero: true, XZero: true, Format: format.Digits,
		}
		p.Figures = append(p.Figures, figure{
			"clip", "The bound on an update",
			"It follows a quantile of the updates' lengths, by a noisy count. One that runs away wants another start or rate.", l.Draw(), plotTable(&l, "round", "clip"),
		})
	}
	return p
}
