package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// metricSeries is a metric over the rounds in which it was measured.
func metricSeries(points []result.Point, of func(result.Point) *metrics.Summary, key string) chart.Series {
	var s chart.Series
	for _, p := range points {
		if sum := of(p); sum != nil {
			if v := result.MetricOf(sum.Sampled, key); !math.IsNaN(v) {
				s.X, s.Y = append(s.X, float64(p.Round)), append(s.Y, v)
			}
		}
	}
	return s
}

func validOf(p result.Point) *metrics.Summary { return p.Valid }
func testOf(p result.Point) *metrics.Summary  { return p.Test }

// runParts returns the sections of a page about one run. alone is set for drawings that become files.
func runParts(g *group, r *row, alone bool) []part {
	run := r.runs[0]
	out := []part{convergence(run), privacyPart(run)}
	if len(runsWithReferences([]*row{r})) > 0 {
		bars := barsOf(g, r)
		t := &Table{Header: []string{"name", "hr@10", "ndcg@10"}}
		for _, b := range bars {
			t.Rows = append(t.Rows, []any{b.Name, format.Exact(b.HR), format.Exact(b.NDCG)})
		}
		out = append(out, part{
			ID: "references", Title: "Comparison with the references",
			Intro: referencesIntro(g),
			Figures: []figure{{
				"references", "The method and the references", "HR@10 and NDCG@10 on the test items.",
				chart.MetricBars(bars), t,
			}},
		})
	}
	out = append(out, usersPart(run.Users))
	if f := run.Figures; f != nil {
		out = append(out, popularityPart(f), inferencePart(f), itemsPart(f, alone))
	}
	out = append(out, part{
		ID: "collapse", Title: "Dimensional collapse",
		Intro: "How many dimensions the shared item rows use, round by round. Compare methods only at the same " +
			"number of rounds and with the same server optimiser.",
		Figures: collapseFigures(run.Points),
	})
	if f := run.Figures; f != nil {
		out = append(out, landscapePart(f))
	}
	return slices.DeleteFunc(out, func(p part) bool { return p.empty() })
}

// empty reports whether a section has no figures, no tables and no explanation.
func (p *part) empty() bool {
	return len(p.Figures)+len(p.Tables) == 0 && !strings.HasPrefix(p.Intro, none)
}

// none starts the text of a section that explains why it has no figures.
const none = "Not drawn: "

// convergence shows the metrics, the loss and the traffic over rounds.
func convergence(run *result.Run) part {
	p := part{
		ID: "convergence", Title: "Convergence",
		Intro: "Metrics over rounds. A test curve that falls while the training loss still falls shows overfitting; " +
			"a curve that still rises in the last round needs more rounds.",
	}
	for _, m := range []struct{ key, name string }{{"hr@10", "HR@10"}, {"ndcg@10", "NDCG@10"}} {
		valid, test := metricSeries(run.Points, validOf, m.key), metricSeries(run.Points, testOf, m.key)
		valid.Label, valid.Class = "validation", "c1 dash"
		test.Label, test.Class = "test", "c0"
		if max(len(valid.X), len(test.X)) < 2 {
			continue // a method that is complete only in its last round is evaluated once: the table has these numbers
		}
		l := chart.LineChart{
			About: m.name + " over rounds", Unit: m.name + ", sampled (fraction)",
			Lines: []chart.Series{valid, test}, Mark: float64(run.Result.SelectedRound), Format: format.Fraction,
		}
		note := "The reported round was selected on the dashed line (validation), never on the solid one (test)."
		if run.Result.LastRoundCounts {
			note = "No round was selected: the last one is reported, because the method is complete only then."
		}
		switch {
		case run.Result.Privacy != nil:
			note = "Only the experimenter sees these curves. Neither was released, and neither selected the round."
			if run.Result.Privacy.MetricsNoise > 0 {
				note = "Only the experimenter sees these curves. The round was selected by the released metrics, " +
					"which contain noise."
			}
		case run.Result.BestOnTest != nil:
			note = "There is no validation set, so the last round is reported."
		}
		p.add(figure{
			"convergence-" + strings.TrimSuffix(m.key, "@10"), m.name + " over rounds", note, l.Draw(),
			lineTable(&l, m.key),
		})
	}
	loss := chart.Series{Class: "c2"}
	for _, p := range run.Points {
		if p.Loss != nil {
			loss.X, loss.Y = append(loss.X, float64(p.Round)), append(loss.Y, *p.Loss)
		}
	}
	if n := len(loss.Y); n > 0 {
		loss.Label = format.Digits(loss.Y[n-1])
	}
	l := chart.LineChart{
		About: "Training loss over rounds", Unit: "mean training loss per sample", Lines: []chart.Series{loss},
		Mark: float64(run.Result.SelectedRound), Format: format.Digits,
	}
	p.add(figure{"convergence-loss", "Training loss", "The loss that devices minimise, averaged over eight devices. " +
		"It is not a reported metric.", l.Draw(), lineTable(&l, "train_loss")})
	if s := uploaded(run.Points); len(s.X) > 1 {
		s.Class, s.Label, s.Quiet = "c0", "test", true
		b := bytesPlot([]chart.Series{s})
		p.add(figure{"accuracy-bytes", "Accuracy against bytes", "Test HR@10 against the bytes that all devices have " +
			"uploaded." + bytesTo95(run.Points), b.Draw(), plotTable(b, "uploaded", "test_hr@10")})
	}
	return p
}

