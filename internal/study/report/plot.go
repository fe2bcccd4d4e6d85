package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// plot is a chart of lines or points over numbers; rounds have lineChart.
type plot struct {
	about, x, y string // what it shows, and the units of its axes
	lines       []series
	logX, logY  bool
	names       []string  // of the places 0, 1, 2, ... where x has no numbers
	fromZero    bool      // the vertical axis starts at 0
	xZero       bool      // and the horizontal one
	at          []float64 // where x is labelled; found out if nil
	xFormat     func(float64) string
	format      func(float64) string
}

// table holds the numbers of a plot, for whoever wants to draw it differently.
func (p *plot) table(x, y string) *Table {
	t := &Table{Header: []string{"series", x, y}}
	for _, s := range p.lines {
		for i := range s.xs {
			at := any(exact(s.xs[i]))
			if k := int(s.xs[i]); p.names != nil && k >= 0 && k < len(p.names) {
				at = p.names[k]
			}
			t.Rows = append(t.Rows, []any{s.name(), at, exact(s.ys[i])})
		}
	}
	return t
}

// exact writes a number with the digits that files of figures have.
func exact(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 9, 64)
}

// draw returns nothing if there is nothing to draw.
func (p *plot) draw() template.HTML {
	if p.format == nil {
		p.format = digits
	}
	if p.xFormat == nil {
		p.xFormat = digits
	}
	var shown []series
	wide := 0
	lo, hi, left, right := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range p.lines {
		s = p.scaled(s)
		for i, y := range s.ys {
			lo, hi = math.Min(lo, y), math.Max(hi, y)
			left, right = math.Min(left, s.xs[i]), math.Max(right, s.xs[i])
		}
		if len(s.xs) > 0 && !s.quiet {
			wide = max(wide, utf8.RuneCountInString(s.label))
		}
		shown = append(shown, s)
	}
	if hi < lo {
		return ""
	}
	f := frame{left: 46, right: chartW - 22 - glyph*float64(wide), top: 34, bottom: chartH - 38}
	if p.names != nil {
		f.bottom -= 8
		f.x = axis{-0.5, float64(len(p.names)) - 0.5, 1}
	} else if p.logX {
		f.x = pad(axis{left, right, 1}, 0.04)
	} else {
		if p.xZero {
			left = math.Min(left, 0)
		}
		f.x = axis{left, right, niceAxis(left, right, 4).step}
		if p.at != nil {
			f.x = pad(f.x, 0.05)
		} else {
			f.x = pad(f.x, 0)
		}
	}
	switch {
	case p.logY:
		f.y = pad(axis{lo, hi, 1}, 0.04)
	case p.fromZero || lo > 0 && lo < 0.4*hi:
		f.y = niceAxis(math.Min(lo, 0), hi, 5)
	default:
		f.y = niceAxis(lo, hi, 5)
	}
	c := newCanvas(chartW, chartH, p.about)
	p.axes(c, &f)
	for _, s := range shown {
		p.series(c, &f, s)
	}
	f.labels(c, shown)
	return c.html()
}

// scaled is a series without what cannot be drawn, as logarithms where asked for.
func (p *plot) scaled(s series) series {
	out := s
	out.xs, out.ys, out.tips = nil, nil, nil
	for i := range s.xs {
		x, y := s.xs[i], s.ys[i]
		tip := p.tip(s, i)
		if p.logX {
			x = math.Log10(x)
		}
		if p.logY {
			y = math.Log10(y)
		}
		if math.IsNaN(x+y) || math.IsInf(x, 0) || math.IsInf(y, 0) {
			continue
		}
		out.xs, out.ys, out.tips = append(out.xs, x), append(out.ys, y), append(out.tips, tip)
	}
	return out
}

func (p *plot) tip(s series, i int) string {
	if s.tips != nil {
		return s.tips[i]
	}
	at := p.xFormat(s.xs[i])
	if k := int(s.xs[i]); p.names != nil && k >= 0 && k < len(p.names) {
		at = p.names[k]
	}
	return fmt.Sprintf("%s: %s at %s", s.name(), p.format(s.ys[i]), at)
}

func pad(a axis, by float64) axis {
	if !(a.hi > a.lo) {
		d := math.Max(0.5, 0.1*math.Abs(a.lo))
		return axis{a.lo - d, a.hi + d, a.step}
	}
	d := by * (a.hi - a.lo)
	return axis{a.lo - d, a.hi + d, a.step}
}

