package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// tested are the users with a test rank.
func tested(users []User) []User {
	return slices.DeleteFunc(slices.Clone(users), func(u User) bool { return u.TestRank <= 0 })
}

// tenths cuts sorted users into ten, as equal as can be.
func tenths(users []User) [][]User {
	var out [][]User
	for k := range 10 {
		if lo, hi := k*len(users)/10, (k+1)*len(users)/10; hi > lo {
			out = append(out, users[lo:hi])
		}
	}
	return out
}

// stats are the hit rate, NDCG and median rank of users.
func stats(users []User) (hr, ndcg float64, median int) {
	ranks := make([]int, 0, len(users))
	for _, u := range users {
		ranks = append(ranks, u.TestRank)
		if u.TestRank <= 10 {
			hr++
			ndcg += 1 / math.Log2(float64(u.TestRank)+1)
		}
	}
	slices.Sort(ranks)
	n := float64(max(len(users), 1))
	return hr / n, ndcg / n, ranks[len(ranks)/2]
}

// byRank are the users from the best served to the worst.
func byRank(users []User) []User {
	out := tested(users)
	slices.SortStableFunc(out, func(a, b User) int { return cmp.Compare(a.TestRank, b.TestRank) })
	return out
}

// rankTenths draws the median rank of each tenth of users, best served first.
func rankTenths(users []User) (template.HTML, *Table) {
	groups := tenths(byRank(users))
	t := &Table{Header: []string{"tenth", "users", "best_rank", "median_rank", "worst_rank"}}
	if len(groups) < 10 {
		return "", t
	}
	most := 1
	for _, g := range groups {
		most = max(most, g[len(g)-1].TestRank)
	}
	f := frame{left: 42, right: chartW - 6, top: 30, bottom: chartH - 52, y: niceAxis(0, float64(max(most, 10)), 5)}
	c := newCanvas(chartW, chartH, "Median rank of the test item, by tenth of the users from best to worst served")
	c.text("unit", 0, 12, "rank of the test item (1 is best; bar: median, line: range)")
	for _, v := range f.y.ticks() {
		c.line("grid", f.left, f.py(v), f.right, f.py(v))
		c.text("fin tick", f.left-6, f.py(v)+4, f.y.label(v))
	}
	step := (f.right - f.left) / 10
	for i, g := range groups {
		_, _, mid := stats(g)
		lo, hi := g[0].TestRank, g[len(g)-1].TestRank
		t.Rows = append(t.Rows, []any{i + 1, len(g), lo, mid, hi})
		class := "bar c0"
		if i == 9 {
			class = "bar c1"
		}
		x := f.left + (float64(i)+0.5)*step
		c.rect(class, x-step*0.34, f.py(float64(mid)), step*0.68, f.bottom-f.py(float64(mid)),
			fmt.Sprintf("tenth %d: %s, ranks %d to %d, median %d", i+1, plural(len(g), "user"), lo, hi, mid))
		c.line("halo", x, f.py(float64(lo)), x, f.py(float64(hi)))
		c.line("whisker", x, f.py(float64(lo)), x, f.py(float64(hi)))
		c.text("mid ink", x, math.Max(f.py(float64(hi))-5, f.top-6), fmt.Sprint(mid))
		c.text("mid tick", x, f.bottom+16, fmt.Sprint(i+1))
	}
	if ten := f.py(10); ten < f.bottom-6 {
		c.line("mark", f.left, ten, f.right, ten)
		c.text("fin tick", f.left-6, ten+4, "10")
	}
	c.text("mid unit", (f.left+f.right)/2, f.bottom+33, "tenth of the users, best served first")
	c.text("mid unit", (f.left+f.right)/2, f.bottom+48, "the last bar is the worst-served tenth")
	return c.html(), t
}

// servedTable sets the tenths that a mean hides beside the mean.
func servedTable(users []User) *Table {
	t := &Table{Header: []string{"users", "n", "HR@10", "NDCG@10", "median rank"}, Align: "lr"}
	all := tested(users)
	if len(all) < 10 {
		return nil
	}
	add := func(name string, g []User) {
		hr, ndcg, mid := stats(g)
		t.Rows = append(t.Rows, []any{name, count(len(g)), hr, ndcg, count(mid)})
	}
	add("all", all)
	t.Rule = 1
	slices.SortStableFunc(all, func(a, b User) int { return cmp.Compare(a.Rows, b.Rows) })
	groups := tenths(all)
	worst, low := 0, math.Inf(1)
	for i, g := range groups {
		if hr, _, _ := stats(g); hr < low {
			worst, low = i, hr
		}
	}
	span := func(g []User) string { return rowsSpan(g[0].Rows, g[len(g)-1].Rows) }
	add("least active tenth ("+span(groups[0])+")", groups[0])
	add("most active tenth ("+span(groups[len(groups)-1])+")", groups[len(groups)-1])
	add("worst-served tenth by activity ("+span(groups[worst])+")", groups[worst])
	ranked := tenths(byRank(users))
	add("worst-served tenth by rank", ranked[len(ranked)-1])
	if b, w := groups[0], groups[len(groups)-1]; len(b) > 0 {
		hrB, _, _ := stats(b)
		hrW, _, _ := stats(w)
		word := "better"
		if hrW < hrB {
			word = "worse"
		}
		t.Notes = append(t.Notes, fmt.Sprintf("The most active tenth is served %s points HR@10 %s than the least "+
			"active one.", strings.TrimLeft(points(hrW-hrB), "+-"), word))
	}
	return t
}

