package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// leaderStyle is for a drawing that stands alone.
const leaderStyle = `<style>text{font:13px system-ui,sans-serif;fill:#222}.head{font-weight:600}.unit,.small,.tick{fill:#555;font-size:12px}` +
	`.fin{text-anchor:end}.mid{text-anchor:middle}.c0{fill:#0072b2}.c1{fill:#d55e00}.mute{fill:#888}.ring{fill:none;stroke:#222;stroke-width:1.5}` +
	`.bar.c0{fill:#0072b2;opacity:.25}.bar.mute{fill:#888;opacity:.25}.paper{fill:#fff}.grid{stroke:#ddd}.line{stroke:#222;stroke-width:1.5}</style>`

// LeadersPicture draws full NDCG@10 of every method under a protocol, a column for each
// data set, and what a device sends, as a drawing that stands alone.
func LeadersPicture(w io.Writer, b *Leaderboard, protocol string) error {
	const line, left, top, wide, gap = 22.0, 176.0, 66.0, 168.0, 26.0
	var tables []*Standings
	for _, s := range b.Tables {
		if s.Protocol == protocol && len(s.Entries) > 0 {
			tables = append(tables, s)
		}
	}
	names := leaderOrder(tables)
	if len(names) == 0 {
		return errors.New("report: the leaderboard has no row under " + protocol)
	}
	bottom := top + line*float64(len(names))
	c := &canvas{w: left + (wide+gap)*float64(len(tables)+1), h: bottom + 58}
	fmt.Fprintf(&c.b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">%s`,
		num(c.w), num(c.h), num(c.w), num(c.h), esc("Full NDCG@10 of every method"), leaderStyle)
	c.rect("paper", 0, 0, c.w, c.h, "")
	c.text("head", 12, 20, "Full NDCG@10 under "+protocol+": the held-out item among the whole catalogue")
	for i, e := range names {
		c.text("fin", left-12, top+line*(float64(i)+0.5)+4, e)
	}
	for k, s := range tables {
		c.panel(s, names, left+(wide+gap)*float64(k), wide, top, line)
	}
	c.traffic(tables, names, left+(wide+gap)*float64(len(tables)), wide, top, line)
	c.dot("c0", 18, c.h-14, 5, "")
	c.text("unit", 30, c.h-10, "federated")
	c.dot("mute", 118, c.h-14, 5, "")
	c.text("unit", 130, c.h-10, "in one place, or a reference")
	c.dot("ring", 318, c.h-14, 5, "")
	c.text("unit", 330, c.h-10, "on users that took no part in training")
	c.b.WriteString("</svg>\n")
	_, err := io.WriteString(w, c.b.String())
	return err
}

