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
	"zero-out":    "hides whether a user's contribution is replaced by zero",
	"add-remove":  "hides whether a user takes part",
	"replace-one": "hides whose data a user has, at twice the sensitivity",
}

var samplerWords = map[string]string{
	"poisson": "each device is drawn independently",
	"wor":     "a fixed number of devices, without replacement",
	"none":    "no amplification by sampling",
}

// explained is a word with its meaning.
func explained(w string, words map[string]string) string {
	if s, ok := words[w]; ok {
		return w + " (" + s + ")"
	}
	return w
}

// privacyFacts returns what a reader needs to know to interpret an epsilon.
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
		add("trust", "%s (the guarantee holds against %s)", p.Against, p.HoldsAgainst)
	} else if p.Against != "" {
		add("trust", "%s", p.Against)
	}
	add("adjacency", "%s", explained(p.Adjacency, adjacencyWords))
	sampler := explained(p.Sampler, samplerWords)
	if p.Sampler != "none" {
		sampler += fmt.Sprintf(", q = %.4g", p.Q)
	}
	add("sampler", "%s, T = %s", sampler, format.Plural(p.Rounds, "round"))
	noise := fmt.Sprintf("%s, noise multiplier %.5g", p.Mechanism, p.Noise)
	if p.Uneven {
		noise += " in a round with an average share of the budget"
	}
	if p.Clip > 0 {
		noise += fmt.Sprintf("; clipping bound %.4g", p.Clip)
		if p.Adaptive {
			noise += " (adaptive; the value of the last round)"
		}
	}
	add("noise", "%s", noise)
	if p.MetricsNoise > 0 {
		add("metrics", "released %s, each with noise multiplier %g, included in epsilon",
			format.Plural(p.MetricsReleased, "time"), p.MetricsNoise)
	}
	accountant := p.Accountant
	if p.Conversion != "" {
		accountant += ", conversion " + p.Conversion
	}
	add("accountant", "%s", accountant)
	if p.SpentBefore > 0 {
		add("budget", "spent before round %d, so the run stopped after round %d of %d", p.SpentBefore, p.SpentBefore-1,
			r.Rounds)
	}
	if p.Discarded > 0 {
		add("discarded", "%s with too few devices: nothing was released, but the budget was spent",
			format.Plural(p.Discarded, "round"))
	}
	if p.MostParticipations > 0 {
		add("participations", "a device took part at most %s, %s times on average", format.Plural(p.MostParticipations,
			"time"),
			format.Digits(p.MeanParticipations))
	}
	return out
}

// The starts of the lines of privacyNotes.
const guaranteeLine, mechanismLine, spentLine = "Privacy guarantee: ", "Privacy mechanism: ", "Privacy budget: "

// privacyNotes returns the same as sentences: the guarantee, the mechanism, the budget spent, and the caveats.
func privacyNotes(r *result.Result) []string {
	line := map[string]string{
		"epsilon": guaranteeLine, "trust": guaranteeLine, "budget": spentLine, "discarded": spentLine,
		"participations": spentLine,
	}
	words := map[string][]string{}
	for _, f := range privacyFacts(r) {
		at := cmp.Or(line[f.Name], mechanismLine)
		text := f.Name + ": " + f.Value
		switch f.Name {
		case "epsilon":
			text = f.Name + " " + f.Value
		case "budget", "participations":
			text = f.Value
		}
		words[at] = append(words[at], text)
	}
	var out []string
	for _, at := range []string{guaranteeLine, mechanismLine, spentLine} {
		if len(words[at]) > 0 {
			out = append(out, at+strings.Join(words[at], "; ")+".")
		}
	}
	for _, c := range r.Privacy.Caveats {
		out = append(out, "Privacy caveat: "+format.Clip(format.Clean(c), 300)+".")
	}
	return out
}

// privateRound says which round a run with a privacy guarantee reports.
func privateRound(r *result.Result, rounds string) string {
	if r.Privacy.MetricsNoise > 0 {
		return fmt.Sprintf("Reported round: %s of %d, the best by the released metrics, never by test.",
			rounds, r.Rounds)
	}
	return fmt.Sprintf("Reported round: %s of %d, the last one evaluated, because selecting a round on validation "+
		"would release information.", rounds, r.Rounds)
}

// privacyPart shows the privacy budget spent over rounds.
func privacyPart(run *result.Run) part {
	p := part{
		ID: "spent", Title: "Privacy budget spent",
		Intro: "The total cost of all releases so far. The line must end at or below the budget.",
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
		"Early rounds cost most. If the line reaches the budget before the last round, the run stops there.", l.Draw(),
		plotTable(&l, "round", "epsilon"),
	})
	if run.Result.Privacy.Adaptive && len(bound.X) > 1 {
		l := chart.Plot{
			About: "Clipping bound over rounds", X: "round", Y: "clipping bound", Lines: []chart.Series{bound},
			YZero: true, XZero: true, Format: format.Digits,
		}
		p.Figures = append(p.Figures, figure{
			"clip", "Clipping bound over rounds",
			"It follows a quantile of the lengths of updates, by a noisy count. If it diverges, change its initial " +
				"value " +
				"or its rate.", l.Draw(), plotTable(&l, "round", "clip"),
		})
	}
	return p
}
