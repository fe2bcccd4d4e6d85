package chart

import (
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// panelStyle makes a picture of panels readable outside of a page.
const panelStyle = `<style>text{font:13px system-ui,sans-serif;fill:#222}.head{font-weight:600}` +
	`.unit,.small,.tick{fill:#555;font-size:12px}` +
	`.fin{text-anchor:end}.mid{text-anchor:middle}.c0{fill:#0072b2}.c1{fill:#d55e00}.mute{fill:#888}` +
	`.ring{fill:none;stroke:#222;stroke-width:1.5}` +
	`.bar.c0{fill:#0072b2;opacity:.25}.bar.mute{fill:#888;opacity:.25}.paper{fill:#fff}.grid{stroke:#ddd}` +
	`.line{stroke:#222;stroke-width:1.5}</style>`

// lineHeight is the height of a row of a panel.
const lineHeight = 22.0

// PanelRow is a value of a panel with its standard deviation. Ring is a second value, drawn as a ring; NaN for
// none.
type PanelRow struct {
	Value, SD, Ring    float64
	Muted              bool
	Text, Tip, RingTip string
}

// Panel is a column of values; a nil row was not run.
type Panel struct {
	Title, Subtitle string
	Rows            []*PanelRow
}

// LogPanel is a column of positive amounts on a logarithmic scale; an amount of 0 is not drawn.
type LogPanel struct {
	Title, Subtitle string
	Values          []float64
	Format          func(float64) string
}

// DrawPanel draws one panel for a page.
func DrawPanel(about string, names []string, p Panel) template.HTML {
	const left, top = 132.0, 44.0
	c := newCanvas(chartW, top+lineHeight*float64(len(names))+30, about)
	for i, name := range names {
		c.text("fin small", left-8, top+lineHeight*(float64(i)+0.5)+4, format.Clip(name, 22))
	}
	c.panel(p, left, chartW-left, top)
	return c.html()
}

// WritePanels writes panels side by side as an SVG file, with a legend for plain rows, muted rows and rings.
func WritePanels(w io.Writer, about, title string, names []string, panels []Panel, amounts LogPanel,
	legend [3]string,
) error {
	const left, top, wide, gap = 176.0, 66.0, 168.0, 26.0
	bottom := top + lineHeight*float64(len(names))
	c := &canvas{w: left + (wide+gap)*float64(len(panels)+1), h: bottom + 58}
	c.file(about, panelStyle)
	c.text("head", 12, 20, title)
	for i, name := range names {
		c.text("fin", left-12, top+lineHeight*(float64(i)+0.5)+4, name)
	}
	for k, p := range panels {
		c.panel(p, left+(wide+gap)*float64(k), wide, top)
	}
	c.logPanel(amounts, left+(wide+gap)*float64(len(panels)), wide, top)
	c.dot("c0", 18, c.h-14, 5, "")
	c.text("unit", 30, c.h-10, legend[0])
	c.dot("mute", 118, c.h-14, 5, "")
	c.text("unit", 130, c.h-10, legend[1])
	c.dot("ring", 318, c.h-14, 5, "")
	c.text("unit", 330, c.h-10, legend[2])
	return c.writeTo(w)
}

// panel draws a dot for each row, with a bar from zero.
func (c *canvas) panel(p Panel, x0, wide, top float64) {
	hi := 0.0
	for _, r := range p.Rows {
		if r == nil {
			continue
		}
		hi = max(hi, r.Value+r.SD)
		if !math.IsNaN(r.Ring) {
			hi = max(hi, r.Ring)
		}
	}
	bottom := top + lineHeight*float64(len(p.Rows))
	ax := niceAxis(0, max(hi, 1e-3), 4)
	px := func(v float64) float64 { return x0 + v/ax.hi*(wide-44) }
	c.text("head", x0, top-26, p.Title)
	c.text("unit", x0, top-10, p.Subtitle)
	for _, v := range ax.ticks() {
		c.line("grid", px(v), top, px(v), bottom)
		c.text("mid tick", px(v), bottom+16, ax.label(v))
	}
	for i, r := range p.Rows {
		y := top + lineHeight*(float64(i)+0.5)
		if r == nil {
			c.text("small", x0+4, y+4, "not run")
			continue
		}
		class := "c0"
		if r.Muted {
			class = "mute"
		}
		c.rect("bar "+class, x0, y-6, px(r.Value)-x0, 12, "")
		c.line("line", px(max(r.Value-r.SD, 0)), y, px(r.Value+r.SD), y)
		c.dot("dot "+class, px(r.Value), y, 4.5, r.Tip)
		right := r.Value + r.SD
		if !math.IsNaN(r.Ring) {
			c.dot("ring", px(r.Ring), y, 5.5, r.RingTip)
			right = max(right, r.Ring)
		}
		c.text("small", px(right)+9, y+4, r.Text)
	}
}

func (c *canvas) logPanel(p LogPanel, x0, wide, top float64) {
	c.text("head", x0, top-26, p.Title)
	c.text("unit", x0, top-10, p.Subtitle)
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range p.Values {
		if v > 0 {
			lo, hi = min(lo, math.Log10(v)), max(hi, math.Log10(v))
		}
	}
	if hi < lo {
		return
	}
	lo, hi = math.Floor(lo), math.Ceil(max(hi, 0)+1e-9)
	px := func(v float64) float64 { return x0 + (v-lo)/max(hi-lo, 1)*(wide-60) }
	bottom := top + lineHeight*float64(len(p.Values))
	for v := lo; v <= hi; v++ {
		c.line("grid", px(v), top, px(v), bottom)
	}
	c.text("mid tick", px(lo), bottom+16, p.Format(math.Pow(10, lo)))
	c.text("mid tick", px(hi), bottom+16, p.Format(math.Pow(10, hi)))
	for i, amount := range p.Values {
		if !(amount > 0) {
			continue
		}
		y := top + lineHeight*(float64(i)+0.5)
		v := math.Log10(amount)
		c.rect("bar c0", x0, y-6, px(v)-x0, 12, "")
		c.dot("dot c0", px(v), y, 4.5, "")
		c.text("small", px(v)+9, y+4, p.Format(math.Pow(10, v)))
	}
}

// file starts a drawing that is a file: with a name space, a size, a style and a white ground.
func (c *canvas) file(about, style string) {
	fmt.Fprintf(&c.b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">%s`,
		num(c.w), num(c.h), num(c.w), num(c.h), esc(about), style)
	c.rect("paper", 0, 0, c.w, c.h, "")
}

func (c *canvas) writeTo(w io.Writer) error {
	c.b.WriteString("</svg>\n")
	_, err := io.WriteString(w, c.b.String())
	return err
}
