package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// pictureStyle makes a drawing that stands alone readable on light and dark pages.
const pictureStyle = `<style>text{font:13px system-ui,sans-serif;fill:#222}.head{font-weight:600}.unit{fill:#555;font-size:12px}` +
	`.fin{text-anchor:end}.c0{fill:#0072b2}.c1{fill:#d55e00}.ink{fill:#222}.paper{fill:#fff}` +
	`.grid{stroke:#ddd}.bond{stroke:#bbb;stroke-width:3}.tick{fill:#555;font-size:12px;text-anchor:middle}</style>`

// Leak draws the methods' HR@10 on a data set under the protocol of the papers and
// under the one a device could follow, with the reference rows: the picture of the
// README.
func Leak(w io.Writer, rows []ParityRow, dataset string) error {
	const width, line, left, top = 820.0, 24.0, 170.0, 74.0
	bars := leakBars(rows, dataset)
	if len(bars) == 0 {
		return fmt.Errorf("report: no parity rows on %s under both protocols", dataset)
	}
	c := &canvas{w: width, h: top + line*float64(len(bars)) + 44}
	fmt.Fprintf(&c.b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">%s`,
		num(c.w), num(c.h), num(c.w), num(c.h), esc("HR@10 on "+dataset+" under two protocols"), pictureStyle)
	c.rect("paper", 0, 0, c.w, c.h, "")
	c.text("head", 12, 22, "What the published protocol adds: HR@10 on "+dataset)
	c.dot("c1", 18, 42, 5, "")
	c.text("ink", 30, 46, "paper: held-out items are never drawn as negatives")
	c.dot("c0", 408, 42, 5, "")
	c.text("ink", 420, 46, "deployed: what a real device can do")
	x := func(v float64) float64 { return left + v*(width-left-60) }
	bottom := top + line*float64(len(bars))
	for v := 0.0; v <= 1; v += 0.2 {
		c.line("grid", x(v), top-6, x(v), bottom)
		c.text("tick", x(v), bottom+16, fmt.Sprintf("%.1f", v))
	}
	for i, b := range bars {
		y := top + line*(float64(i)+0.5)
		class := "fin"
		if b.reference {
			class = "fin unit"
		}
		c.text(class, left-12, y+4, b.name)
		c.line("bond", x(b.honest), y, x(b.leaky), y)
		c.dot("c1", x(b.leaky), y, 5, fmt.Sprintf("%s, paper: %s", b.name, frac(b.leaky)))
		c.dot("c0", x(b.honest), y, 5, fmt.Sprintf("%s, deployed: %s", b.name, frac(b.honest)))
		low, high := min(b.leaky, b.honest), max(b.leaky, b.honest)
		c.text("fin unit", x(low)-9, y+4, frac(low))
		if high-low > 0.001 {
			c.text("unit", x(high)+9, y+4, frac(high))
		}
	}
	c.text("unit", 12, c.h-6, "1 held-out item among 99 sampled ones, mean over the seeds of docs/parity.md; grey "+
		"names are references")
	c.b.WriteString("</svg>\n")
	_, err := io.WriteString(w, c.b.String())
	return err
}

type leakBar struct {
	name          string
	leaky, honest float64
	reference     bool
}

// leakBars are the methods that were run under both protocols, the best under
// paper first, then the references.
func leakBars(rows []ParityRow, dataset string) []leakBar {
	var out []leakBar
	for _, a := range rows {
		for _, b := range rows {
			if a.Dataset != dataset || b.Dataset != dataset || a.Variant != "" || b.Variant != "" ||
				a.Method != b.Method || a.Protocol != "paper" || b.Protocol != "deployed" {
				continue
			}
			out = append(out, leakBar{a.Method, a.HR, b.HR, false})
		}
	}
	slices.SortStableFunc(out, func(a, b leakBar) int { return cmp.Compare(b.leaky, a.leaky) })
	for _, ref := range []struct{ key, name string }{
		{"memoriser", "memoriser, no model"},
		{"local", "local-only"},
		{"ease", "EASE, centralised"},
		{"popularity", "popularity"},
	} {
		var at [2]float64
		found := 0
		for _, r := range rows {
			i := slices.Index([]string{"paper", "deployed"}, r.Protocol)
			v := r.References[ref.key]
			if r.Dataset == dataset && i >= 0 && v != nil && v.Test != nil {
				at[i] = v.Test.Sampled["hr@10"]
				found |= 1 << i
			}
		}
		if found == 3 && len(out) > 0 {
			out = append(out, leakBar{ref.name, at[0], at[1], true})
		}
	}
	return out
}
