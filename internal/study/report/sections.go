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

// metricSeries is a metric over rounds, where it was measured.
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

// runParts are the parts of a page about one run. alone is for drawings that stand
// in files of their own.
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
			ID: "references", Title: "Beside the references",
			Intro: "What simpler scorers reach on the same users and items. A method below popularity or " +
				"local-only training has learnt nothing worth federating. The memoriser has no model and counts how often an item was drawn as a negative: where the protocol leaks it shows what the leak alone is worth, elsewhere it stands at chance.",
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
		Intro: "Over how many directions the shared item rows are spread, as rounds go by. Compare methods only " +
			"at the same number of rounds and the same server rule.",
		Figures: collapseFigures(run.Points),
	})
	if f := run.Figures; f != nil {
		out = append(out, landscapePart(f))
	}
	return slices.DeleteFunc(out, func(p part) bool { return p.empty() })
}

// empty parts have neither figures nor tables, and no reason to be seen.
func (p *part) empty() bool {
	return len(p.Figures)+len(p.Tables) == 0 && !strings.HasPrefix(p.Intro, none)
}

// none starts the text of a part that says why there is nothing.
const none = "Not drawn: "

// convergence is how a run came to its result.
func convergence(run *result.Run) part {
	p := part{
		ID: "convergence", Title: "Convergence",
		Intro: "How the metrics grew. A test curve that falls while training loss goes on falling is overfitting; a " +
			"curve that still rises at its end wants more rounds.",
	}
	add := func(f figure) {
		if f.SVG != "" {
			p.Figures = append(p.Figures, f)
		}
	}
	for _, m := range []struct{ key, name string }{{"hr@10", "HR@10"}, {"ndcg@10", "NDCG@10"}} {
		valid, test := metricSeries(run.Points, validOf, m.key), metricSeries(run.Points, testOf, m.key)
		valid.Label, valid.Class = "validation", "c1 dash"
		test.Label, test.Class = "test", "c0"
		l := chart.LineChart{
			About: m.name + " over rounds", Unit: m.name + ", sampled (fraction)",
			Lines: []chart.Series{valid, test}, Mark: float64(run.Result.SelectedRound), Format: format.Fraction,
		}
		note := "The dashed line chose the round; the solid one had no say."
		if run.Result.LastRoundCounts {
			note = "Neither chose the round: the last is reported, in which the method is complete."
		}
		switch {
		case run.Result.Privacy != nil:
			note = "Both are the experimenter's: neither was released, and neither chose the round."
			if run.Result.Privacy.MetricsNoise > 0 {
				note = "Both are the experimenter's: what was released, and chose the round, has noise."
			}
		case run.Result.BestOnTest != nil:
			note = "There is no validation set: the last round is reported, whatever came before."
		}
		add(figure{
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
	add(figure{"convergence-loss", "Training loss", "What devices minimise, as eight of them tell it; not what is " +
		"reported.", l.Draw(), lineTable(&l, "train_loss")})
	if s := uploaded(run.Points); len(s.X) > 1 {
		s.Class, s.Label, s.Quiet = "c0", "test", true
		b := bytesPlot([]chart.Series{s})
		add(figure{"accuracy-bytes", "Accuracy against bytes", "What the devices had sent together when the test " +
			"metric stood there." + bytesTo95(run.Points), b.Draw(), plotTable(b, "uploaded", "test_hr@10")})
	}
	return p
}

func usersPart(users []result.User) part {
	p := part{
		ID: "users", Title: "Who is served",
		Intro: "A mean over users hides who pays for it. The worst-served tenth is shown by activity, which a " +
			"service can see, and by rank, which only the test knows.",
	}
	svg, data := rankTenths(users)
	for _, f := range []figure{
		{"rank-curve", "Where the test item stands", "Each point is HR@k; the dashed line is a random order, and a " +
			"model must stay well above it.", chart.HitRateCurve(testRanks(users)), rankTable(users)},
		{
			"activity", "By activity",
			"Users in fifths by train rows; those with equal counts stay together. Bars of " +
				"one height would be fair; each step between them is somebody's loss.", activityBars(users),
			fifthTable(users),
		},
		{"rank-tenths", "By rank", "Users in tenths from best to worst served. A last bar near the bottom of the " +
			"candidates says that a tenth of the users gets nothing.", svg, data},
	} {
		if f.SVG != "" {
			p.Figures = append(p.Figures, f)
		}
	}
	if t := servedTable(users); t != nil {
		p.Tables = []tableView{view(t)}
	}
	return p
}

func popularityPart(f *result.Figures) part {
	p := part{
		ID: "popularity", Title: "Popularity and coverage",
		Intro: "Whether the lists show more than what everyone knows. Lists that hold only the first tenth of the " +
			"catalogue could have been made without a model.",
	}
	if f.Popularity == nil {
		return p.without(f, "popularity")
	}
	bars, data := popularityBars(f.Popularity)
	most, list := topBars(f.Popularity)
	for _, x := range []figure{
		{"popularity", "Recommended, and in the data", "Blue far above grey on the left is popularity bias; nothing " +
			"on the right means that the tail is never shown.", bars, data},
		{"most-recommended", "In most lists", "An item that most users see says little about any of them.", most, list},
	} {
		if x.SVG != "" {
			p.Figures = append(p.Figures, x)
		}
	}
	p.Tables = []tableView{view(popularityTable(f.Popularity))}
	return p
}

// without is a part that only says why it is not there; nothing where that is not
// known.
func (p part) without(f *result.Figures, key string) part {
	p.Figures, p.Tables = nil, nil
	if why := f.Missing[key]; why != "" {
		p.Intro = none + format.Clip(format.Clean(why), 200) + "."
	}
	return p
}

func inferencePart(f *result.Figures) part {
	p := part{
		ID: "inference", Title: "Whose item rows",
		Intro: "The same score functions on three tables. If the coordinator's rows serve better than a device's " +
			"own, tuning hurts; if another device's rows do as well, nothing was personal.",
	}
	if f.Inference == nil {
		return p.without(f, "inference")
	}
	if svg, data := inferenceBars(f.Inference); svg != "" {
		p.Figures = []figure{{
			"inference", "Own, coordinator's, another device's",
			fmt.Sprintf("Test items of %s, after one more visit of each that nobody keeps.",
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
	p.Intro = fmt.Sprintf("The rows of the %s most popular of %s, %s each, flattened to the plane; one device's "+
		"view of them (user %s, with a median number of rows). Point at a dot for its title.",
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
		Intro: "The training loss of some devices when all that is shared is moved along two random directions, " +
			"with what is private held fixed.",
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

// groupParts draw all runs of a group: a colour for each row, a line for each
// seed. A single run has its own section.
func groupParts(g *group) []part {
	if len(g.rows) == 1 && len(g.rows[0].runs) == 1 {
		return nil
	}
	p := part{ID: "all", Title: "Convergence and traffic", Intro: "A colour for each row of the table, a line for " +
		"each seed."}
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
			m.name, m.title, "Lines that cross say that the order depends on the rounds.", l.Draw(),
			lineTable(&l, m.key),
		})
	}
	sends := g.lines(func(run *result.Run) chart.Series { return uploaded(run.Points) })
	if slices.ContainsFunc(sends, func(s chart.Series) bool { return len(s.X) > 1 }) {
		b := bytesPlot(sends)
		p.add(figure{
			"accuracy-bytes", "Accuracy against bytes",
			"Who reaches a height further left sends less for it.", b.Draw(), plotTable(b, "uploaded", "test_hr@10"),
		})
	}
	out := []part{p}
	curves := part{
		ID: "settings", Title: "Settings that differ",
		Intro: "What a setting does, where runs differ in it.",
	}
	for _, v := range variedOf(g) {
		curves.Figures = append(curves.Figures, v.figures()...)
	}
	collapse := part{ID: "collapse", Title: "Dimensional collapse", Intro: "The spread of the trained item rows, " +
		"run by run. Compare at the same number of rounds and the same server rule."}
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

func (p *part) add(f figure) {
	if f.SVG != "" {
		p.Figures = append(p.Figures, f)
	}
}

// lines are a line for each run, in the colour of its row.
func (g *group) lines(of func(*result.Run) chart.Series) []chart.Series {
	var out []chart.Series
	for i, r := range g.rows {
		for j, run := range r.runs {
			s := of(run)
			s.Label, s.Full, s.Class, s.Quiet = r.legend(), r.label, fmt.Sprintf("c%d", i%7), j > 0
			if i/7%2 == 1 {
				s.Class += " dash" // the colours begin again
			}
			out = append(out, s)
		}
	}
	return out
}

// spectraOf draws the last spectrum of each run, as shares of its largest value.
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
		"spectrum", "Spectra at the end", "A cliff is collapse; a flatter tail uses more dimensions.",
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
		"effective-rank", "Effective rank over rounds", "How many dimensions the rows use.", p.Draw(),
		plotTable(&p, "round", "effective_rank"),
	}
}
