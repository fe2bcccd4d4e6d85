package chart

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// Plot is a chart of lines or points over numbers; LineChart is for rounds.
type Plot struct {
	About, X, Y string // what it shows, and the units of its axes
	Lines       []Series
	LogX, LogY  bool
	Names       []string  // names of the positions 0, 1, 2, ... if x is not a number
	YZero       bool      // the vertical axis starts at 0
	XZero       bool      // the horizontal axis starts at 0
	Ticks       []float64 // values of x with a label; chosen if nil
	XFormat     func(float64) string
	Format      func(float64) string
}

// Draw returns the plot; empty if there is nothing to draw.
func (p *Plot) Draw() template.HTML {
	if p.Format == nil {
		p.Format = format.Digits
	}
	if p.XFormat == nil {
		p.XFormat = format.Digits
	}
	var shown []Series
	wide := 0
	lo, hi, left, right := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range p.Lines {
		s = p.scaled(s)
		for i, y := range s.Y {
			lo, hi = math.Min(lo, y), math.Max(hi, y)
			left, right = math.Min(left, s.X[i]), math.Max(right, s.X[i])
		}
		if len(s.X) > 0 && !s.Quiet {
			wide = max(wide, utf8.RuneCountInString(s.Label))
		}
		shown = append(shown, s)
	}
	if hi < lo {
		return ""
	}
	f := frame{left: 46, right: chartW - 22 - glyph*float64(wide), top: 34, bottom: chartH - 38}
	if p.Names != nil {
		f.bottom -= 8
		f.x = axis{-0.5, float64(len(p.Names)) - 0.5, 1}
	} else if p.LogX {
		f.x = pad(axis{left, right, 1}, 0.04)
	} else {
		if p.XZero {
			left = math.Min(left, 0)
		}
		f.x = axis{left, right, niceAxis(left, right, 4).step}
		if p.Ticks != nil {
			f.x = pad(f.x, 0.05)
		} else {
			f.x = pad(f.x, 0)
		}
	}
	switch {
	case p.LogY:
		f.y = pad(axis{lo, hi, 1}, 0.04)
	case p.YZero || lo > 0 && lo < 0.4*hi:
		f.y = niceAxis(math.Min(lo, 0), hi, 5)
	default:
		f.y = niceAxis(lo, hi, 5)
	}
	c := newCanvas(chartW, chartH, p.About)
	p.axes(c, &f)
	for _, s := range shown {
		p.series(c, &f, s)
	}
	f.labels(c, shown)
	return c.html()
}

// scaled is a series without points that cannot be drawn, as logarithms on logarithmic axes.
func (p *Plot) scaled(s Series) Series {
	out := s
	out.X, out.Y, out.Tips = nil, nil, nil
	for i := range s.X {
		x, y := s.X[i], s.Y[i]
		tip := p.tip(s, i)
		if p.LogX {
			x = math.Log10(x)
		}
		if p.LogY {
			y = math.Log10(y)
		}
		if math.IsNaN(x+y) || math.IsInf(x, 0) || math.IsInf(y, 0) {
			continue
		}
		out.X, out.Y, out.Tips = append(out.X, x), append(out.Y, y), append(out.Tips, tip)
	}
	return out
}

func (p *Plot) tip(s Series, i int) string {
	if s.Tips != nil {
		return s.Tips[i]
	}
	at := p.XFormat(s.X[i])
	if k := int(s.X[i]); p.Names != nil && k >= 0 && k < len(p.Names) {
		at = p.Names[k]
	}
	return fmt.Sprintf("%s: %s at %s", s.Name(), p.Format(s.Y[i]), at)
}

func pad(a axis, by float64) axis {
	if !(a.hi > a.lo) {
		d := math.Max(0.5, 0.1*math.Abs(a.lo))
		return axis{a.lo - d, a.hi + d, a.step}
	}
	d := by * (a.hi - a.lo)
	return axis{a.lo - d, a.hi + d, a.step}
}

