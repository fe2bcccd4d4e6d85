package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// protocolParts compares runs of the same data under several protocols, method by method, beside the references. It
// is empty for data that was run under one protocol.
func protocolParts(all []*group) (out []part) {
	var hashes []string
	for _, g := range all {
		if !slices.Contains(hashes, g.hash) {
			hashes = append(hashes, g.hash)
		}
	}
	for _, hash := range hashes {
		of := slices.DeleteFunc(slices.Clone(all), func(g *group) bool { return g.hash != hash })
		if len(of) < 2 || len(of) > 7 {
			continue
		}
		name := "protocols"
		if len(hashes) > 1 {
			name += "-" + format.Clip(format.FileName(of[0].dataset), 40)
		}
		if p := protocolPart(name, of); p != nil {
			out = append(out, *p)
		}
	}
	return out
}

func protocolPart(name string, of []*group) *part {
	var series []string
	for _, g := range of {
		series = append(series, g.protocol+" ("+leakLabel(g.leaks, g.repeats)+")")
	}
	bars := protocolBars(of)
	if len(bars) == 0 {
		return nil
	}
	t := &Table{Header: []string{""}, Align: "l" + strings.Repeat("r", len(of)+1)}
	for _, g := range of {
		t.Header = append(t.Header, g.protocol)
	}
	if len(of) == 2 {
		t.Header = append(t.Header, "difference")
	}
	data := &Table{Header: []string{"name"}}
	for _, g := range of {
		data.Header = append(data.Header, g.protocol)
	}
	for i, b := range bars {
		line, numbers := []any{b.Name}, []any{b.Name}
		for _, v := range b.Values {
			line, numbers = append(line, format.Fraction(v)), append(numbers, format.Exact(v))
		}
		if len(of) == 2 {
			line = append(line, signedPoints(b.Values[1]-b.Values[0]))
		}
		if b.Muted && t.Rule == 0 {
			t.Rule = i
		}
		t.Rows, data.Rows = append(t.Rows, line), append(data.Rows, numbers)
	}
	return &part{
		ID: name, Title: "Protocols side by side: HR@10 on " + of[0].dataset,
		Intro: "HR@10 of the test items among sampled candidates, the mean over seeds. A reference without a model " +
			"that scores high shows that a protocol leaks; compare methods within one protocol only.",
		Tables: []tableView{view(t)},
		Figures: []figure{{
			name, "The same methods under each protocol", "Pale bars are references.",
			chart.GroupBars("HR@10 under several protocols", "test HR@10, among sampled candidates (fraction)", series,
				bars),
			data,
		}},
	}
}

// signedPoints writes a difference of fractions with its sign.
func signedPoints(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	s := format.Fraction(math.Abs(x))
	switch {
	case math.Abs(x) < 5e-5:
		return s
	case x < 0:
		return "−" + s
	}
	return "+" + s
}

// protocolBars lists the methods that were run under two protocols or more, then the references.
func protocolBars(of []*group) (out []chart.BarGroup) {
	find := func(name string, muted bool) int {
		for i := range out {
			if out[i].Name == name && out[i].Muted == muted {
				return i
			}
		}
		b := chart.BarGroup{Name: name, Muted: muted}
		for range of {
			b.Values = append(b.Values, math.NaN())
		}
		out = append(out, b)
		return len(out) - 1
	}
	single := !slices.ContainsFunc(of, func(g *group) bool { return len(g.rows) != 1 })
	for k, g := range of {
		for _, r := range g.rows {
			name := r.label
			if single { // presets may differ between protocols
				name = r.runs[0].Result.Method
			}
			out[find(name, false)].Values[k] = r.scores()[0].Mean
		}
	}
	out = slices.DeleteFunc(out, func(b chart.BarGroup) bool { return valuesOf(b) < 2 })
	if len(out) == 0 {
		return nil
	}
	for k, g := range of {
		for _, ref := range referenceRows(g.rows) {
			if v := ref.scores[0].Mean; ref.scores[0].N > 0 && !math.IsNaN(v) {
				out[find(ref.name, true)].Values[k] = v
			}
		}
	}
	return out
}

func valuesOf(b chart.BarGroup) (n int) {
	for _, v := range b.Values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// ProtocolFigure returns the figure that compares runs under several protocols; nil if they do not share a method
// and data.
func ProtocolFigure(runs []*result.Run) (*Drawing, error) {
	parts := protocolParts(groups(runs))
	if len(parts) == 0 {
		return nil, nil
	}
	drawn, err := drawings("", parts[0].Figures)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return &drawn[0], nil
}
