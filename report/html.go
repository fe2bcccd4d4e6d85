package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/rank"
)

//go:embed assets/report.html assets/report.css
var assets embed.FS

// pageTemplate is parsed when it is first needed: most commands write no page.
func pageTemplate() (*template.Template, error) {
	return template.ParseFS(assets, "assets/report.html")
}

// page is what the template shows.
type page struct {
	Title    string
	CSS      template.CSS
	Groups   []groupView // nothing for one run
	Sections []section
}

type groupView struct {
	Title   string
	Table   tableView
	Figures []figure
}

type section struct {
	ID, Title string
	Protocol  string
	LeakWord  string
	Good      bool // neither the protocol leaks nor the data repeats
	Callout   template.HTML
	Tiles     []tile
	Facts     []fact
	Settings  []fact
	Table     tableView
	Figures   []figure
}

type tile struct{ Name, Value, Note string }

type fact struct{ Name, Value string }

type figure struct {
	Title, Note string
	SVG         template.HTML
}

type tableView struct {
	Head       []string
	Main, Refs [][]string
	Notes      []string
}

// HTML writes one page about one or more runs. It makes no request: styles and
// figures are in it.
func HTML(w io.Writer, runs []*Run) error {
	css, err := assets.ReadFile("assets/report.css")
	if err != nil {
		return err
	}
	t, err := pageTemplate()
	if err != nil {
		return err
	}
	p := page{CSS: template.CSS(css)}
	all := groups(runs)
	many := len(flat(runs)) > 1
	for _, g := range all {
		if many {
			p.Groups = append(p.Groups, groupView{Title: g.title(), Table: view(overview(g)), Figures: groupFigures(g)})
		}
		for _, r := range g.rows {
			for _, run := range r.runs {
				s := runSection(g, &row{label: r.label, runs: []*Run{run}, of: len(r.runs)})
				s.ID = fmt.Sprintf("run-%d", len(p.Sections)+1)
				p.Sections = append(p.Sections, s)
			}
		}
	}
	switch len(p.Sections) {
	case 0:
		return fmt.Errorf("report: there is no run to show; give the folder of one, as `tacit report DIR -o report.html`")
	case 1:
		p.Title = p.Sections[0].Title
	default:
		p.Title = plural(len(p.Sections), "run")
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

func view(t *Table) tableView {
	lines := t.lines()
	rule := min(t.Rule, len(lines)-1)
	return tableView{Head: lines[0], Main: lines[1 : 1+rule], Refs: lines[1+rule:], Notes: t.Notes}
}

// runSection is for a row of one run.
func runSection(g *group, r *row) section {
	res := r.runs[0].Result
	s := section{
		Title:    fmt.Sprintf("%s on %s, seed %d", r.label, res.Dataset, res.Seed),
		Protocol: res.Protocol, LeakWord: leakWord(res.Leaks, res.repeats()), Good: !res.Leaks && !res.repeats(),
		Callout:  callout(leakWords(g, []*row{r})),
		Tiles:    tiles(g, r),
		Facts:    facts(res),
		Settings: append(settingFacts(res.Params), settingFacts(res.Options)...),
	}
	t := board(g, r)
	t.Notes = append(append(t.Notes, selected(r)), caveats(r)...)
	if p := r.published(); p != nil {
		t.Notes = append(t.Notes, against(g, r, p))
	}
	s.Table = view(t)
	s.Figures = runFigures(g, r)
	return s
}

// callout sets the command in a sentence, so that it is not broken.
func callout(s string) template.HTML {
	const command = "--protocol deployed"
	return template.HTML(strings.Replace(esc(s), command, "<code>"+command+"</code>", 1))
}

// tiles are the four numbers to see first.
func tiles(g *group, r *row) []tile {
	var out []tile
	x := r.scores()
	p := r.published()
	for i, name := range scoreNames {
		if x[i].n == 0 {
			continue
		}
		t := tile{Name: name, Value: frac(x[i].mean)}
		if p.under(g.protocol) && i < 2 {
			pub := published([]float64{p.HR10, p.NDCG10}[i])
			t.Note = fmt.Sprintf("published %s, %s points", frac(pub), points(r.asPublished()[i].mean-pub))
		}
		out = append(out, t)
	}
	for _, ref := range []struct{ key, note string }{{"popularity", "the same list for everyone"}, {"memoriser", "counts draws, has no model"}} {
		for _, m := range refsOf(ref.key, []*row{r}) {
			if x := m.scores[0]; x.n > 0 {
				out = append(out, tile{Name: m.name + " HR@10", Value: frac(x.mean), Note: ref.note})
			}
		}
	}
	return out
}

// facts are the lines of the card.
func facts(r *Result) []fact {
	var out []fact
	add := func(name, format string, args ...any) {
		out = append(out, fact{name, clip(clean(fmt.Sprintf(format, args...)), 300)})
	}
	data := fmt.Sprintf("%s: %s, %s, %s", r.Dataset, plural(r.Users, "user"), plural(r.Items, "item"), plural(r.Interactions, "interaction"))
	if cells := float64(r.Users) * float64(r.Items); cells > 0 {
		data += fmt.Sprintf(", %.2f%% empty", 100*(1-float64(r.Interactions)/cells))
	}
	add("data", "%s", data)
	add("data hash", "%s", r.DataHash)
	add("protocol", "%s, which %s", r.Protocol, leakWord(r.Leaks, r.repeats()))
	method := r.Method
	if r.Preset != nil {
		method += ", preset " + *r.Preset
	}
	add("method", "%s", method)
	add("seed", "%d", r.Seed)
	add("rounds", "%d; round %d is reported", r.Rounds, r.SelectedRound)
	add("time", "%s to train, %s to evaluate, %s in all", took(r.Seconds.Train), took(r.Seconds.Eval), took(r.Seconds.Total))
	add("speed", "%s per round (median, training only), %s devices/s, %s samples/s", took(r.RoundMSMedian/1000), short(r.DevicesPerS), short(r.SamplesPerS))
	add("bytes", "%s up, %s down per device and round", size(r.Bytes.Up), size(r.Bytes.Down))
	if r.PeakRSSBytes > 0 {
		add("memory", "%s at the peak", size(float64(r.PeakRSSBytes)))
	}
	if r.Dropped+r.Late > 0 {
		add("lost", "%s vanished, %s came too late", plural(r.Dropped, "device"), count(r.Late))
	}
	if r.Privacy != nil {
		add("privacy", "%s", strings.TrimPrefix(privacyWords(r.Privacy), "Privacy: "))
	} else {
		add("privacy", "no noise was added, so there is no epsilon")
	}
	add("version", "%s", strings.TrimSpace(r.Version+" "+r.Commit))
	return out
}

func settingFacts(m map[string]any) []fact {
	var out []fact
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fact{clip(clean(k), 40), clip(clean(word(m[k])), 80)})
	}
	return out
}

