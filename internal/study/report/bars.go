package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
)

// rankCurve draws the share of users whose test item is among the first k of its
// candidates, for every k: the hit rate for any length of list.
func rankCurve(users []User) template.HTML {
	var ranks []int
	for _, u := range users {
		if u.TestRank > 0 {
			ranks = append(ranks, u.TestRank)
		}
	}
	if len(ranks) == 0 {
		return ""
	}
	slices.Sort(ranks)
	most := max(100, ranks[len(ranks)-1]) // held-out item and 99 others
	share := func(k int) float64 {
		n, _ := slices.BinarySearch(ranks, k+1)
		return float64(n) / float64(len(ranks))
	}
	f := frame{
		left: 42, right: chartW - 14, top: 38, bottom: chartH - 36, x: axis{0, math.Log(float64(most)), 1},
		y: axis{0, 1, 0.2},
	}
	px := func(k int) float64 { return f.px(math.Log(float64(k))) }
	c := newCanvas(chartW, chartH, "Share of users whose test item is among the first k candidates")
	c.text("unit", 0, 12, "share of users")
	for _, v := range f.y.ticks() {
		c.line("grid", f.left, f.py(v), f.right, f.py(v))
		c.text("fin tick", f.left-6, f.py(v)+4, f.y.label(v))
	}
	for _, k := range []int{1, 2, 5, 10, 20, 50, 100, 1000, 10000, 100000} {
		if k <= most {
			c.line("grid", px(k), f.bottom, px(k), f.bottom+4)
			c.text("mid tick", px(k), f.bottom+17, fmt.Sprint(k))
		}
	}
	c.text("mid unit", (f.left+f.right)/2, f.bottom+33, "length k of the list (log scale)")
	var xs, ys, chance []float64
	for k := 1; ; k = min(most, max(k+1, k+k/50)) { // evenly on the log scale: a rank may be huge
		xs, ys, chance = append(xs, px(k)), append(ys, f.py(share(k))), append(chance, f.py(float64(k)/float64(most)))
		if k == most {
			break
		}
	}
	c.poly("line mute dash", xs, chance, "chance: a random order")
	c.text("tick", px(most*3/10)+8, f.py(0.3)+12, "chance")
	c.poly("line c0", xs, ys, "")
	for _, k := range []int{1, 5, 10, 20, 50} {
		v := share(k)
		tip := fmt.Sprintf("first %d: %s of %s", k, frac(v), plural(len(ranks), "user"))
		c.dot("dot c0", px(k), f.py(v), 4, tip)
		x, y, class := math.Max(px(k)-7, f.left+40), f.py(v)-7, "fin ink"
		if k == 1 && f.py(v)+18 < f.bottom { // to its left is the axis
			x, y, class = px(k)+4, f.py(v)+17, "ink"
		}
		c.text(class, x, y, frac(v))
	}
	return c.html()
}

// fifth is users with about the same number of train rows.
type fifth struct{ lo, hi, n, hits int }

// fifths splits the evaluated users by train rows. Users with the same number
// stay together, so there may be less than five, of unequal size.
func fifths(users []User) []fifth {
	var seen []User
	for _, u := range users {
		if u.TestRank > 0 {
			seen = append(seen, u)
		}
	}
	slices.SortStableFunc(seen, func(a, b User) int { return a.Rows - b.Rows })
	var out []fifth
	bin, start := -1, 0
	for i, u := range seen {
		if i > 0 && u.Rows != seen[i-1].Rows {
			start = i
		}
		if b := 5 * start / len(seen); b != bin {
			bin = b
			out = append(out, fifth{lo: u.Rows})
		}
		q := &out[len(out)-1]
		q.hi = u.Rows
		q.n++
		if u.TestRank <= 10 {
			q.hits++
		}
	}
	return out
}

// wilson is the 95% interval of a share.
func wilson(hits, n int) (lo, hi float64) {
	const z = 1.96
	p, m := float64(hits)/float64(n), float64(n)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return math.Max(0, mid-half), math.Min(1, mid+half)
}