func usersPart(users []result.User) part {
	p := part{
		ID: "users", Title: "Accuracy across users",
		Intro: "A mean hides differences between users. Users are grouped by activity, which a service can observe, " +
			"and by the rank of their test item, which only a test reveals.",
	}
	svg, data := rankTenths(users)
	for _, f := range []figure{
		{"rank-curve", "Rank of the test item", "Each point is HR@k. The dashed line is a random order; a useful " +
			"model stays well above it.", chart.HitRateCurve(testRanks(users)), rankTable(users)},
		{
			"activity", "By activity",
			"Users in five groups by their number of train rows; users with equal numbers stay together. Bars of " +
				"equal " +
				"height mean that accuracy does not depend on activity.", activityBars(users),
			fifthTable(users),
		},
		{"rank-tenths", "By rank", "Users in ten groups from best to worst served. A last bar near the highest rank " +
			"means that a tenth of the users gets no useful recommendations.", svg, data},
	} {
		p.add(f)
	}
	if t := servedTable(users); t != nil {
		p.Tables = []tableView{view(t)}
	}
	return p
}

func popularityPart(f *result.Figures) part {
	p := part{
		ID: "popularity", Title: "Popularity and coverage",
		Intro: "Whether the recommendations go beyond the most popular items. Lists with items of the first tenth " +
			"only could be made without a model.",
	}
	if f.Popularity == nil {
		return p.without(f, "popularity")
	}
	bars, data := popularityBars(f.Popularity)
	most, list := topBars(f.Popularity)
	for _, x := range []figure{
		{"popularity", "Recommendations by popularity", "Blue far above grey on the left is popularity bias. No " +
			"blue on the right means that rare items are never recommended.", bars, data},
		{
			"most-recommended", "Most recommended items", "An item recommended to most users is not personal.", most,
			list,
		},
	} {
		p.add(x)
	}
	p.Tables = []tableView{view(popularityTable(f.Popularity))}
	return p
}

// without is a section that only explains why a figure is missing; empty if the reason is unknown.
func (p part) without(f *result.Figures, key string) part {
	p.Figures, p.Tables = nil, nil
	if why := f.Missing[key]; why != "" {
		p.Intro = none + format.Clip(format.Clean(why), 200) + "."
	}
	return p
}

func inferencePart(f *result.Figures) part {
	p := part{
		ID: "inference", Title: "Personal and shared item rows",
		Intro: "The same scoring function with three item tables. If the coordinator's rows score better than a " +
			"device's own rows, local tuning hurts. If another device's rows score as well, tuning is not personal.",
	}
	if f.Inference == nil {
		return p.without(f, "inference")
	}
	if svg, data := inferenceBars(f.Inference); svg != "" {
		p.Figures = []figure{{
			"inference", "Own rows, the coordinator's, another device's",
			fmt.Sprintf("Test items of %s, after one more local training whose result is discarded.",
				format.Plural(f.Inference.Users, "user")), svg, data,
		}}
	}
	return p
}

func itemsPart(f *result.Figures, alone bool) part {
	p := part{ID: "items", Title: "Map of the items"}
	if f.Items == nil {
		return p.without(f, "items")
	}
	m := f.Items
	p.Intro = fmt.Sprintf("The rows of the %s most popular of %s (%s each), projected to the plane, as seen by one "+
		"device (user %s, who has a median number of rows). Point at a dot to read its title.",
		format.Count(len(m.Items)), format.Plural(m.Catalogue, "item"), format.Plural(m.Dim, "number"),
		format.Clip(m.User, 40))
	p.Figures = mapFigures(m, alone)
	if !alone {
		for i := range m.Items {
			p.Tips = append(p.Tips, format.Clean(mapTip(m, i)))
		}
	}
	return p
}

func landscapePart(f *result.Figures) part {
	p := part{
		ID: "landscape", Title: "Loss landscape",
		Intro: "The training loss of some devices when all shared parameters move along two random directions; " +
			"private parameters stay fixed.",
	}
	if f.Landscape == nil {
		return p.without(f, "landscape")
	}
	p.Figures = landscapeFigures(f.Landscape)
	p.Tables = []tableView{view(sharpness(f.Landscape))}
	return p
}

func barsOf(g *group, r *row) []chart.Bar {
	x := r.scores()
	out := []chart.Bar{{
		Name: r.runs[0].Result.Method, Class: "c0", HR: x[0].Mean, NDCG: x[1].Mean,
		Reason: "not evaluated",
	}}
	if p := r.published(); p.ComparableUnder(g.protocol) {
		out = append(out, chart.Bar{
			Name: "published", Class: "c1", HR: result.PublishedMetric(p.HR10), NDCG: result.PublishedMetric(p.NDCG10),
			Reason: "not given",
		})
	}
	for _, ref := range referenceRows([]*row{r}) {
		out = append(out, chart.Bar{
			Name: ref.name, Class: "mute", HR: ref.scores[0].Mean, NDCG: ref.scores[1].Mean, Reason: ref.reason,
		})
	}
	return out[:min(len(out), 12)]
}