// decades returns the ticks of a logarithmic axis, as logarithms: powers of ten, and if there are few, also multiples
// of them.
func decades(a axis) []float64 {
	var out []float64
	for _, steps := range [][]float64{
		{1}, {1, 3}, {1, 2, 5}, {1, 2, 3, 5, 7}, {1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9},
	} {
		out = out[:0]
		for e := math.Floor(a.lo); e <= math.Ceil(a.hi); e++ {
			for _, k := range steps {
				if v := e + math.Log10(k); v >= a.lo-1e-9 && v <= a.hi+1e-9 {
					out = append(out, v)
				}
			}
		}
		if len(out) >= leastTicks {
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

// digits2 writes a setting without an exponent if possible.
func digits2(x float64) string {
	s := strconv.FormatFloat(x, 'g', 4, 64)
	if a := math.Abs(x); a >= 1e-4 && a < 1e6 {
		s = strconv.FormatFloat(x, 'f', -1, 64)
	}
	return format.Clip(s, 8)
}

// power writes 10 to the power of v.
func power(v float64) string {
	x, err := strconv.ParseFloat(strconv.FormatFloat(math.Pow(10, v), 'g', 2, 64), 64)
	if err != nil || x >= 1e6 || x < 1e-4 {
		return format.Digits(x)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func (p *Plot) axes(c *canvas, f *frame) {
	c.text("unit", 0, 12, p.Y)
	var ticks []float64
	if ticks = f.y.ticks(); p.LogY {
		ticks = decades(f.y)
	}
	for _, v := range ticks {
		label := f.y.label(v)
		if p.LogY {
			label = power(v)
		}
		c.line("grid", f.left, f.py(v), f.right, f.py(v))
		c.text("fin tick", f.left-6, f.py(v)+4, label)
	}
	p.ticks(c, f)
	unit := p.X
	if p.LogX {
		unit += " (log scale)"
	}
	c.text("mid unit", math.Max((f.left+f.right)/2, glyph*float64(len(unit))/2-8), chartH-4, unit)
}

// ticks labels the horizontal axis.
func (p *Plot) ticks(c *canvas, f *frame) {
	under := f.bottom + 17
	switch {
	case p.Names != nil:
		width := (f.right - f.left) / float64(len(p.Names))
		fit := max(3, int(width/6.6))
		for i, name := range p.Names {
			y := under
			if len(p.Names) > 3 && i%2 == 1 {
				y += 13 // two lines of names
			}
			if len(p.Names) > 3 {
				name = format.Clip(name, 2*fit-1)
			} else {
				name = format.Clip(name, fit)
			}
			c.text("mid tick", f.px(float64(i)), y, name)
		}
	case p.Ticks != nil:
		last := math.Inf(-1)
		for _, v := range p.Ticks {
			x := f.px(v)
			if p.LogX {
				x = f.px(math.Log10(v))
			}
			if c.line("grid", x, f.bottom, x, f.bottom+4); x-last > 34 { // room for a number
				c.text("mid tick", x, under, digits2(v))
				last = x
			}
		}
	case p.LogX:
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

func (p *Plot) series(c *canvas, f *frame, s Series) {
	var xs, ys []float64
	for _, i := range thin(len(s.X), mostVertices) {
		xs, ys = append(xs, f.px(s.X[i])), append(ys, f.py(s.Y[i]))
	}
	if len(xs) > 1 && !s.Dots {
		c.poly("line "+s.Class, xs, ys, "")
	}
	if s.Bars != nil {
		for i := range s.X {
			x, d := f.px(s.X[i]), s.Bars[i]
			c.line("whisker", x, f.py(s.Y[i]-d), x, f.py(s.Y[i]+d))
		}
	}
	if s.Plain {
		return
	}
	for _, i := range thin(len(s.X), mostTips*4) {
		r := 3.5
		if len(s.X) > 40 && !s.Dots {
			r = 2
		}
		c.dot("dot "+s.Class, f.px(s.X[i]), f.py(s.Y[i]), r, s.Tips[i])
	}
}