func rowsSpan(lo, hi int) string {
	if lo == hi {
		return plural(lo, "train row")
	}
	return fmt.Sprintf("%s to %s", count(lo), plural(hi, "train row"))
}

// interval is the 95 % bootstrap interval of a run's HR@10 over its users.
func interval(users []User) string {
	var hits []float64
	for _, u := range tested(users) {
		hits = append(hits, float64(b2i(u.TestRank <= 10)))
	}
	if len(hits) < 20 || len(hits) > 50_000 {
		return ""
	}
	lo, hi := metrics.Bootstrap(hits, bootstraps/2, 1)
	return fmt.Sprintf("Other users of the same kind would give a sampled HR@10 between %s and %s (95 %% bootstrap "+
		"interval over %s). It is no test against the references: such a test pairs the same users.",
		frac(lo), frac(hi), plural(len(hits), "user"))
}

// popularityBars draws what is recommended beside what is common.
func popularityBars(p *Popularity) (template.HTML, *Table) {
	t := &Table{Header: []string{"tenth_of_catalogue", "share_of_train_rows", "share_of_recommendations"}}
	top := 0.0
	for k := range p.Data {
		top = math.Max(top, math.Max(p.Data[k], p.Recommended[k]))
		t.Rows = append(t.Rows, []any{k + 1, exact(p.Data[k]), exact(p.Recommended[k])})
	}
	if len(p.Data) == 0 || !(top > 0) || top > 1.01 {
		return "", t
	}
	f := frame{left: 42, right: chartW - 6, top: 48, bottom: chartH - 36, y: niceAxis(0, top, 5)}
	c := newCanvas(chartW, chartH, "Share of train rows and of recommendations by tenth of the catalogue")
	c.text("unit", 0, 12, "share")
	c.rect("bar mute", 4, 20, 11, 11, "")
	c.text("small", 20, 30, "of the train rows")
	c.rect("bar c0", 140, 20, 11, 11, "")
	c.text("small", 156, 30, "of the places in the lists of ten")
	for _, v := range f.y.ticks() {
		c.line("grid", f.left, f.py(v), f.right, f.py(v))
		c.text("fin tick", f.left-6, f.py(v)+4, f.y.label(v))
	}
	step := (f.right - f.left) / float64(len(p.Data))
	for k := range p.Data {
		x := f.left + (float64(k)+0.5)*step
		for _, b := range []struct {
			class, word string
			at, v       float64
		}{{"bar mute", "of the train rows", x - step*0.38, p.Data[k]}, {
			"bar c0", "of the recommendations", x,
			p.Recommended[k],
		}} {
			c.rect(b.class, b.at, f.py(b.v), step*0.38, f.bottom-f.py(b.v), fmt.Sprintf("tenth %d: %.1f%% %s", k+1,
				100*b.v, b.word))
		}
		c.text("mid tick", x, f.bottom+16, fmt.Sprint(k+1))
	}
	c.text("mid unit", (f.left+f.right)/2, f.bottom+33, "tenth of the catalogue, most popular first")
	return c.html(), t
}

// topBars draws the items that are in most lists.
func topBars(p *Popularity) (template.HTML, *Table) {
	t := &Table{Header: []string{"title", "share_of_users", "train_rows"}}
	const step, left = 36.0, 6.0
	top := 0.0
	for _, m := range p.Most {
		top = math.Max(top, m.Share)
		t.Rows = append(t.Rows, []any{m.Title, exact(m.Share), m.Rows})
	}
	if !(top > 0) || math.IsInf(top, 0) {
		return "", t
	}
	c := newCanvas(chartW, 22+step*float64(len(p.Most)), "The items that are in most lists")
	c.text("unit", 0, 12, "share of users with the item in their first ten")
	for i, m := range p.Most {
		y := 24 + step*float64(i)
		c.text("ink", left, y+10, clip(m.Title, 44))
		w := math.Max(0, m.Share/top) * (chartW - left - 60)
		c.rect("bar c0", left, y+15, w, 11, fmt.Sprintf("%s: in the lists of %.1f%% of users, %s", clip(m.Title, 80),
			100*m.Share, plural(m.Rows, "train row")))
		c.text("small", left+w+6, y+25, fmt.Sprintf("%.1f%%", 100*m.Share))
	}
	return c.html(), t
}

func popularityTable(p *Popularity) *Table {
	t := &Table{Header: []string{"", "recommended", "in the data"}, Align: "lr"}
	t.Rows = [][]any{
		{"share of the catalogue that somebody sees (coverage@10)", fmt.Sprintf("%.1f%%", 100*p.Coverage), ""},
		{
			"Gini coefficient of items (0: all equal, 1: one item)", fmt.Sprintf("%.3f", p.Gini),
			fmt.Sprintf("%.3f", p.GiniData),
		},
		{"share of the tail", fmt.Sprintf("%.1f%%", 100*p.TailShare), "about 20%"},
	}
	t.Rule = len(t.Rows)
	t.Notes = []string{fmt.Sprintf("The tail is all but the %s that hold 80 %% of the train rows. Lists are those "+
		"of %s at the reported round.", plural(p.HeadItems, "item"), plural(p.Users, "user"))}
	return t
}
