// Package chart draws SVG charts from plain numbers. It knows no runs, methods or files.
//
// Every Draw function returns an empty string if there is nothing to draw. Colours are classes of the page's style
// sheet; labels and tips are escaped.
package chart

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// canvas is a drawing under construction. Colours are classes of the page's style sheet, which has a light and a dark
// theme. Text is escaped; classes are not, and must be constants.
type canvas struct {
	b    strings.Builder
	w, h float64
}

func newCanvas(w, h float64, about string) *canvas {
	c := &canvas{w: w, h: h}
	c.b.WriteString(`<svg viewBox="0 0 ` + num(w) + " " + num(h) + `" role="img" aria-label="` + esc(about) + `">`)
	return c
}

func (c *canvas) html() template.HTML {
	c.b.WriteString("</svg>")
	return template.HTML(c.b.String())
}

func esc(s string) string { return template.HTMLEscapeString(format.Clean(s)) }

// num writes a coordinate with one decimal.
func num(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
}

func (c *canvas) open(tag, class string, xy ...any) {
	c.b.WriteString("<" + tag)
	if class != "" {
		c.b.WriteString(` class="` + class + `"`)
	}
	for i := 0; i < len(xy); i += 2 {
		c.b.WriteString(" " + xy[i].(string) + `="`)
		switch v := xy[i+1].(type) {
		case float64:
			c.b.WriteString(num(v))
		case string:
			c.b.WriteString(esc(v))
		}
		c.b.WriteString(`"`)
	}
}

// end closes an element, with the tooltip tip unless tip is empty.
func (c *canvas) end(tag, tip string) {
	if tip == "" {
		c.b.WriteString("/>")
		return
	}
	c.b.WriteString("><title>" + esc(tip) + "</title></" + tag + ">")
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	c.open("line", class, "x1", x1, "y1", y1, "x2", x2, "y2", y2)
	c.end("line", "")
}

func (c *canvas) rect(class string, x, y, w, h float64, tip string) {
	c.open("rect", class, "x", x, "y", y, "width", math.Max(w, 0), "height", math.Max(h, 0))
	c.end("rect", tip)
}

func (c *canvas) dot(class string, x, y, r float64, tip string) {
	c.open("circle", class, "cx", x, "cy", y, "r", r)
	c.end("circle", tip)
}

func (c *canvas) text(class string, x, y float64, s string) {
	c.open("text", class, "x", x, "y", y)
	c.b.WriteString(">" + esc(s) + "</text>")
}

func (c *canvas) poly(class string, xs, ys []float64, tip string) {
	var p strings.Builder
	for i := range xs {
		if i > 0 {
			p.WriteByte(' ')
		}
		p.WriteString(num(xs[i]) + "," + num(ys[i]))
	}
	c.open("polyline", class, "points", p.String())
	c.end("polyline", tip)
}

// axis is a range with round ticks.
type axis struct {
	lo, hi, step float64
}

// leastTicks is the number of ticks that an axis has between its ends, at least.
const leastTicks = 4

// niceAxis covers lo to hi with about n ticks at 1, 2 or 5 times a power of ten, and at least leastTicks of them
// between lo and hi.
func niceAxis(lo, hi float64, n int) axis {
	const most = 1e300 // differences stay finite
	lo, hi = math.Max(lo, -most), math.Min(hi, most)
	if !(hi > lo) {
		pad := math.Max(math.Abs(lo)*0.1, 1e-3)
		lo, hi = lo-pad, hi+pad
	}
	raw := (hi - lo) / float64(n)
	mag := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * mag
	for _, k := range []float64{1, 2, 5} {
		if raw <= k*mag*(1+1e-9) {
			step = k * mag
			break
		}
	}
	for math.Floor(hi/step+1e-9)-math.Ceil(lo/step-1e-9)+1 < leastTicks {
		if digit := math.Round(step / math.Pow(10, math.Floor(math.Log10(step)+1e-9))); digit == 5 {
			step *= 0.4 // from 5 to 2; the others halve
		} else {
			step *= 0.5
		}
	}
	return axis{math.Floor(lo/step+1e-9) * step, math.Ceil(hi/step-1e-9) * step, step}
}

// ticks returns the values with a label.
func (a axis) ticks() []float64 {
	var out []float64
	n := int(math.Round((a.hi - a.lo) / a.step))
	for i := 0; i <= n && i <= 20; i++ {
		out = append(out, a.lo+float64(i)*a.step)
	}
	return out
}

// label writes a tick with as many digits as its step needs.
func (a axis) label(v float64) string {
	if math.Abs(v) < a.step*1e-9 {
		return "0"
	}
	if a.step >= 1e6 || a.step < 1e-6 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	places := max(0, int(-math.Floor(math.Log10(a.step)+1e-9)))
	return strings.Replace(strconv.FormatFloat(v, 'f', places, 64), "0.", ".", min(1, b2i(math.Abs(v) < 1)))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// scale maps a value to pixels between from and to, and clamps it.
func (a axis) scale(v, from, to float64) float64 {
	t := (v - a.lo) / (a.hi - a.lo)
	return from + math.Max(0, math.Min(1, t))*(to-from)
}

// apart moves sorted heights until they are gap apart, within lo and hi if there is room.
func apart(ys []float64, gap, lo, hi float64) {
	for i := range ys {
		if i > 0 {
			ys[i] = math.Max(ys[i], ys[i-1]+gap)
		}
	}
	for i := len(ys) - 1; i >= 0; i-- {
		limit := hi
		if i < len(ys)-1 {
			limit = ys[i+1] - gap
		}
		ys[i] = math.Max(math.Min(ys[i], limit), lo)
	}
}

// Standalone returns a drawing as an SVG file with a name space, a size, a style and a background.
func Standalone(drawing template.HTML, style string) []byte {
	open, rest, _ := strings.Cut(string(drawing), ">")
	box := open[strings.Index(open, `viewBox="0 0 `)+len(`viewBox="0 0 `):]
	size, _, _ := strings.Cut(box, `"`)
	_, about, _ := strings.Cut(open, "role=")
	var w, h float64
	if _, err := fmt.Sscan(size, &w, &h); err != nil {
		w, h = chartW, chartH
	}
	const margin = 12
	return fmt.Appendf(nil, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"%d %d %s %s\" width=\"%s\" "+
		"height=\"%s\" role=%s>\n<style>\n%s</style>\n"+
		"<rect x=\"%d\" y=\"%d\" width=\"100%%\" height=\"100%%\" fill=\"var(--panel)\"/>%s\n",
		-margin, -margin, num(w+2*margin), num(h+2*margin), num(w+2*margin), num(h+2*margin), about, style, -margin,
		-margin, rest)
}
