package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"unicode/utf8"
)

// Drawings are as wide as a phone; wider pages put several side by side. So text is never scaled down.
const (
	chartW, chartH = 400.0, 262.0
	glyph          = 6.9 // approximate width of a letter of 13 px
	mostVertices   = 240
	mostTips       = 60
	mostLabels     = 11
)

// Series is one line of a chart; X is increasing.
type Series struct {
	Label, Class string
	Full         string // the unabbreviated label; empty if it is the same
	X, Y         []float64
	Quiet        bool // has no label
	// The rest is for plots.
	Dots  bool      // points without a line
	Plain bool      // a line without points
	Bars  []float64 // half the length of a bar at each point
	Tips  []string
}

func (s *Series) Name() string { return cmp.Or(s.Full, s.Label) }

// LineChart is a chart of lines over rounds.
type LineChart struct {
	About, Unit string
	Lines       []Series
	Mark        float64 // the round to mark; 0 for none
	Format      func(float64) string
}

// Draw returns the chart; empty if there is nothing to draw.
func (l *LineChart) Draw() template.HTML {
	lo, hi, last, wide := math.Inf(1), math.Inf(-1), 1.0, 0
	for _, s := range l.Lines {
		for i, y := range s.Y {
			lo, hi, last = math.Min(lo, y), math.Max(hi, y), math.Max(last, s.X[i])
		}
		if !s.Quiet && len(s.X) > 0 {
			wide = max(wide, utf8.RuneCountInString(s.Label))
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
	c := newCanvas(chartW, chartH, l.About)
	f.axes(c, l.Unit, "round")
	if l.Mark > 0 {
		x := f.px(l.Mark)
		c.line("mark", x, f.top-4, x, f.bottom)
		anchor := "mid"
		if x > f.right-50 {
			anchor = "fin"
		}
		c.text(anchor+" ink", math.Max(x, 80), f.top-9, fmt.Sprintf("reported: round %g", l.Mark))
	}
	for _, s := range l.Lines {
		f.series(c, s, l.Mark, l.Format)
	}
	f.labels(c, l.Lines)
	l.tips(c, f)
	return c.html()
}

// frame is the area of a chart with its scales.
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

// thin returns at most n evenly spaced indices below size, including the last one.
func thin(size, n int) []int {
	var out []int
	step := max(1, int(math.Ceil(float64(size)/float64(n))))
	for i := (size - 1) % step; i < size; i += step {
		out = append(out, i)
	}
	return out
}

func (f *frame) series(c *canvas, s Series, mark float64, format func(float64) string) {
	if len(s.X) == 0 {
		return
	}
	var xs, ys []float64
	for _, i := range thin(len(s.X), mostVertices) {
		xs, ys = append(xs, f.px(s.X[i])), append(ys, f.py(s.Y[i]))
	}
	n := len(s.Y) - 1
	c.poly("line "+s.Class, xs, ys, fmt.Sprintf("%s: %s at round %g", s.Name(), format(s.Y[n]), s.X[n]))
	if len(xs) == 1 {
		c.dot("dot "+s.Class, xs[0], ys[0], 3, "")
	}
	if i := slices.Index(s.X, mark); i >= 0 && mark > 0 {
		c.dot("dot "+s.Class, f.px(mark), f.py(s.Y[i]), 4, "")
	}
}

// labels names lines at their ends: a dot in the line's colour, and the name in the colour of text, for contrast.
func (f *frame) labels(c *canvas, lines []Series) {
	var named []Series
	for _, s := range lines {
		if len(s.X) > 0 && !s.Quiet {
			named = append(named, s)
		}
	}
	end := func(s Series) float64 {
		if s.Dots { // points have no end
			return f.top
		}
		return f.py(s.Y[len(s.Y)-1])
	}
	named = named[:min(len(named), mostLabels)]
	slices.SortStableFunc(named, func(a, b Series) int {
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
		c.dot("dot "+s.Class, f.right+8, ys[i], 4, "")
		c.text("ink", f.right+16, ys[i]+4.5, s.Label)
	}
}

// tips adds a tooltip for each round, or for some of many rounds, if all lines have the same rounds.
func (l *LineChart) tips(c *canvas, f frame) {
	first := l.Lines[0].X
	for _, s := range l.Lines {
		if !slices.Equal(s.X, first) {
			return
		}
	}
	at := thin(len(first), mostTips)
	w := (f.right - f.left) / float64(max(len(at), 2)-1)
	for _, i := range at {
		tip := fmt.Sprintf("round %g", first[i])
		for _, s := range l.Lines {
			tip += fmt.Sprintf(" · %s %s", s.Label, l.Format(s.Y[i]))
		}
		x := f.px(first[i])
		from, to := math.Max(x-w/2, f.left), math.Min(x+w/2, f.right)
		c.rect("hit", from, f.top, to-from, f.bottom-f.top, tip)
	}
}
