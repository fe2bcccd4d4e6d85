package report

import (
	"bytes"
	"fmt"
	"strings"
)

// Drawing is one figure as files: an SVG that stands alone, and its numbers as CSV.
type Drawing struct {
	Name     string // without an ending
	Title    string
	SVG, CSV []byte
}

// Drawings are the figures of a page about the runs, each for itself. With several
// runs a name starts with what it is of.
func Drawings(runs []*Run) ([]Drawing, error) {
	style, err := drawingStyle()
	if err != nil {
		return nil, err
	}
	var out []Drawing
	taken := map[string]int{}
	add := func(prefix string, figures []figure) error {
		for _, f := range figures {
			name := strings.Trim(prefix+"-"+f.Name, "-")
			if taken[name]++; taken[name] > 1 {
				name += fmt.Sprintf("-%d", taken[name])
			}
			var data bytes.Buffer
			if err := f.Data.CSV(&data); err != nil {
				return err
			}
			out = append(out, Drawing{name, f.Title, standalone(string(f.SVG), style), data.Bytes()})
		}
		return nil
	}
	each := func(prefix string, parts []part) error {
		for _, p := range parts {
			if err := add(prefix, p.Figures); err != nil {
				return err
			}
		}
		return nil
	}
	many := len(flat(runs)) > 1
	for _, g := range groups(runs) {
		of := clip(file(g.dataset+"-"+g.protocol), 40)
		if many {
			g.letter()
			if err := each("all-"+of, groupParts(g)); err != nil {
				return nil, err
			}
		}
		for _, r := range g.rows {
			for _, run := range r.runs {
				prefix := ""
				if many {
					prefix = fmt.Sprintf("%s-%s-seed%d", clip(file(r.label), 40), of, run.Result.Seed)
				}
				if err := each(prefix, runParts(g, &row{label: r.label, runs: []*Run{run}, of: len(r.runs)},
					true)); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := add("", others(runs)); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("report: there is nothing to draw; give the folder of a finished run, as `tacit " +
			"report DIR --figures OUT`")
	}
	return out, nil
}

// others are the figures of what is no run.
func others(runs []*Run) []figure {
	var out []figure
	for _, s := range searches(runs) {
		out = append(out, s.figures()...)
	}
	for _, r := range runs {
		out = append(out, r.Board.figures()...)
	}
	return out
}

func searches(runs []*Run) []*Search {
	var out []*Search
	for _, r := range runs {
		if r.Search != nil {
			out = append(out, r.Search)
		}
	}
	return out
}

// drawingStyle are the rules of the page's style sheet that drawings use, with the
// colours of light and dark.
func drawingStyle() (string, error) {
	b, err := assets.ReadFile("assets/report.css")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	colours, text := true, string(b)
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "* {"): // the colours stand above
			colours = false
		case colours || strings.HasPrefix(line, "svg "):
			out.WriteString(line)
		}
	}
	return strings.Replace(out.String(), "svg { display: block; width: 100%; height: auto; max-width: 460px; "+
		"margin: 0 auto; overflow: visible; }", "svg { font-family: system-ui, sans-serif; }", 1), nil
}

// standalone makes a file of a drawing: with a name space, a size, its style and a
// ground to stand on.
func standalone(svg, style string) []byte {
	open, rest, _ := strings.Cut(svg, ">")
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
