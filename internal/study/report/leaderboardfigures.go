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

// LeaderboardPicture writes an SVG file with the full NDCG@10 of every method under a protocol, a column for each
// data set, and the bytes that a device sends.
func LeaderboardPicture(w io.Writer, b *result.Leaderboard, protocol string) error {
	var tables []*result.LeaderboardTable
	for _, s := range b.Tables {
		if s.Protocol == protocol && len(s.Entries) > 0 {
			tables = append(tables, s)
		}
	}
	names := leaderOrder(tables)
	if len(names) == 0 {
		return errors.New("the leaderboard has no rows under protocol " + protocol)
	}
	var panels []chart.Panel
	for _, s := range tables {
		panels = append(panels, standingsPanel(s, names))
	}
	sent := chart.LogPanel{
		Title: "Sent by a device", Subtitle: "in total, on " + tables[0].Dataset + " (log)",
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
		"Full NDCG@10 under protocol "+protocol+": the held-out item ranked among the whole catalogue", names, panels,
		sent,
		[3]string{"federated", "centralised, or a reference", "on new users (held out of training)"})
}

// leaderOrder returns the rows of tables, by their average share of the best value. Rows that some table lacks
// come last.
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
		if whole := n[a] == all; whole != (n[b] == all) { // means over different tables are not comparable
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

// standingsPanel returns one data set as a column of a picture.
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

// standingsFigure is a table of a leaderboard as a figure.
func standingsFigure(s *result.LeaderboardTable) figure {
	names := leaderOrder([]*result.LeaderboardTable{s})
	svg := chart.DrawPanel("Full NDCG@10 of every method on "+s.Dataset, names, standingsPanel(s, names))
	return figure{
		Name:  format.Clip(format.FileName("leaders-"+s.Dataset+"-"+s.Protocol), 60),
		Title: "Full NDCG@10, best first",
		Note: "Grey: centralised, or a reference. Ring: the same method on new users, held out of training. Line: " +
			"standard deviation over seeds. Compare each method with the references, popularity first.",
		SVG: svg, Data: standingsTable(s),
	}
}

// boardFigures returns the figures of the tables that have rows.
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

// shortNames are short names of the columns, for pages.
var shortNames = []string{
	"method", "sampled HR", "sampled NDCG", "full HR", "full NDCG", "few rows", "new users: HR",
	"new users: NDCG", "up", "down", "training", "seeds",
}

// denseView is the table for a page.
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

// leaders adds a leaderboard to a page.
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
	read := &Table{Header: []string{"notes"}}
	for _, s := range boardNotes(b) {
		read.Rows = append(read.Rows, []any{s})
	}
	settings := view(boardSettings(b))
	settings.Words = true
	p.Groups = append(p.Groups, groupView{Title: "Settings", Table: settings}, groupView{
		Title: "How to read the tables",
		Table: view(read),
	})
}
