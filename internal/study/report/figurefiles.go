package report

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// Drawing is one figure as files: a self-contained SVG, and its numbers as CSV.
type Drawing struct {
	Name     string // without an extension
	Title    string
	SVG, CSV []byte
}

// Drawings returns the figures of a page about the runs as files. With several runs, names start with the run.
func Drawings(runs []*result.Run) ([]Drawing, error) {
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
			out = append(out, Drawing{name, f.Title, chart.Standalone(f.SVG, style), data.Bytes()})
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
	many := len(result.EachSeed(runs)) > 1
	if err := each("", protocolParts(groups(runs))); err != nil {
		return nil, err
	}
	for _, g := range groups(runs) {
		of := format.Clip(format.FileName(g.dataset+"-"+g.protocol), 40)
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
					prefix = fmt.Sprintf("%s-%s-seed%d", format.Clip(format.FileName(r.label), 40), of, run.Result.Seed)
				}
				if err := each(prefix, runParts(g, &row{label: r.label, runs: []*result.Run{run}, of: len(r.runs)},
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
		return nil, fmt.Errorf("nothing to draw; pass the folder of a finished run: `tacit report DIR --figures OUT`")
	}
	return out, nil
}

// drawings returns figures as files.
func drawings(prefix string, figures []figure) ([]Drawing, error) {
	style, err := drawingStyle()
	if err != nil {
		return nil, err
	}
	var out []Drawing
	for _, f := range figures {
		var data bytes.Buffer
		if err := f.Data.CSV(&data); err != nil {
			return nil, err
		}
		out = append(out, Drawing{prefix + f.Name, f.Title, chart.Standalone(f.SVG, style), data.Bytes()})
	}
	return out, nil
}

// others returns the figures of searches and leaderboards.
func others(runs []*result.Run) []figure {
	var out []figure
	for _, s := range searches(runs) {
		out = append(out, searchFigures(s)...)
	}
	for _, r := range runs {
		out = append(out, boardFigures(r.Leaderboard)...)
	}
	return out
}

func searches(runs []*result.Run) []*result.Search {
	var out []*result.Search
	for _, r := range runs {
		if r.Search != nil {
			out = append(out, r.Search)
		}
	}
	return out
}

// drawingStyle returns the rules of the page's style sheet that drawings use, with the colours of both themes.
func drawingStyle() (string, error) {
	b, err := assets.ReadFile("assets/report.css")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	colours, text := true, string(b)
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "* {"): // colours are above this line
			colours = false
		case colours || strings.HasPrefix(line, "svg "):
			out.WriteString(line)
		}
	}
	return strings.Replace(out.String(), "svg { display: block; width: 100%; height: auto; max-width: 640px; "+
		"margin: 0 auto; overflow: visible; }", "svg { font-family: system-ui, sans-serif; }", 1), nil
}
