// Package report writes results as tables (text, Markdown, CSV, LaTeX) and as HTML pages. It measures nothing and
// makes no network requests.
//
// Tables never mix two protocols, and every name from a file is escaped.
package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

//go:embed assets/report.html assets/report.css assets/report.js
var assets embed.FS

// pageTemplate parses the template on demand, because most commands write no page.
func pageTemplate() (*template.Template, error) {
	return template.New("report.html").Funcs(template.FuncMap{"aside": aside}).ParseFS(assets, "assets/report.html")
}

// aside splits a label from the brackets or settings that follow it.
func aside(s string) [2]string {
	for i, r := range s {
		if r != ' ' || i == 0 {
			continue
		}
		word, _, _ := strings.Cut(s[i+1:], " ")
		if strings.HasPrefix(word, "(") || strings.Contains(word, "=") {
			return [2]string{s[:i], s[i+1:]}
		}
	}
	return [2]string{s}
}

// page is the input of the template.
type page struct {
	Title    string
	CSS      template.CSS
	JS       template.JS
	Policy   string
	Wide     bool        // tables have many columns
	Top      []part      // of several protocols
	Groups   []groupView // empty for one run
	Rows     int         // methods with their settings; each has a section per seed
	Sections []section
	Searches []searchView
}

type groupView struct {
	Title string
	Table tableView
	Parts []part
}

type searchView struct {
	Title, Intro string
	Figures      []figure
}

type section struct {
	ID, Title string
	Folded    bool // a seed after the first
	Protocol  string
	LeakWord  string
	Good      bool // the protocol does not leak and the data does not repeat pairs
	Callout   template.HTML
	Tiles     []tile
	Facts     []fact
	Privacy   []fact // the privacy guarantee; empty for a run without one
	Caveats   []string
	Settings  []fact
	Table     tableView
	Parts     []part
}

// part is a section of a page: a heading, how to read its figures and tables, and those.
type part struct {
	ID, Title, Intro string
	Tables           []tableView
	Figures          []figure
	Tips             []string // of the points of maps, by number
}

type tile struct{ Name, Value, Note string }

type fact struct{ Name, Value string }

// figure is a drawing and its data. Note says how to read it and what would be bad.
type figure struct {
	Name, Title, Note string
	SVG               template.HTML
	Data              *Table
}

type tableView struct {
	Head       []headView
	Main, Refs [][]string
	Notes      []string
	Dense      bool // small, with labels that do not wrap
	Words      bool // cells are text: left-aligned and wrapped
}

// headView is a column's name, and its full name if that is longer.
type headView struct{ Name, Full string }