// metricSeries is a metric over rounds, where it was measured.
func metricSeries(points []Point, of func(Point) *rank.Summary, key string) series {
	var s series
	for _, p := range points {
		if sum := of(p); sum != nil {
			if v := at(sum.Sampled, key); !math.IsNaN(v) {
				s.xs, s.ys = append(s.xs, float64(p.Round)), append(s.ys, v)
			}
		}
	}
	return s
}

func validOf(p Point) *rank.Summary { return p.Valid }
func testOf(p Point) *rank.Summary  { return p.Test }

// runFigures are the drawings of a row of one run.
func runFigures(g *group, r *row) []figure {
	run := r.runs[0]
	var out []figure
	add := func(title, note string, svg template.HTML) {
		if svg != "" {
			out = append(out, figure{title, note, svg})
		}
	}
	for _, m := range []struct{ key, name string }{{"hr@10", "HR@10"}, {"ndcg@10", "NDCG@10"}} {
		valid, test := metricSeries(run.Points, validOf, m.key), metricSeries(run.Points, testOf, m.key)
		valid.label, valid.class = "validation", "c1 dash"
		test.label, test.class = "test", "c0"
		l := lineChart{about: m.name + " over rounds", unit: m.name + ", sampled (fraction)", lines: []series{valid, test}, mark: float64(run.Result.SelectedRound), format: frac}
		note := "The dashed line chose the round; the solid one had no say."
		if run.Result.OnTest != nil {
			note = "There is no validation set: the last round is reported, whatever came before."
		}
		add(m.name+" over rounds", note, l.draw())
	}
	loss := series{class: "c2"}
	for _, p := range run.Points {
		if p.Loss != nil {
			loss.xs, loss.ys = append(loss.xs, float64(p.Round)), append(loss.ys, *p.Loss)
		}
	}
	if n := len(loss.ys); n > 0 {
		loss.label = digits(loss.ys[n-1])
	}
	l := lineChart{about: "Training loss over rounds", unit: "mean training loss per sample", lines: []series{loss}, mark: float64(run.Result.SelectedRound), format: digits}
	add("Training loss", "What devices minimise, as eight of them tell it; not what is reported.", l.draw())
	if len(referred([]*row{r})) > 0 {
		add("Beside the references", "What simpler scorers reach under the same protocol.", refBars(barsOf(g, r)))
	}
	add("Where the test item stands", "Each point is HR@k; the dashed line is a random order.", rankCurve(run.Users))
	add("Who is served", "Users in fifths by activity; those with equal counts stay together.", activityBars(run.Users))
	return out
}

func barsOf(g *group, r *row) []bar {
	x := r.scores()
	out := []bar{{name: r.runs[0].Result.Method, class: "c0", hr: x[0].mean, ndcg: x[1].mean, reason: "not evaluated"}}
	if p := r.published(); p.under(g.protocol) {
		out = append(out, bar{"published", "c1", published(p.HR10), published(p.NDCG10), "not given"})
	}
	for _, ref := range refRows([]*row{r}) {
		out = append(out, bar{ref.name, "mute", ref.scores[0].mean, ref.scores[1].mean, ref.reason})
	}
	return out[:min(len(out), 12)]
}

// groupFigures draw all runs of a group: a colour for each row, a line for each
// seed. A single run has its own section.
func groupFigures(g *group) []figure {
	var out []figure
	if len(g.rows) == 1 && len(g.rows[0].runs) == 1 {
		return nil
	}
	for _, m := range []struct {
		title, key string
		of         func(Point) *rank.Summary
	}{
		{"Validation HR@10 over rounds", "hr@10", validOf},
		{"Test HR@10 over rounds", "hr@10", testOf},
		{"Test NDCG@10 over rounds", "ndcg@10", testOf},
	} {
		l := lineChart{about: m.title, unit: "fraction, among sampled candidates", format: frac}
		for i, r := range g.rows {
			for j, run := range r.runs {
				s := metricSeries(run.Points, m.of, m.key)
				s.label, s.class, s.quiet = clip(r.label, 18), fmt.Sprintf("c%d", i%7), j > 0
				if i/7%2 == 1 {
					s.class += " dash" // the colours begin again
				}
				l.lines = append(l.lines, s)
			}
		}
		if svg := l.draw(); svg != "" {
			out = append(out, figure{m.title, "A colour for each row of the table, a line for each seed.", svg})
		}
	}
	return out
}
