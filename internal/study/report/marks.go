package report

import (
	"fmt"
	"slices"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// marks adds to the table of a group whether its rows differ from the first, by
// paired tests over users; nothing where users or seeds are not the same.
func marks(g *group, t *Table) {
	if len(g.rows) < 2 {
		return
	}
	var runs []*result.Run
	for _, r := range g.rows {
		// The label names the row in the contrasts.
		runs = append(runs, &result.Run{Dir: r.label, Result: r.runs[0].Result, Seeds: r.runs})
	}
	var said []string
	type key struct{ row, metric int }
	cells, tests := map[key]result.Contrast{}, []key(nil)
	var ps []result.Contrast
	for i, r := range runs[1:] {
		cs, err := result.Compare([]*result.Run{runs[0], r})
		if err != nil || len(cs) == 0 {
			said = append(said, g.rows[i+1].name())
			continue
		}
		for _, c := range cs {
			if m := slices.Index(result.MetricNames[:2], c.Metric); m >= 0 {
				tests, ps = append(tests, key{i + 1, m}), append(ps, c)
			}
		}
	}
	if len(tests) == 0 {
		return
	}
	result.AdjustComparisons(ps)
	for n, k := range tests {
		cells[k] = ps[n]
	}
	t.Header = append(t.Header, "against the first row, HR@10", "NDCG@10")
	for i := range t.Rows {
		for m := range 2 {
			cell := ""
			if c, ok := cells[key{i, m}]; ok {
				cell = format.Points(c.Value-c.Base) + stars(c)
			} else if i == 0 {
				cell = "base"
			}
			t.Rows[i] = append(t.Rows[i], cell)
		}
	}
	t.Notes = append(t.Notes, "Against the first row: points, with * where a paired Wilcoxon test over the same "+
		"users gives p < 0.05 after Holm's correction for all rows, ** below 0.01, *** below 0.001. No mark: no difference shown; mixed: mean and ranks disagree.")
	if len(said) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Not tested, for want of the same users and seeds: %s.",
			format.Clip(fmt.Sprint(said), 200)))
	}
}

func stars(c result.Contrast) string {
	switch p := c.PHolm; {
	case c.Verdict == result.Mixed:
		return " mixed"
	case p < 0.001:
		return " ***"
	case p < 0.01:
		return " **"
	case p < 0.05:
		return " *"
	}
	return ""
}
