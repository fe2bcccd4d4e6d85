package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"unicode/utf8"
)

// Drawings are as wide as a phone, and a wider page puts several side by side: so
// their text is never scaled to less than it was meant to be.
const (
	chartW, chartH = 400.0, 262.0
	glyph          = 6.9 // width of a letter of 13 px, about
	mostVertices   = 240
	mostTips       = 60
	mostLabels     = 11
)

// series is one line of a chart; xs rise.
type series struct {
	label, class string
	full         string // the label where there is room for all of it; empty for the same
	xs, ys       []float64
	quiet        bool // has no label of its own
	// The rest is for plots.
	dots  bool      // points without a line
	plain bool      // a line without points
	bars  []float64 // half the length of a bar at each point
	tips  []string
}

func (s *series) name() string { return cmp.Or(s.full, s.label) }

// lineChart has rounds on its horizontal axis.
type lineChart struct {
	about, unit string
	lines       []series
	mark        float64 // the round to mark; 0 for none
	format      func(float64) string
}

// draw returns nothing if there is nothing to draw.
func (l *lineChart) draw() template.HTML {
	lo, hi, last, wide := math.Inf(1), math.Inf(-1), 1.0, 0
	for _, s := range l.lines {
		for i, y := range s.ys {
			lo, hi, last = math.Min(lo, y), math.Max(hi, y), math.Max(last, s.xs[i])
		}
		if !s.quiet && len(s.xs) > 0 {
			wide = max(wide, utf8.RuneCountInString(s.label))
		}
	}
	if hi < lo {
		return ""
	}
	if lo > 0 && lo < 0.6*hi {
		lo = 0
	}
	f := frame{
		left: 42, right: chartW - 18 - glyph*float64(wide), top: 40, bottom: chartH - 36,
		x: axis{0, last, niceAxis(0, last, 5).step}, y: niceAxis(lo, hi, 5),
	}
	c := newCanvas(chartW, chartH, l.about)
	f.axes(c, l.unit, "round")
	if l.mark > 0 {
		x := f.px(l.mark)
		c.line("mark", x, f.top-4, x, f.bottom)
		anchor := "mid"
		if x > f.right-50 {
			anchor = "fin"
		}
		c.text(anchor+" ink", math.Max(x, 80), f.top-9, fmt.Sprintf("reported: round %g", l.mark))
	}
	for _, s := range l.lines {
		f.series(c, s, l.mark, l.format)
	}
	f.labels(c, l.lines)
	l.tips(c, f)
	return c.html()
}

// table holds the numbers of the chart.
func (l *lineChart) table(y string) *Table {
	p := plot{lines: l.lines}
	return p.table("round", y)
}

// frame is the area of a chart, and its scales.
type frame struct {
	left, right, top, bottom float64
	x, y                     axis
}

func (f *frame) px(x float64) float64 { return f.x.scale(x, f.left, f.right) }
func (f *frame) py(y float64) float64 { return f.y.scale(y, f.bottom, f.top) }

func (f *frame) axes(c *canvas, yUnit, xUnit string) {
	c.text("unit", 0, 12, yUnit)
	for _, v := range f.y.ticks() {
		y := f.py(v)
		c.line("grid", f.left, y, f.right, y)
		c.text("fin tick", f.left-6, y+4, f.y.label(v))
	}
	for v := 0.0; v <= f.x.hi+1e-9; v += f.x.step {
		c.line("grid", f.px(v), f.bottom, f.px(v), f.bottom+4)
		c.text("mid tick", f.px(v), f.bottom+17, f.x.label(v))
	}
	c.text("mid unit", (f.left+f.right)/2, f.bottom+33, xUnit)
}

// thin returns at most n indices below size, evenly, with the last one.
func thin(size, n int) []int {
	var out []int
	step := max(1, int(math.Ceil(float64(size)/float64(n))))
	for i := (size - 1) % step; i < size; i += step {
		out = append(out, i)
	}
	return out
}

func (f *frame) series(c *canvas, s series, mark float64, format func(float64) string) {
	if len(s.xs) == 0 {
		return
	}
	var xs, ys []float64
	for _, i := range thin(len(s.xs), mostVertices) {
		xs, ys = append(xs, f.px(s.xs[i])), append(ys, f.py(s.ys[i]))
	}
	n := len(s.ys) - 1
	c.poly("line "+s.class, xs, ys, fmt.Sprintf("%s: %s at round %g", s.name(), format(s.ys[n]), s.xs[n]))
	if len(xs) == 1 {
		c.dot("dot "+s.class, xs[0], ys[0], 3, "")
	}
	if i := slices.Index(s.xs, mark); i >= 0 && mark > 0 {
		c.dot("dot "+s.class, f.px(mark), f.py(s.ys[i]), 4, "")
	}
}

// labels names lines at their ends: a dot in the line's colour, and the name in
// that of the text, which has the contrast that a colour may lack.
func (f *frame) labels(c *canvas, lines []series) {
	var named []series
	for _, s := range lines {
		if len(s.xs) > 0 && !s.quiet {
			named = append(named, s)
		}
	}
	end := func(s series) float64 {
		if s.dots { // they have no end
			return f.top
		}
		return f.py(s.ys[len(s.ys)-1])
	}
	named = named[:min(len(named), mostLabels)]
	slices.SortStableFunc(named, func(a, b series) int {
		if d := end(a) - end(b); d != 0 {
			return int(math.Copysign(1, d))
		}
		return 0
	})
	var ys []float64
	for _, s := range named {
		ys = append(ys, end(s))
	}
	apart(ys, 16, f.top, f.bottom)
	for i, s := range named {
		c.dot("dot "+s.class, f.right+8, ys[i], 4, "")
		c.text("ink", f.right+16, ys[i]+4.5, s.label)
	}
}

// tips puts a tooltip over each round, or over each of some, if all lines have
// the same rounds.
func (l *lineChart) tips(c *canvas, f frame) {
	first := l.lines[0].xs
	for _, s := range l.lines {
		if !slices.Equal(s.xs, first) {
			return
		}
	}
	at := thin(len(first), mostTips)
	w := (f.right - f.left) / float64(max(len(at), 2)-1)
	for _, i := range at {
		tip := fmt.Sprintf("round %g", first[i])
		for _, s := range l.lines {
			tip += fmt.Sprintf(" · %s %s", s.label, l.format(s.ys[i]))
		}
		x := f.px(first[i])
		from, to := math.Max(x-w/2, f.left), math.Min(x+w/2, f.right)
		c.rect("hit", from, f.top, to-from, f.bottom-f.top, tip)
	}
}
