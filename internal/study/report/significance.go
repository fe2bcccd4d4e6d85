package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// addSignificance adds columns to the table of a group: how its rows differ from the first, by paired tests over
// users. Rows with other users or seeds are not tested.
func addSignificance(g *group, t *Table) {
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
	cells, tests := map[key]result.Comparison{}, []key(nil)
	var ps []result.Comparison
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
	t.Header = append(t.Header, "vs first row: HR@10", "vs first row: NDCG@10")
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
	t.Notes = append(t.Notes, "Versus first row: difference in points. * marks p < 0.05 in a paired Wilcoxon test "+
		"over the same users after Holm's correction for all rows, ** p < 0.01, *** p < 0.001. No star: no "+
		"significant difference. Mixed: mean and ranks disagree.")
	if len(said) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Not tested, because users or seeds differ: %s.",
			format.Clip(fmt.Sprint(said), 200)))
	}
}

func stars(c result.Comparison) string {
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

// versus returns the tests of a row by reference; nil if it was not tested.
func (r *row) versus() map[string]*result.Versus {
	if len(r.runs) == 1 {
		if v := versusOf(r.runs[0].Result.References); v != nil {
			return v
		}
	}
	var results []*result.Result
	for _, run := range r.runs {
		results = append(results, run.Result)
	}
	return result.VersusReferences(results)
}

func versusOf(refs map[string]*result.Reference) map[string]*result.Versus {
	var out map[string]*result.Versus
	for k, ref := range refs {
		if ref != nil && ref.Versus != nil {
			if out == nil {
				out = map[string]*result.Versus{}
			}
			out[k] = ref.Versus
		}
	}
	return out
}

// marked adds to each score the letters of the references that it significantly exceeds.
func (s spreads) marked(vs map[string]*result.Versus) spreads {
	for m := range s {
		for _, n := range result.ReferenceNames {
			if v := vs[n.Key]; v != nil && s[m].N > 0 {
				if p, ok := v.Metric(m); ok && p.Sign() > 0 {
					s[m].mark += n.Letter
				}
			}
		}
	}
	return s
}

// letterNotes explains the letters; it is empty if no row was tested.
func letterNotes(rows []*row, all []map[string]*result.Versus) []string {
	var letters []string
	for _, n := range result.ReferenceNames {
		if slices.ContainsFunc(all, func(vs map[string]*result.Versus) bool { return vs[n.Key] != nil }) {
			letters = append(letters, n.Letter+" "+n.Name)
		}
	}
	if len(letters) == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("Letters after a number: the method is significantly better than that reference "+
		"(%s) in a paired Wilcoxon test over users, p < %g after Holm's correction for all references and metrics of "+
		"its row. No letter: not significantly better.", strings.Join(letters, ", "),
		result.SignificanceLevel)}
	var untested []string
	for i, vs := range all {
		if len(vs) == 0 {
			untested = append(untested, rows[i].name())
		}
	}
	if len(untested) > 0 {
		out = append(out, fmt.Sprintf("Not tested, because the runs lack the per-user metrics of the references: %s.",
			strings.Join(untested, ", ")))
	}
	return out
}

// verdictNote says how a method compares with its references; empty if it was not tested.
func verdictNote(vs map[string]*result.Versus) string {
	keys := map[string]bool{}
	for k, v := range vs {
		if v != nil {
			keys[k] = true
		}
	}
	var order []string
	names := map[string][]string{}
	for _, k := range result.SortReferences(keys) {
		w := vs[k].Phrase()
		if names[w] == nil {
			order = append(order, w)
		}
		names[w] = append(names[w], result.ReferenceTitle(k))
	}
	var out []string
	for _, w := range order {
		out = append(out, fmt.Sprintf(w, and(names[w])))
	}
	return strings.Join(out, "; ")
}

// and joins names as a sentence does.
func and(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