// HTML writes one page about one or more runs and searches. The page makes no network requests: it contains its
// style, script and figures, and its content security policy forbids anything else.
func HTML(w io.Writer, runs []*result.Run, at ...int) error {
	css, err := assets.ReadFile("assets/report.css")
	if err != nil {
		return err
	}
	js, err := assets.ReadFile("assets/report.js")
	if err != nil {
		return err
	}
	t, err := pageTemplate()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(js)
	p := page{CSS: template.CSS(css), JS: template.JS(js), Policy: "default-src 'none'; style-src 'unsafe-inline'; " +
		"img-src data:; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"}
	p.fill(runs, at)
	p.notesOnce()
	switch n := len(p.Sections); {
	case n+len(p.Searches) == 0 && len(p.Groups) > 0:
		p.Title = "Leaderboard"
	case n+len(p.Searches) == 0:
		return fmt.Errorf("no run to show; pass a run folder: `tacit report DIR -o report.html`")
	case n == 0:
		p.Title = p.Searches[0].Title
	case n == 1:
		p.Title = p.Sections[0].Title
	default:
		p.Title = format.Plural(p.Rows, "run")
		switch {
		case n > p.Rows && n%p.Rows == 0:
			p.Title += ", " + format.Plural(n/p.Rows, "seed") + " each"
		case n > p.Rows:
			p.Title += ", " + format.Plural(n, "seed") + " in all"
		}
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// notesOnce keeps the first of equal notes on a page with several tables.
func (p *page) notesOnce() {
	seen := map[string]bool{}
	once := func(t *tableView) {
		t.Notes = slices.DeleteFunc(t.Notes, func(note string) bool {
			again := seen[note]
			seen[note] = true
			return again
		})
	}
	for i := range p.Groups {
		once(&p.Groups[i].Table)
	}
	for i := range p.Sections {
		once(&p.Sections[i].Table)
	}
}

func (p *page) fill(runs []*result.Run, at []int) {
	many := len(result.EachSeed(runs)) > 1
	chosen := func(g *group, rows []*row) []part {
		if len(at) == 0 {
			return nil
		}
		t := view(cutoffTable(g, rows, at))
		t.Dense = len(t.Head) > 7 // eight numbers with deviations fit the page
		return []part{{ID: "lengths", Title: "Other list lengths", Tables: []tableView{t}}}
	}
	p.Top = protocolParts(groups(runs))
	for _, g := range groups(runs) {
		p.Rows += len(g.rows)
		if many {
			g.letter()
			t := overview(g)
			addSignificance(g, t)
			p.Groups = append(p.Groups, groupView{
				Title: g.title(), Table: view(t),
				Parts: append(chosen(g, g.rows), groupParts(g)...),
			})
		}
		for _, r := range g.rows {
			for k, run := range r.runs {
				s := runSection(g, &row{label: r.label, mark: r.mark, runs: []*result.Run{run}, of: len(r.runs)})
				if !many {
					s.Parts = append(chosen(g, []*row{r}), s.Parts...)
				}
				s.ID, s.Folded = fmt.Sprintf("run-%d", len(p.Sections)+1), k > 0
				for i := range s.Parts {
					s.Parts[i].ID = s.ID + "-" + s.Parts[i].ID
				}
				p.Sections = append(p.Sections, s)
			}
		}
	}
	for _, r := range runs {
		if r.Leaderboard != nil {
			p.leaders(r.Leaderboard)
		}
	}
	for _, s := range searches(runs) {
		p.Searches = append(p.Searches, searchView{
			Title: fmt.Sprintf("Search for settings of %s on %s, protocol %s", format.Clip(s.Method, 60),
				format.Clip(s.Dataset, 60), s.Protocol),
			Intro: fmt.Sprintf("%s, compared on validation items only; the test items were not used.",
				format.Plural(len(s.Trials), "trial")),
			Figures: searchFigures(s),
		})
	}
}

func view(t *Table) tableView {
	lines := t.lines()
	for i, r := range t.Rows {
		for c, v := range r {
			if s, ok := v.(spread); ok && s.room > 0 { // browsers collapse all spaces except figure spaces
				text := strings.TrimRight(lines[i+1][c], " ")
				lines[i+1][c] = text + strings.Repeat("\u2007",
					utf8.RuneCountInString(lines[i+1][c])-utf8.RuneCountInString(text))
			}
		}
	}
	rule := min(t.Rule, len(lines)-1)
	var head []headView
	for _, name := range lines[0] {
		head = append(head, headView{Name: name})
	}
	return tableView{Head: head, Main: lines[1 : 1+rule], Refs: lines[1+rule:], Notes: t.Notes}
}

// runSection is for a row of one run.
func runSection(g *group, r *row) section {
	res := r.runs[0].Result
	s := section{
		Title:    fmt.Sprintf("%s on %s, seed %d", r.label, res.Dataset, res.Seed),
		Protocol: res.Protocol, LeakWord: leakLabel(res.Leaks, repeats(res)), Good: !res.Leaks && !repeats(res),
		Callout:  callout(leakNote(g, []*row{r})),
		Tiles:    tiles(g, r),
		Facts:    facts(res),
		Settings: append(settingFacts(res.Params), settingFacts(res.Options)...),
	}
	if res.Privacy != nil {
		s.Privacy = privacyFacts(res)
		for _, c := range res.Privacy.Caveats {
			s.Caveats = append(s.Caveats, format.Clip(format.Clean(c), 300))
		}
	}
	t := runTable(g, r)
	t.Notes = append(t.Notes, selected(r))
	for _, s := range []string{choiceNote(res.Choice), r.newUserNote()} {
		if s != "" {
			t.Notes = append(t.Notes, s)
		}
	}
	t.Notes = append(t.Notes, caveats(r)...)
	if p := r.published(); p != nil {
		t.Notes = append(t.Notes, publishedNote(g, r, p))
	}
	if x := interval(r.runs[0].Users); x != "" {
		t.Notes = append(t.Notes, x)
	}
	s.Table = view(t)
	s.Parts = runParts(g, r, false)
	return s
}

// callout marks the command in a sentence as code, so that no line break splits it.
func callout(s string) template.HTML {
	const command = "--protocol deployed"
	return template.HTML(strings.Replace(template.HTMLEscapeString(format.Clean(s)), command, "<code>"+command+
		"</code>", 1))
}

// tiles returns the numbers that a reader looks for first.
func tiles(g *group, r *row) []tile {
	var out []tile
	x := r.scores()
	p, vs := r.published(), r.versus()
	for i, name := range result.MetricNames {
		if x[i].N == 0 {
			continue
		}
		t := tile{Name: name, Value: format.Fraction(x[i].Mean)}
		if p.ComparableUnder(g.protocol) && i < 2 {
			pub := result.PublishedMetric([]float64{p.HR10, p.NDCG10}[i])
			t.Note = fmt.Sprintf("published %s, %s points", format.Fraction(pub),
				format.Points(r.comparable()[i].Mean-pub))
		}
		out = append(out, t)
	}
	if q := r.runs[0].Result.Privacy; q != nil {
		out = append(out, tile{
			Name: "epsilon", Value: format.Epsilon(q.Epsilon),
			Note: format.Clip(format.Clean(fmt.Sprintf("at delta %g, trust %s", q.Delta, q.Against)), 80),
		})
	}
	for _, ref := range []struct{ key, note string }{
		{"popularity", "the same list for all users"},
		{"memoriser", memoriserTile(g)},
	} {
		for _, m := range rowsOfReference(ref.key, []*row{r}) {
			if x := m.scores[0]; x.N > 0 {
				t := tile{Name: m.name + " HR@10", Value: format.Fraction(x.Mean), Note: ref.note}
				if v := vs[ref.key]; v != nil && r.of <= len(r.runs) {
					t.Note = "the method is " + v.Verdict
				}
				out = append(out, t)
			}
		}
	}
	return out
}

// memoriserTile explains the memoriser's metric.
func memoriserTile(g *group) string {
	if g.leaks {
		return "no model: the effect of the leak alone"
	}
	return "no model: chance level, nothing leaks"
}

// facts returns the facts about a run.
func facts(r *result.Result) []fact {
	var out []fact
	add := func(name, layout string, args ...any) {
		out = append(out, fact{name, format.Clip(format.Clean(fmt.Sprintf(layout, args...)), 300)})
	}
	data := fmt.Sprintf("%s: %s, %s, %s", r.Dataset, format.Plural(r.Users, "user"), format.Plural(r.Items, "item"),
		format.Plural(r.Interactions, "interaction"))
	if cells := float64(r.Users) * float64(r.Items); cells > 0 {
		data += fmt.Sprintf(", %.2f%% empty", 100*(1-float64(r.Interactions)/cells))
	}
	add("data", "%s", data)
	add("data hash", "%s", r.DataHash)
	add("protocol", "%s, which %s", r.Protocol, leakLabel(r.Leaks, repeats(r)))
	method := r.Method
	if r.Preset != nil {
		method += ", preset " + *r.Preset
	}
	add("method", "%s", method)
	if c := r.Choice; c != nil && c.Chosen >= 0 && c.Chosen < len(c.Tried) {
		add("settings", "%s, the best of %d settings by %s on validation", c.Tried[c.Chosen].Settings, len(c.Tried),
			strings.ToUpper(c.By))
	}
	add("seed", "%d", r.Seed)
	add("rounds", "%d; round %d is reported", r.Rounds, r.SelectedRound)
	add("time", "%s to train, %s to evaluate, %s in total", format.Duration(r.Seconds.Train),
		format.Duration(r.Seconds.Eval),
		format.Duration(r.Seconds.Total))
	add("speed", "%s per round (median, training only), %s devices/s, %s samples/s",
		format.Duration(r.RoundMSMedian/1000),
		format.Compact(r.DevicesPerS), format.Compact(r.SamplesPerS))
	add("bytes", "%s up, %s down per device and round", format.Size(r.Bytes.Up), format.Size(r.Bytes.Down))
	if r.PeakRSSBytes > 0 {
		add("memory", "%s at the peak", format.Size(float64(r.PeakRSSBytes)))
	}
	if r.Dropped+r.Late > 0 {
		add("lost", "%s dropped out, %s missed the deadline", format.Plural(r.Dropped, "device"), format.Count(r.Late))
	}
	if r.Privacy != nil {
		add("privacy", "epsilon %s at delta %g, trust %s: see above", format.Epsilon(r.Privacy.Epsilon),
			r.Privacy.Delta,
			r.Privacy.Against)
	} else {
		add("privacy", "none: no noise was added")
	}
	add("version", "%s", strings.TrimSpace(r.Version+" "+r.Commit))
	return out
}

func settingFacts(m map[string]any) []fact {
	var out []fact
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fact{format.Clip(format.Clean(k), 40), format.Clip(format.Clean(format.Value(m[k])), 80)})
	}
	return out
}
