package chart

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// HitRateCurve draws the share of users whose test item is among the first k candidates, for every k: the hit
// rate for lists of any length. Ranks start at 1.
func HitRateCurve(ranks []int) template.HTML {
	if len(ranks) == 0 {
		return ""
	}
	ranks = slices.Sorted(slices.Values(ranks))
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
	f.yAxis(c)
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
		tip := fmt.Sprintf("first %d: %s of %s", k, format.Fraction(v), format.Plural(len(ranks), "user"))
		c.dot("dot c0", px(k), f.py(v), 4, tip)
		x, y, class := math.Max(px(k)-7, f.left+40), f.py(v)-7, "fin ink"
		if k == 1 && f.py(v)+18 < f.bottom { // to its left is the axis
			x, y, class = px(k)+4, f.py(v)+17, "ink"
		}
		c.text(class, x, y, format.Fraction(v))
	}
	return c.html()
}

// IntervalBar is a bar with an interval; Under is a second line below its label.
type IntervalBar struct {
	Label, Under, Tip string
	Value, Lo, Hi     float64
}

// IntervalBars draws bars with intervals from zero.
func IntervalBars(about, unit, x string, bars []IntervalBar) template.HTML {
	if len(bars) == 0 {
		return ""
	}
	top := 0.0
	for _, b := range bars {
		top = math.Max(top, b.Hi)
	}
	f := frame{left: 42, right: chartW - 6, top: 36, bottom: chartH - 52, y: niceAxis(0, top, 5)}
	c := newCanvas(chartW, chartH, about)
	c.text("unit", 0, 12, unit)
	f.yAxis(c)
	step := (f.right - f.left) / float64(len(bars))
	w := math.Min(step*0.62, 60)
	for i, b := range bars {
		x := f.left + (float64(i)+0.5)*step
		c.rect("bar c0", x-w/2, f.py(b.Value), w, f.bottom-f.py(b.Value), b.Tip)
		f.whisker(c, x, b.Lo, b.Hi)
		c.text("mid ink", x, f.py(b.Hi)-5, format.Fraction(b.Value))
		c.text("mid tick", x, f.bottom+16, b.Label)
		c.text("mid tick", x, f.bottom+32, b.Under)
	}
	c.text("mid unit", (f.left+f.right)/2, f.bottom+49, x)
	return c.html()
}

// RangeBar is the median of a group, with the range of its values.
type RangeBar struct {
	Lo, Median, Hi int
	Tip            string
}

// RankBars draws the median rank of each group of users, with a line at rank 10; the last bar has another
// colour.
func RankBars(about, unit, x, under string, bars []RangeBar) template.HTML {
	most := 10
	for _, b := range bars {
		most = max(most, b.Hi)
	}
	f := frame{left: 42, right: chartW - 6, top: 30, bottom: chartH - 52, y: niceAxis(0, float64(most), 5)}
	c := newCanvas(chartW, chartH, about)
	c.text("unit", 0, 12, unit)
	f.yAxis(c)
	step := (f.right - f.left) / float64(len(bars))
	for i, b := range bars {
		class := "bar c0"
		if i == len(bars)-1 {
			class = "bar c1"
		}
		x := f.left + (float64(i)+0.5)*step
		y := f.py(float64(b.Median))
		c.rect(class, x-step*0.34, y, step*0.68, f.bottom-y, b.Tip)
		f.whisker(c, x, float64(b.Lo), float64(b.Hi))
		c.text("mid ink", x, math.Max(f.py(float64(b.Hi))-5, f.top-6), fmt.Sprint(b.Median))
		c.text("mid tick", x, f.bottom+16, fmt.Sprint(i+1))
	}
	if ten := f.py(10); ten < f.bottom-6 {
		c.line("mark", f.left, ten, f.right, ten)
		c.text("fin tick", f.left-6, ten+4, "10")
	}
	c.text("mid unit", (f.left+f.right)/2, f.bottom+33, x)
	c.text("mid unit", (f.left+f.right)/2, f.bottom+48, under)
	return c.html()
}

// ShareBars draws two shares for each tenth of the catalogue: of the train rows and of the recommendations.
func ShareBars(about string, rows, recommended []float64) template.HTML {
	top := 0.0
	for k := range rows {
		top = math.Max(top, math.Max(rows[k], recommended[k]))
	}
	if len(rows) == 0 || !(top > 0) || top > 1.01 {
		return ""
	}
	f := frame{left: 42, right: chartW - 6, top: 48, bottom: chartH - 36, y: niceAxis(0, top, 5)}
	c := newCanvas(chartW, chartH, about)
	c.text("unit", 0, 12, "share")
	c.rect("bar mute", 4, 20, 11, 11, "")
	c.text("small", 20, 30, "of the train rows")
	c.rect("bar c0", 140, 20, 11, 11, "")
	c.text("small", 156, 30, "of the places in the lists of ten")
	f.yAxis(c)
	step := (f.right - f.left) / float64(len(rows))
	for k := range rows {
		x := f.left + (float64(k)+0.5)*step
		draw := func(class, what string, at, v float64) {
			tip := fmt.Sprintf("tenth %d: %.1f%% %s", k+1, 100*v, what)
			c.rect(class, at, f.py(v), step*0.38, f.bottom-f.py(v), tip)
		}
		draw("bar mute", "of the train rows", x-step*0.38, rows[k])
		draw("bar c0", "of the recommendations", x, recommended[k])
		c.text("mid tick", x, f.bottom+16, fmt.Sprint(k+1))
	}
	c.text("mid unit", (f.left+f.right)/2, f.bottom+33, "tenth of the catalogue, most popular first")
	return c.html()
}