// decades are the ticks of a logarithmic axis, as logarithms: powers of ten, or
// 1, 2 and 5 times them where there are few.
func decades(a axis) []float64 {
	var out []float64
	for _, steps := range [][]float64{{1}, {1, 3}, {1, 2, 5}} {
		out = out[:0]
		for e := math.Floor(a.lo); e <= math.Ceil(a.hi); e++ {
			for _, k := range steps {
				if v := e + math.Log10(k); v >= a.lo-1e-9 && v <= a.hi+1e-9 {
					out = append(out, v)
				}
			}
		}
		if len(out) >= 3 {
			break
		}
	}
	if n := len(out); n > 7 {
		out = slices.DeleteFunc(out, func(v float64) bool {
			return math.Mod(math.Round(v-out[0]),
				math.Ceil(float64(n)/6)) != 0
		})
	}
	return out
}

// digits2 writes a setting as people do.
func digits2(x float64) string {
	s := strconv.FormatFloat(x, 'g', 4, 64)
	if a := math.Abs(x); a >= 1e-4 && a < 1e6 {
		s = strconv.FormatFloat(x, 'f', -1, 64)
	}
	return clip(s, 8)
}

// power writes ten to the v.
func power(v float64) string {
	x, err := strconv.ParseFloat(strconv.FormatFloat(math.Pow(10, v), 'g', 2, 64), 64)
	if err != nil || x >= 1e6 || x < 1e-4 {
		return digits(x)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func (p *plot) axes(c *canvas, f *frame) {
	c.text("unit", 0, 12, p.y)
	var ticks []float64
	if ticks = f.y.ticks(); p.logY {
		ticks = decades(f.y)
	}
	for _, v := range ticks {
		label := f.y.label(v)
		if p.logY {
			label = power(v)
		}
		c.line("grid", f.left, f.py(v), f.right, f.py(v))
		c.text("fin tick", f.left-6, f.py(v)+4, label)
	}
	p.ticks(c, f)
	unit := p.x
	if p.logX {
		unit += " (log scale)"
	}
	c.text("mid unit", math.Max((f.left+f.right)/2, glyph*float64(len(unit))/2-8), chartH-4, unit)
}

// ticks labels the horizontal axis.
func (p *plot) ticks(c *canvas, f *frame) {
	under := f.bottom + 17
	switch {
	case p.names != nil:
		width := (f.right - f.left) / float64(len(p.names))
		fit := max(3, int(width/6.6))
		for i, name := range p.names {
			y := under
			if len(p.names) > 3 && i%2 == 1 {
				y += 13 // two lines of names
			}
			if len(p.names) > 3 {
				name = clip(name, 2*fit-1)
			} else {
				name = clip(name, fit)
			}
			c.text("mid tick", f.px(float64(i)), y, name)
		}
	case p.at != nil:
		last := math.Inf(-1)
		for _, v := range p.at {
			x := f.px(v)
			if p.logX {
				x = f.px(math.Log10(v))
			}
			if c.line("grid", x, f.bottom, x, f.bottom+4); x-last > 34 { // room for a number
				c.text("mid tick", x, under, digits2(v))
				last = x
			}
		}
	case p.logX:
		for _, v := range decades(f.x) {
			c.line("grid", f.px(v), f.bottom, f.px(v), f.bottom+4)
			c.text("mid tick", f.px(v), under, power(v))
		}
	default:
		first := math.Ceil(f.x.lo/f.x.step - 1e-9)
		for k := range 20 {
			v := (first + float64(k)) * f.x.step
			if v > f.x.hi+1e-9*f.x.step {
				break
			}
			c.line("grid", f.px(v), f.bottom, f.px(v), f.bottom+4)
			c.text("mid tick", f.px(v), under, f.x.label(v))
		}
	}
}

func (p *plot) series(c *canvas, f *frame, s series) {
	var xs, ys []float64
	for _, i := range thin(len(s.xs), mostVertices) {
		xs, ys = append(xs, f.px(s.xs[i])), append(ys, f.py(s.ys[i]))
	}
	if len(xs) > 1 && !s.dots {
		c.poly("line "+s.class, xs, ys, "")
	}
	if s.bars != nil {
		for i := range s.xs {
			x, d := f.px(s.xs[i]), s.bars[i]
			c.line("whisker", x, f.py(s.ys[i]-d), x, f.py(s.ys[i]+d))
		}
	}
	if s.plain {
		return
	}
	for _, i := range thin(len(s.xs), mostTips*4) {
		r := 3.5
		if len(s.xs) > 40 && !s.dots {
			r = 2
		}
		c.dot("dot "+s.class, f.px(s.xs[i]), f.py(s.ys[i]), r, s.tips[i])
	}
}