// groupParts draws all runs of a group: a colour for each row, a line for each seed. A single run needs no such
// sections.
func groupParts(g *group) []part {
	if len(g.rows) == 1 && len(g.rows[0].runs) == 1 {
		return nil
	}
	p := part{ID: "all", Title: "Convergence and traffic", Intro: "One colour per row of the table, one line per seed."}
	for _, m := range []struct {
		name, title, key string
		of               func(result.Point) *metrics.Summary
	}{
		{"convergence-valid-hr", "Validation HR@10 over rounds", "hr@10", validOf},
		{"convergence-test-hr", "Test HR@10 over rounds", "hr@10", testOf},
		{"convergence-test-ndcg", "Test NDCG@10 over rounds", "ndcg@10", testOf},
	} {
		l := chart.LineChart{About: m.title, Unit: "fraction, among sampled candidates", Format: format.Fraction}
		l.Lines = g.lines(func(run *result.Run) chart.Series { return metricSeries(run.Points, m.of, m.key) })
		p.add(figure{
			m.name, m.title, "Crossing lines: the ranking depends on the number of rounds.", l.Draw(),
			lineTable(&l, m.key),
		})
	}
	sends := g.lines(func(run *result.Run) chart.Series { return uploaded(run.Points) })
	if slices.ContainsFunc(sends, func(s chart.Series) bool { return len(s.X) > 1 }) {
		b := bytesPlot(sends)
		p.add(figure{
			"accuracy-bytes", "Accuracy against bytes",
			"A curve further left reaches the same accuracy with less traffic.", b.Draw(),
			plotTable(b, "uploaded", "test_hr@10"),
		})
	}
	out := []part{p}
	curves := part{
		ID: "settings", Title: "Effect of settings",
		Intro: "Accuracy by each setting in which the runs differ.",
	}
	for _, v := range variedOf(g) {
		curves.Figures = append(curves.Figures, v.figures()...)
	}
	collapse := part{ID: "collapse", Title: "Dimensional collapse", Intro: "How many dimensions the trained item " +
		"rows use, for each run. Compare at the same number of rounds and with the same server optimiser."}
	for _, f := range []figure{spectraOf(g), ranksOf(g)} {
		collapse.add(f)
	}
	for _, more := range []part{curves, collapse} {
		if len(more.Figures) > 0 {
			out = append(out, more)
		}
	}
	return out
}

// add appends a figure that is not empty.
func (p *part) add(f figure) {
	if f.SVG != "" {
		p.Figures = append(p.Figures, f)
	}
}

// lines returns a line for each run, in the colour of its row.
func (g *group) lines(of func(*result.Run) chart.Series) []chart.Series {
	var out []chart.Series
	for i, r := range g.rows {
		for j, run := range r.runs {
			s := of(run)
			s.Label, s.Full, s.Class, s.Quiet = r.legend(), r.label, fmt.Sprintf("c%d", i%7), j > 0
			if i/7%2 == 1 {
				s.Class += " dash" // the colours repeat
			}
			out = append(out, s)
		}
	}
	return out
}

// spectraOf draws the last spectrum of each run, divided by its largest value.
func spectraOf(g *group) figure {
	p := chart.Plot{
		About: "Last spectrum of each run", X: "index, largest first",
		Y: "singular value over the largest (log scale)", LogY: true,
	}
	p.Lines = g.lines(func(run *result.Run) chart.Series {
		s := chart.Series{Plain: true}
		for _, at := range slices.Backward(run.Points) {
			if sp := spectrumOf(at, "trained"); sp != nil {
				for n, v := range sp.Singular {
					s.X, s.Y = append(s.X, float64(n+1)), append(s.Y, v/sp.Singular[0])
				}
				break
			}
		}
		return s
	})
	return figure{
		"spectrum", "Spectra after the last round", "A sudden drop is dimensional collapse; a flatter curve uses " +
			"more dimensions.",
		p.Draw(), plotTable(&p, "index", "singular_value_over_largest"),
	}
}

func ranksOf(g *group) figure {
	p := chart.Plot{
		About: "Effective rank over rounds", X: "round", Y: "effective rank of the trained rows", YZero: true,
		XZero: true,
	}
	p.Lines = g.lines(func(run *result.Run) chart.Series {
		var s chart.Series
		for _, at := range run.Points {
			if sp := spectrumOf(at, "trained"); sp != nil {
				s.X, s.Y = append(s.X, float64(at.Round)), append(s.Y, sp.EffectiveRank)
			}
		}
		return s
	})
	return figure{
		"effective-rank", "Effective rank over rounds", "How many dimensions the item rows use.", p.Draw(),
		plotTable(&p, "round", "effective_rank"),
	}
}