// leaderOrder are the rows of tables, by what share of the best they reach on average;
// those that are missing in some table come last.
func leaderOrder(tables []*Standings) []string {
	sum, n := map[string]float64{}, map[string]float64{}
	var names []string
	for _, s := range tables {
		best := 0.0
		for _, e := range s.Entries {
			best = max(best, e.Mean[3])
		}
		for _, e := range s.Entries {
			name := e.row()
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

func (s *Standings) entry(label string) *Standing {
	for _, e := range s.Entries {
		if e.row() == label {
			return e
		}
	}
	return nil
}

// panel draws one data set: a dot for each row, a ring for new users.
func (c *canvas) panel(s *Standings, names []string, x0, wide, top, line float64) {
	hi := 0.0
	for _, e := range s.Entries {
		hi = max(hi, e.Mean[3]+e.SD[3])
		if e.New.served() {
			hi = max(hi, e.New.Mean[3])
		}
	}
	bottom := top + line*float64(len(names))
	ax := niceAxis(0, max(hi, 1e-3), 4)
	px := func(v float64) float64 { return x0 + v/ax.hi*(wide-44) }
	c.text("head", x0, top-26, s.Dataset)
	c.text("unit", x0, top-10, fmt.Sprintf("%s, %s", plural(s.Users, "user"), plural(s.Items, "item")))
	for _, v := range ax.ticks() {
		c.line("grid", px(v), top, px(v), bottom)
		c.text("mid tick", px(v), bottom+16, ax.label(v))
	}
	for i, name := range names {
		y, e := top+line*(float64(i)+0.5), s.entry(name)
		if e == nil {
			c.text("small", x0+4, y+4, "not run")
			continue
		}
		class, v := "c0", e.Mean[3]
		if e.Central {
			class = "mute"
		}
		c.rect("bar "+class, x0, y-6, px(v)-x0, 12, "")
		c.line("line", px(max(v-e.SD[3], 0)), y, px(v+e.SD[3]), y)
		c.dot("dot "+class, px(v), y, 4.5, fmt.Sprintf("%s on %s: %s, %s", name, s.Dataset, frac(v),
			plural(len(e.Seeds), "seed")))
		right := v + e.SD[3]
		if n := e.New; n.served() {
			c.dot("ring", px(n.Mean[3]), y, 5.5, fmt.Sprintf("%s on new users of %s: %s", name, s.Dataset,
				frac(n.Mean[3])))
			right = max(right, n.Mean[3])
		}
		text := frac(v)
		if e.Epsilon > 0 {
			text += fmt.Sprintf(" ε %.2g", e.Epsilon)
		}
		c.text("small", px(right)+9, y+4, text)
	}
}

// traffic draws what a device sends on the first data set that has the row.
func (c *canvas) traffic(tables []*Standings, names []string, x0, wide, top, line float64) {
	sent := map[string]float64{}
	lo, hi := math.Inf(1), 0.0
	for _, name := range names {
		if e := tables[0].entry(name); e != nil && !e.Central && e.Up > 0 {
			sent[name] = math.Log10(e.Up)
			lo, hi = min(lo, sent[name]), max(hi, sent[name])
		}
	}
	bottom := top + line*float64(len(names))
	c.text("head", x0, top-26, "Sent by a device")
	c.text("unit", x0, top-10, "in all, on "+tables[0].Dataset+" (log)")
	if len(sent) == 0 {
		return
	}
	lo, hi = math.Floor(lo), math.Ceil(hi+1e-9)
	px := func(v float64) float64 { return x0 + (v-lo)/max(hi-lo, 1)*(wide-60) }
	for v := lo; v <= hi; v++ {
		c.line("grid", px(v), top, px(v), bottom)
	}
	c.text("mid tick", px(lo), bottom+16, size(math.Pow(10, lo)))
	c.text("mid tick", px(hi), bottom+16, size(math.Pow(10, hi)))
	for i, name := range names {
		y := top + line*(float64(i)+0.5)
		v, ok := sent[name]
		if !ok {
			continue
		}
		c.rect("bar c0", x0, y-6, px(v)-x0, 12, "")
		c.dot("dot c0", px(v), y, 4.5, "")
		c.text("small", px(v)+9, y+4, size(math.Pow(10, v)))
	}
}

// figure is the standings as a drawing of a page.
func (s *Standings) figure() figure {
	const line, left, top = 22.0, 132.0, 44.0
	names := leaderOrder([]*Standings{s})
	c := newCanvas(chartW, top+line*float64(len(names))+30, "Full NDCG@10 of every method on "+s.Dataset)
	for i, name := range names {
		c.text("fin small", left-8, top+line*(float64(i)+0.5)+4, clip(name, 22))
	}
	c.panel(s, names, left, chartW-left, top, line)
	return figure{
		Name: clip(file("leaders-"+s.Dataset+"-"+s.Protocol), 60), Title: "Full NDCG@10, the best first",
		Note: "Grey is in one place, or a reference; a ring is the same method on users that took no part in " +
			"training; a line is the deviation over seeds. A short bar is a method that popularity alone may beat: look at the references.",
		SVG: c.html(), Data: s.table(),
	}
}

// figures are those of its tables that have rows.
func (b *Leaderboard) figures() []figure {
	var out []figure
	if b == nil {
		return nil
	}
	for _, s := range b.Tables {
		if len(s.Entries) > 0 {
			out = append(out, s.figure())
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
func (s *Standings) dense(t *Table) tableView {
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
func (p *page) leaders(b *Leaderboard) {
	p.Wide = true
	for _, s := range b.Tables {
		g := groupView{Title: clip(s.title(), 120)}
		t := s.table()
		if t.Notes = s.notes(); s.Reason != "" {
			t.Rows, t.Notes = nil, []string{"Not run: " + s.Reason + "."}
		}
		for i, n := range t.Notes {
			t.Notes[i] = clip(clean(n), 2000)
		}
		if g.Table = s.dense(t); len(s.Entries) > 0 {
			g.Parts = []part{{
				ID: clip(file("leaders-"+s.Dataset+"-"+s.Protocol), 60), Title: "At a glance",
				Figures: []figure{s.figure()},
			}}
		}
		p.Groups = append(p.Groups, g)
	}
	read := &Table{Header: []string{"how to read the tables"}}
	for _, s := range b.readBoard() {
		read.Rows = append(read.Rows, []any{s})
	}
	settings := view(b.settings())
	settings.Words = true
	p.Groups = append(p.Groups, groupView{Title: "Settings", Table: settings}, groupView{
		Title: "How to read this",
		Table: view(read),
	})
}
