package report

import (
	"fmt"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// ComparisonTable is the table of a comparison.
func ComparisonTable(base *result.Run, cs []result.Comparison) *Table {
	r := base.Result
	t := &Table{
		Title: fmt.Sprintf("Compared with %s, on %s, protocol %s (%s), seeds %s", result.RunName(base), r.Dataset,
			r.Protocol,
			leakLabel(r.Leaks, r.TestItemsInTrain*100 > r.Users), result.SeedList(base)),
		Header: []string{
			"run", "metric", "base", "value", "difference in points", "95% interval", "p", "p (Holm)",
			"verdict",
		}, Align: "llrrrrrrl",
	}
	for _, c := range cs {
		t.Rows = append(t.Rows, comparisonRow(c, c.Run))
	}
	t.Notes = []string{fmt.Sprintf(howPaired, "all rows")}
	return t
}

const howPaired = "Paired over users: two-sided Wilcoxon signed-rank test with Holm's correction for %s; 95%% " +
	"bootstrap interval of the mean difference. \"better\" and \"worse\" require a corrected p below 0.05; " +
	"\"mixed\" means that mean and ranks disagree."

func comparisonRow(c result.Comparison, name string) []any {
	return []any{
		name, c.Metric, c.Base, c.Value, format.Points(c.Value - c.Base), format.Points(c.Lo) + " to " +
			format.Points(c.Hi),
		pValue(c.P), pValue(c.PHolm), c.Verdict,
	}
}

// againstBase is the table of the rows that were tested against the row that they are a variant of; nil
// without such rows.
func againstBase(rows []result.ParityRow) *Table {
	t := &Table{Header: []string{
		"method", "metric", "base", "value", "difference in points", "95% interval", "p",
		"p (Holm)", "verdict",
	}, Align: "llrrrrrrl"}
	for _, r := range rows {
		for i, c := range r.Against {
			name := ""
			if i == 0 {
				name = r.Label()
			}
			t.Rows = append(t.Rows, comparisonRow(c, name))
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	t.Notes = []string{fmt.Sprintf(howPaired, "the metrics of a method")}
	return t
}

func pValue(p float64) string {
	if p < 1e-4 {
		return "< 0.0001"
	}
	return fmt.Sprintf("%.4f", p)
}
