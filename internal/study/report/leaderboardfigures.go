package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// LeaderboardPicture draws full NDCG@10 of every method under a protocol, a column for each
// data set, and what a device sends, as a drawing that stands alone.
func LeaderboardPicture(w io.Writer, b *result.Leaderboard, protocol string) error {
	var tables []*result.LeaderboardTable
	for _, s := range b.Tables {
		if s.Protocol == protocol && len(s.Entries) > 0 {
			tables = append(tables, s)
		}
	}
	names := leaderOrder(tables)
	if len(names) == 0 {
		return errors.New("report: the leaderboard has no row under " + protocol)
	}
	var panels []chart.Panel
	for _, s := range tables {
		panels = append(panels, standingsPanel(s, names))
	}
	sent := chart.LogPanel{
		Title: "Sent by a device", Subtitle: "in all, on " + tables[0].Dataset + " (log)",
		Format: format.Size,
	}
	for _, name := range names {
		up := 0.0
		if e := entryOf(tables[0], name); e != nil && !e.Central {
			up = e.Up
		}
		sent.Values = append(sent.Values, up)
	}
	return chart.WritePanels(w, "Full NDCG@10 of every method",
		"Full NDCG@10 under "+protocol+": the held-out item among the whole catalogue", names, panels, sent,
		[3]string{"federated", "in one place, or a reference", "on users that took no part in training"})
}

// leaderOrder are the rows of tables, by what share of the best they reach on average;
// those that are missing in some table come last.
func leaderOrder(tables []*result.LeaderboardTable) []string {
	sum, n := map[string]float64{}, map[string]float64{}
	var names []string
	for _, s := range tables {
		best := 0.0
		for _, e := range s.Entries {
			best = max(best, e.Mean[3])
		}
		for _, e := range s.Entries {
			name := methodLabel(e)
			if n[name] == 0 {
				names = append(names, name)
			}
			n[name]++
			sum[name] += e.Mean[3] / max(best, 1e-9)
		}
	}
	all := float64(len(tables))
	slices.SortStableFunc(names, func(a, b string) int {
		if whole := n[a] == all; whole != (n[b] == all) { // a mean over other tables is another mean
			return map[bool]int{true: -1, false: 1}[whole]
		}
		return cmp.Compare(sum[b]/n[b], sum[a]/n[a])
	})
	return names
}

func entryOf(s *result.LeaderboardTable, label string) *result.LeaderboardRow {
	for _, e := range s.Entries {
		if methodLabel(e) == label {
			return e
		}
	}
	return nil
}

// standingsPanel is one data set as a column of a picture.
func standingsPanel(s *result.LeaderboardTable, names []string) chart.Panel {
	p := chart.Panel{
		Title: s.Dataset, Subtitle: fmt.Sprintf("%s, %s", format.Plural(s.Users, "user"),
			format.Plural(s.Items, "item")),
	}
	for _, name := range names {
		e := entryOf(s, name)
		if e == nil {
			p.Rows = append(p.Rows, nil)
			continue
		}
		r := &chart.PanelRow{
			Value: e.Mean[3], SD: e.SD[3], Ring: math.NaN(), Muted: e.Central, Text: format.Fraction(e.Mean[3]),
			Tip: fmt.Sprintf("%s on %s: %s, %s", name, s.Dataset, format.Fraction(e.Mean[3]),
				format.Plural(len(e.Seeds), "seed")),
		}
		if n := e.NewUsers; n.Measured() {
			r.Ring = n.Mean[3]
			r.RingTip = fmt.Sprintf("%s on new users of %s: %s", name, s.Dataset, format.Fraction(n.Mean[3]))
		}
		if e.Epsilon > 0 {
			r.Text += fmt.Sprintf(" ε %.2g", e.Epsilon)
		}
		p.Rows = append(p.Rows, r)
	}
	return p
}

// figure is the standings as a drawing of a page.
func standingsFigure(s *result.LeaderboardTable) figure {
	names := leaderOrder([]*result.LeaderboardTable{s})
	svg := chart.DrawPanel("Full NDCG@10 of every method on "+s.Dataset, names, standingsPanel(s, names))
	return figure{
		Name:  format.Clip(format.FileName("leaders-"+s.Dataset+"-"+s.Protocol), 60),
		Title: "Full NDCG@10, the best first",
		Note: "Grey is in one place, or a reference; a ring is the same method on users that took no part in " +
			"training; a line is the deviation over seeds. A short bar is a method that popularity alone may beat: look at the references.",
		SVG: svg, Data: standingsTable(s),
	}
}

// figures are those of its tables that have rows.
func boardFigures(b *result.Leaderboard) []figure {
	var out []figure
	if b == nil {
		return nil
	}
	for _, s := range b.Tables {
		if len(s.Entries) > 0 {
			out = append(out, standingsFigure(s))
		}
	}
	return out
}

// shortNames are the columns of a table of standings, as a page has room for them.
var shortNames = []string{
	"method", "sampled HR", "sampled NDCG", "full HR", "full NDCG", "few rows", "new users: HR",
	"new users: NDCG", "up", "down", "training", "seeds",
}

// dense is the table for a page.
func denseView(t *Table) tableView {
	out := view(t)
	out.Dense = true
	for i := range out.Head {
		if full := out.Head[i].Name; i < len(shortNames) && full != shortNames[i] {
			out.Head[i] = headView{shortNames[i], full}
		}
	}
	return out
}

// leaders puts a leaderboard on a page.
func (p *page) leaders(b *result.Leaderboard) {
	p.Wide = true
	for _, s := range b.Tables {
		g := groupView{Title: format.Clip(standingsTitle(s), 120)}
		t := standingsTable(s)
		if t.Notes = standingsNotes(s); s.Reason != "" {
			t.Rows, t.Notes = nil, []string{"Not run: " + s.Reason + "."}
		}
		for i, n := range t.Notes {
			t.Notes[i] = format.Clip(format.Clean(n), 2000)
		}
		if g.Table = denseView(t); len(s.Entries) > 0 {
			g.Parts = []part{{
				ID: format.Clip(format.FileName("leaders-"+s.Dataset+"-"+s.Protocol), 60), Title: "At a glance",
				Figures: []figure{standingsFigure(s)},
			}}
		}
		p.Groups = append(p.Groups, g)
	}
	read := &Table{Header: []string{"how to read the tables"}}
	for _, s := range boardNotes(b) {
		read.Rows = append(read.Rows, []any{s})
	}
	settings := view(boardSettings(b))
	settings.Words = true
	p.Groups = append(p.Groups, groupView{Title: "Settings", Table: settings}, groupView{
		Title: "How to read this",
		Table: view(read),
	})
}