// TitleBar is a bar below a title of any length; its value is a share.
type TitleBar struct {
	Title, Tip string
	Value      float64
}

// TitleBars draws horizontal bars, each below its title.
func TitleBars(about, unit string, bars []TitleBar) template.HTML {
	const step, left = 36.0, 6.0
	top := 0.0
	for _, b := range bars {
		top = math.Max(top, b.Value)
	}
	if !(top > 0) || math.IsInf(top, 0) {
		return ""
	}
	c := newCanvas(chartW, 22+step*float64(len(bars)), about)
	c.text("unit", 0, 12, unit)
	for i, b := range bars {
		y := 24 + step*float64(i)
		c.text("ink", left, y+10, format.Clip(b.Title, 44))
		w := math.Max(0, b.Value/top) * (chartW - left - 60)
		c.rect("bar c0", left, y+15, w, 11, b.Tip)
		c.text("small", left+w+6, y+25, fmt.Sprintf("%.1f%%", 100*b.Value))
	}
	return c.html()
}

// yAxis draws the vertical axis: grid lines and labels.
func (f *frame) yAxis(c *canvas) {
	for _, v := range f.y.ticks() {
		c.line("grid", f.left, f.py(v), f.right, f.py(v))
		c.text("fin tick", f.left-6, f.py(v)+4, f.y.label(v))
	}
}

// whisker draws an interval as a vertical line that is visible on bars.
func (f *frame) whisker(c *canvas, x, lo, hi float64) {
	c.line("halo", x, f.py(lo), x, f.py(hi))
	c.line("whisker", x, f.py(lo), x, f.py(hi))
}

// Bar is a pair of metrics in MetricBars; NaN draws no bar.
type Bar struct {
	Name, Class string
	HR, NDCG    float64
	Reason      string
}

// MetricBars draws HR@10 and NDCG@10 of each bar.
func MetricBars(bars []Bar) template.HTML {
	const step, left, right = 40.0, 96.0, chartW - 100
	c := newCanvas(chartW, 22+step*float64(len(bars)), "Test HR@10 and NDCG@10 of the method and the references")
	c.text("unit", 0, 12, "test, among sampled candidates (fraction)")
	c.line("grid", left, 20, left, c.h)
	for i, b := range bars {
		y := 26 + step*float64(i)
		c.text("fin ink", left-8, y+19, format.Clip(b.Name, 13))
		if math.IsNaN(b.HR) && math.IsNaN(b.NDCG) {
			c.text("tick", left+6, y+19, format.Clip(b.Reason, 44))
			continue
		}
		for j, m := range []struct {
			name, class string
			v           float64
		}{{"HR@10", "bar ", b.HR}, {"NDCG@10", "bar pale ", b.NDCG}} {
			if math.IsNaN(m.v) {
				continue
			}
			w := m.v * (right - left)
			c.rect(m.class+b.Class, left, y+16*float64(j), w, 13, fmt.Sprintf("%s %s %s", b.Name, m.name,
				format.Fraction(m.v)))
			c.text("small", left+w+5, y+16*float64(j)+11, m.name+" "+format.Fraction(m.v))
		}
	}
	return c.html()
}

// BarGroup is one name with a value for each series of GroupBars; NaN draws no bar.
type BarGroup struct {
	Name   string
	Values []float64
	Muted  bool // a reference
}

// GroupBars draws fractions as horizontal bars: for each name a bar of each series, in the colours c0, c1 and so on.
func GroupBars(about, unit string, series []string, groups []BarGroup) template.HTML {
	const bar, gap, left, right = 15.0, 13.0, 96.0, chartW - 42
	if len(series) == 0 || len(groups) == 0 {
		return ""
	}
	step := bar*float64(len(series)) + gap
	top := 26 + 17*float64(len(series))
	f := frame{left: left, right: right, top: top, bottom: top + step*float64(len(groups)), x: axis{0, 1, 0.2}}
	c := newCanvas(chartW, f.bottom+22, about)
	c.text("unit", 0, 12, unit)
	for k, name := range series {
		y := 20 + 17*float64(k)
		c.rect(fmt.Sprintf("bar c%d", k%7), left, y, 11, 11, "")
		c.text("small", left+16, y+10, format.Clip(name, 46))
	}
	for _, v := range f.x.ticks() {
		c.line("grid", f.px(v), f.top, f.px(v), f.bottom)
		c.text("mid tick", f.px(v), f.bottom+16, f.x.label(v))
	}
	for i, g := range groups {
		y := f.top + gap/2 + step*float64(i)
		class := "fin ink"
		if g.Muted {
			class = "fin small"
		}
		c.text(class, left-8, y+bar*float64(len(series))/2+4, format.Clip(g.Name, 13))
		for k, v := range g.Values {
			if math.IsNaN(v) {
				continue
			}
			at := y + bar*float64(k)
			pale := ""
			if g.Muted {
				pale = " pale"
			}
			w := math.Max(0, math.Min(v, 1)) * (right - left)
			c.rect(fmt.Sprintf("bar c%d%s", k%7, pale), left, at, w, bar-2,
				fmt.Sprintf("%s, %s: %s", g.Name, series[k], format.Fraction(v)))
			c.text("small", left+w+5, at+bar-4, format.Fraction(v))
		}
	}
	return c.html()
}
