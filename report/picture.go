package report

import (
	"fmt"
	"io"
)

// pictureStyle makes a drawing that stands alone readable on light and dark pages.
const pictureStyle = `<style>text{font:13px system-ui,sans-serif;fill:#222}.head{font-weight:600}.unit{fill:#555;font-size:12px}` +
	`.fin{text-anchor:end}.c0{fill:#0072b2}.c1{fill:#d55e00}.mute{fill:#999}.ink{fill:#222}.paper{fill:#fff}</style>`

// Leak draws one method's HR@10 on a data set under the protocol of the papers
// and under the one a device could follow, each with the reference rows: the
// picture of the README.
func Leak(w io.Writer, rows []ParityRow, method, dataset string) error {
	const width, line, left = 380.0, 26.0, 150.0
	c := &canvas{w: 2 * width, h: 7.8*line + 10}
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">%s`,
		num(c.w), num(c.h), num(c.w), num(c.h), esc("HR@10 of "+method+" on "+dataset+" under two protocols"), pictureStyle)
	c.rect("paper", 0, 0, c.w, c.h, "")
	found := 0
	for i, protocol := range []string{"paper", "deployed"} {
		x := float64(i) * width
		c.text("head", x+12, 20, fmt.Sprintf("Protocol %s", protocol))
		c.text("unit", x+12, 37, []string{"held-out items are never drawn as negatives", "what a real device can do"}[i])
		y := 2.2 * line
		bar := func(name, class string, v float64) {
			c.text("fin", x+left, y+14, name)
			c.rect(class, x+left+8, y+2, v*(width-left-70), line-10, fmt.Sprintf("%s: %s", name, frac(v)))
			c.text("ink", x+left+13+v*(width-left-70), y+14, frac(v))
			y += line
		}
		for _, r := range rows {
			if r.Method != method || r.Dataset != dataset || r.Protocol != protocol {
				continue
			}
			switch r.Variant {
			case "":
				found |= 1 << i
				bar(method+", own table", "c0", r.HR)
			case "infer=global":
				bar(method+", server's table", "c0", r.HR)
				for _, ref := range []struct{ key, name, class string }{
					{"ease", "EASE, centralised", "mute"}, {"popularity", "popularity", "mute"}, {"memoriser", "memoriser, no model", "c1"},
				} {
					if v := r.References[ref.key]; v != nil && v.Test != nil {
						bar(ref.name, ref.class, v.Test.Sampled["hr@10"])
					}
				}
			}
		}
	}
	if found != 3 {
		return fmt.Errorf("report: no parity rows of %s on %s under both protocols", method, dataset)
	}
	c.text("unit", 12, c.h-8, fmt.Sprintf("HR@10 on %s, 1 held-out item among 99 sampled ones; mean over the seeds of docs/parity.md", dataset))
	c.b.WriteString("</svg>\n")
	_, err := io.WriteString(w, c.b.String())
	return err
}
