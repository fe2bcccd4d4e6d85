package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Charts stretch with their card: lines keep their width (vector-effect in the style), and labels are HTML beside
// the drawing. Drawings have no style attributes, which the policy of the pages forbids.

// chart is a drawing with the labels of its axes.
type chart struct {
	SVG          template.HTML
	Top, Middle  string // labels of the vertical axis, which begins at 0
	Start, Final string // labels of the horizontal one
	About        string // what it shows, for people who do not see it
}

const chartWidth, chartHeight = 600, 160

// ceiling is a round number of at least x.
func ceiling(x float64) float64 {
	if x <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if x <= m*unit*1.0001 {
			return m * unit
		}
	}
	return 10 * unit
}

// drawing collects the shapes of a chart. Only numbers and our own words are written to it.
type drawing struct{ strings.Builder }

func (b *drawing) add(format string, args ...any) { fmt.Fprintf(b, format, args...) }

func openDrawing() *drawing {
	b := &drawing{}
	b.add(`<svg viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true" focusable="false">`, chartWidth,
		chartHeight)
	for i := range 3 {
		b.add(`<path class="gridline" d="M0 %d.5H%d"/>`, i*(chartHeight-1)/2, chartWidth)
	}
	return b
}

func (b *drawing) close() template.HTML {
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// accuracyChart draws HR@10 by round beside popularity, with the noise of the evaluations.
func accuracyChart(all []Evaluation) *chart {
	if len(all) == 0 {
		return nil
	}
	first, last, top := all[0].Round, all[len(all)-1].Round, 0.0
	for _, e := range all {
		top = max(top, e.HR10+e.NoiseFraction, e.PopHR10)
	}
	top = ceiling(min(top, 1))
	x := func(e *Evaluation) float64 {
		if last == first {
			return chartWidth / 2
		}
		return 6 + float64(e.Round-first)/float64(last-first)*(chartWidth-12)
	}
	y := func(v float64) float64 { return chartHeight * (1 - min(max(v/top, 0), 1)) }
	b := openDrawing()
	var band, model, dots, popular strings.Builder
	for i := range all {
		e := &all[i]
		fmt.Fprintf(&band, "%s%.1f %.1f", verb(i), x(e), y(e.HR10+e.NoiseFraction))
		fmt.Fprintf(&model, "%s%.1f %.1f", verb(i), x(e), y(e.HR10))
		fmt.Fprintf(&dots, "M%.1f %.1fh0", x(e), y(e.HR10))
		if e.Popular {
			fmt.Fprintf(&popular, "%s%.1f %.1f", verb(popular.Len()), x(e), y(e.PopHR10))
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		fmt.Fprintf(&band, "L%.1f %.1f", x(&all[i]), y(all[i].HR10-all[i].NoiseFraction))
	}
	b.add(`<path class="band" d="%sZ"/>`, band.String())
	if popular.Len() > 0 {
		b.add(`<path class="line pop" d="%sh0"/>`, popular.String())
	}
	b.add(`<path class="line model" d="%s"/><path class="dots model" d="%s"/>`, model.String(), dots.String())
	return &chart{
		SVG: b.close(), Top: number(top), Middle: number(top / 2),
		Start: fmt.Sprintf("round %d", first), Final: fmt.Sprintf("round %d", last),
		About: fmt.Sprintf("HR@10 from round %d to round %d", first, last),
	}
}

func verb(i int) string {
	if i == 0 {
		return "M"
	}
	return "L"
}

// bars draws one column per round: a pale one behind a solid one.
func bars(all []Round, back, front func(*Round) float64) (template.HTML, float64) {
	top := 0.0
	for i := range all {
		top = max(top, back(&all[i]), front(&all[i]))
	}
	top = ceiling(top)
	b := openDrawing()
	slots := max(20, len(all))
	wide := float64(chartWidth) / float64(slots)
	for i := range all {
		r := &all[i]
		left := float64(i) * wide
		draw := func(class string, value float64) {
			h := chartHeight * value / top
			b.add(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, left+wide*.15,
				chartHeight-h, wide*.7, h)
		}
		draw("back", back(r))
		class := "front"
		if r.Discarded {
			class = "front bad"
		}
		draw(class, front(r))
	}
	return b.close(), top
}

// shownRounds is the number of rounds that charts show.
const shownRounds = 60

func shown(all []Round) []Round { return all[max(0, len(all)-shownRounds):] }

// roundsChart draws the devices that were selected and those that reported. With a secret sample it draws how long
// rounds took.
func roundsChart(all []Round) *chart {
	all = shown(all)
	if len(all) == 0 {
		return nil
	}
	sampled := all[len(all)-1].Sampled
	back := func(r *Round) float64 { return float64(r.Selected) }
	front := func(r *Round) float64 { return float64(r.Reported) }
	if sampled {
		back = func(*Round) float64 { return 0 }
		front = func(r *Round) float64 { return r.Seconds }
	}
	svg, top := bars(all, back, front)
	c := &chart{SVG: svg, Top: axis(top), Middle: axis(top / 2)}
	if sampled {
		c.Top, c.Middle = seconds(top), seconds(top/2)
	}
	c.Start, c.Final = span(all)
	c.About = "devices by round"
	return c
}

// trafficChart draws the bytes of rounds.
func trafficChart(all []Round) *chart {
	all = shown(all)
	if len(all) == 0 || all[len(all)-1].Sampled {
		return nil
	}
	svg, top := bars(all, func(r *Round) float64 { return float64(r.Sent + r.Received) },
		func(r *Round) float64 { return float64(r.Received) })
	c := &chart{SVG: svg, Top: sizeOf(int64(top)), Middle: sizeOf(int64(top / 2))}
	c.Start, c.Final = span(all)
	c.About = "bytes by round"
	return c
}

func axis(x float64) string {
	if x == math.Trunc(x) {
		return count(int64(x))
	}
	return number(x)
}

func span(all []Round) (first, last string) {
	if len(all) < 20 { // the columns do not fill the chart
		return fmt.Sprintf("rounds %d to %d", all[0].Number, all[len(all)-1].Number), ""
	}
	return fmt.Sprintf("round %d", all[0].Number), fmt.Sprintf("round %d", all[len(all)-1].Number)
}

// gauge draws how much of a budget is spent, as a half circle that ends at the limit.
func gauge(spent, budget *float64) template.HTML {
	if spent == nil || budget == nil || *budget <= 0 {
		return ""
	}
	share := min(max(*spent / *budget, 0), 1)
	class := "arc spent"
	if share >= 0.999 {
		class = "arc spent full"
	} else if share >= 0.8 {
		class = "arc spent near"
	}
	const arc = `M12 100A88 88 0 0 1 188 100`
	var b drawing
	b.add(`<svg class="gauge" viewBox="0 0 200 112" aria-hidden="true" focusable="false">`)
	b.add(`<path class="arc" pathLength="100" d="%s"/>`, arc)
	if share > 0.001 {
		b.add(`<path class="%s" pathLength="100" stroke-dasharray="%.2f 200" d="%s"/>`, class, 100*share, arc)
	}
	b.add(`<path class="stop" d="M176 104H200"/></svg>`)
	return template.HTML(b.String())
}

// bar draws a part of a whole as a line.
func bar(part, whole int, class string) template.HTML {
	share := 0.0
	if whole > 0 {
		share = min(max(float64(part)/float64(whole), 0), 1)
	}
	return template.HTML(fmt.Sprintf(`<svg class="bar %s" viewBox="0 0 100 8" preserveAspectRatio="none" `+
		`aria-hidden="true" focusable="false"><rect class="back" width="100" height="8"/>`+
		`<rect class="front" width="%.1f" height="8"/></svg>`, template.HTMLEscapeString(class), 100*share))
}
