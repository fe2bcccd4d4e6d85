package chart

import (
	"fmt"
	"io"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// pairStyle makes a picture of pairs readable outside of a page.
const pairStyle = `<style>text{font:13px system-ui,sans-serif;fill:#222}.head{font-weight:600}` +
	`.unit{fill:#555;font-size:12px}` +
	`.fin{text-anchor:end}.c0{fill:#0072b2}.c1{fill:#d55e00}.ink{fill:#222}.paper{fill:#fff}` +
	`.grid{stroke:#ddd}.bond{stroke:#bbb;stroke-width:3}.tick{fill:#555;font-size:12px;text-anchor:middle}</style>`

// Pair is the value of one thing under two conditions.
type Pair struct {
	Name   string
	Values [2]float64
	Muted  bool
}

// WritePairs writes pairs of fractions as an SVG file: two dots for each, joined by a line. Short are the names
// of the conditions in tips, long those in the legend.
func WritePairs(w io.Writer, about, title string, short, long [2]string, pairs []Pair, foot string) error {
	const width, line, left, top = 820.0, 24.0, 170.0, 74.0
	c := &canvas{w: width, h: top + line*float64(len(pairs)) + 44}
	c.file(about, pairStyle)
	c.text("head", 12, 22, title)
	c.dot("c1", 18, 42, 5, "")
	c.text("ink", 30, 46, long[0])
	c.dot("c0", 408, 42, 5, "")
	c.text("ink", 420, 46, long[1])
	x := func(v float64) float64 { return left + v*(width-left-60) }
	bottom := top + line*float64(len(pairs))
	for v := 0.0; v <= 1; v += 0.2 {
		c.line("grid", x(v), top-6, x(v), bottom)
		c.text("tick", x(v), bottom+16, fmt.Sprintf("%.1f", v))
	}
	for i, p := range pairs {
		y := top + line*(float64(i)+0.5)
		class := "fin"
		if p.Muted {
			class = "fin unit"
		}
		c.text(class, left-12, y+4, p.Name)
		c.line("bond", x(p.Values[1]), y, x(p.Values[0]), y)
		c.dot("c1", x(p.Values[0]), y, 5, fmt.Sprintf("%s, %s: %s", p.Name, short[0], format.Fraction(p.Values[0])))
		c.dot("c0", x(p.Values[1]), y, 5, fmt.Sprintf("%s, %s: %s", p.Name, short[1], format.Fraction(p.Values[1])))
		low, high := min(p.Values[0], p.Values[1]), max(p.Values[0], p.Values[1])
		c.text("fin unit", x(low)-9, y+4, format.Fraction(low))
		if high-low > 0.001 {
			c.text("unit", x(high)+9, y+4, format.Fraction(high))
		}
	}
	c.text("unit", 12, c.h-6, foot)
	return c.writeTo(w)
}