// activityBars draws the test HR@10 of users by their number of train rows.
func activityBars(users []User) template.HTML {
	qs := fifths(users)
	if len(qs) == 0 {
		return ""
	}
	top := 0.0
	for _, q := range qs {
		_, hi := wilson(q.hits, q.n)
		top = math.Max(top, hi)
	}
	f := frame{left: 42, right: chartW - 6, top: 36, bottom: chartH - 52, y: niceAxis(0, top, 5)}
	c := newCanvas(chartW, chartH, "Test HR@10 by the number of train rows of a user")
	c.text("unit", 0, 12, "test HR@10, with 95% interval")
	for _, v := range f.y.ticks() {
		c.line("grid", f.left, f.py(v), f.right, f.py(v))
		c.text("fin tick", f.left-6, f.py(v)+4, f.y.label(v))
	}
	step := (f.right - f.left) / float64(len(qs))
	w := math.Min(step*0.62, 60)
	for i, q := range qs {
		x := f.left + (float64(i)+0.5)*step
		p := float64(q.hits) / float64(q.n)
		lo, hi := wilson(q.hits, q.n)
		rows := span(q.lo, q.hi)
		if q.lo != q.hi {
			rows = fmt.Sprintf("%d–%d", q.lo, q.hi)
		}
		tip := fmt.Sprintf("%s train rows: %s of %s in the first 10, %s (95%%: %s to %s)", rows, count(q.hits),
			plural(q.n, "user"), frac(p), frac(lo), frac(hi))
		c.rect("bar c0", x-w/2, f.py(p), w, f.bottom-f.py(p), tip)
		c.line("halo", x, f.py(lo), x, f.py(hi))
		c.line("whisker", x, f.py(lo), x, f.py(hi))
		c.text("mid ink", x, f.py(hi)-5, frac(p))
		c.text("mid tick", x, f.bottom+16, rows)
		c.text("mid tick", x, f.bottom+32, "n "+count(q.n))
	}
	c.text("mid unit", (f.left+f.right)/2, f.bottom+49, "train rows of the user")
	return c.html()
}

// bar is a line of refBars; a NaN has no bar.
type bar struct {
	name, class string
	hr, ndcg    float64
	reason      string
}

// refBars draws the method beside the published number and the references.
func refBars(bars []bar) template.HTML {
	const step, left, right = 40.0, 96.0, chartW - 100
	c := newCanvas(chartW, 22+step*float64(len(bars)), "Test HR@10 and NDCG@10 of the method and the references")
	c.text("unit", 0, 12, "test, among sampled candidates (fraction)")
	c.line("grid", left, 20, left, c.h)
	for i, b := range bars {
		y := 26 + step*float64(i)
		c.text("fin ink", left-8, y+19, clip(b.name, 13))
		if math.IsNaN(b.hr) && math.IsNaN(b.ndcg) {
			c.text("tick", left+6, y+19, "none: "+clip(b.reason, 38))
			continue
		}
		for j, m := range []struct {
			name, class string
			v           float64
		}{{"HR@10", "bar ", b.hr}, {"NDCG@10", "bar pale ", b.ndcg}} {
			if math.IsNaN(m.v) {
				continue
			}
			w := m.v * (right - left)
			c.rect(m.class+b.class, left, y+16*float64(j), w, 13, fmt.Sprintf("%s %s %s", b.name, m.name, frac(m.v)))
			c.text("small", left+w+5, y+16*float64(j)+11, m.name+" "+frac(m.v))
		}
	}
	return c.html()
}

// rankTable holds the numbers of rankCurve.
func rankTable(users []User) *Table {
	t := &Table{Header: []string{"k", "hr@k"}}
	all := tested(users)
	for k := 1; k <= 100 && len(all) > 0; k++ {
		n := 0
		for _, u := range all {
			n += b2i(u.TestRank <= k)
		}
		t.Rows = append(t.Rows, []any{k, exact(float64(n) / float64(len(all)))})
	}
	return t
}

// fifthTable holds the numbers of activityBars.
func fifthTable(users []User) *Table {
	t := &Table{Header: []string{"least_train_rows", "most_train_rows", "users", "hr@10", "lower", "upper"}}
	for _, q := range fifths(users) {
		lo, hi := wilson(q.hits, q.n)
		t.Rows = append(t.Rows, []any{q.lo, q.hi, q.n, exact(float64(q.hits) / float64(q.n)), exact(lo), exact(hi)})
	}
	return t
}
