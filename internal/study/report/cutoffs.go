package report

import (
	"fmt"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// cutoffTable has the test metrics of rows and references at list lengths that the user chose.
func cutoffTable(g *group, rows []*row, at []int) *Table {
	t := &Table{Title: "Metrics at the chosen list lengths: " + g.title(), Header: []string{"method"}, Align: "lr"}
	for _, ranking := range []string{"sampled", "full"} {
		for _, k := range at {
			t.Header = append(t.Header, fmt.Sprintf("%s HR@%d", ranking, k), fmt.Sprintf("%s NDCG@%d", ranking, k))
		}
	}
	for _, r := range rows {
		var all []*metrics.Summary
		for _, run := range r.runs {
			all = append(all, &run.Result.Test)
		}
		t.Rows = append(t.Rows, append([]any{r.label}, atLengths(all, at)...))
	}
	t.Rule = len(t.Rows)
	with := runsWithReferences(rows)
	for _, key := range referenceKeys(with) {
		var all []*metrics.Summary
		for _, run := range with {
			if ref := run.Result.References[key]; ref != nil && ref.Test != nil {
				all = append(all, ref.Test)
			}
		}
		if len(all) > 0 {
			t.Rows = append(t.Rows, append([]any{result.ReferenceTitle(key)}, atLengths(all, at)...))
		}
	}
	measured := false
	for _, r := range t.Rows {
		for _, v := range r[1+2*len(at):] {
			measured = measured || v.(spread).N > 0
		}
	}
	if !measured {
		t.drop(1+2*len(at), 2*len(at))
	}
	return t
}

// atLengths returns the metrics of summaries over several runs, sampled and full.
func atLengths(all []*metrics.Summary, at []int) []any {
	var out []any
	for _, full := range []bool{false, true} {
		for _, k := range at {
			for _, name := range []string{"hr", "ndcg"} {
				xs := make([]float64, len(all))
				for i, s := range all {
					of := s.Sampled
					if full {
						of = s.Full
					}
					xs[i] = result.MetricOf(of, fmt.Sprintf("%s@%d", name, k))
				}
				out = append(out, spread{Spread: result.SpreadOf(xs)})
			}
		}
	}
	return out
}

// csvCutoffs adds the test metrics at list lengths other than 10, which csvScores adds.
func csvCutoffs(r *result.Result, at []int, add func(string, any)) {
	for _, k := range at {
		if k == 10 {
			continue
		}
		for _, of := range []struct {
			name   string
			values map[string]float64
		}{{"sampled", r.Test.Sampled}, {"full", r.Test.Full}} {
			for _, m := range []string{"hr", "ndcg"} {
				key := fmt.Sprintf("%s@%d", m, k)
				add("test."+of.name+"."+key, result.MetricOf(of.values, key))
			}
		}
	}
}
