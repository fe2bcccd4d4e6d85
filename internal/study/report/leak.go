package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// LeakPicture draws the methods' HR@10 on a data set under the papers' protocol and under one that a device can
// follow, with the references.
func LeakPicture(w io.Writer, rows []result.ParityRow, dataset string) error {
	pairs := leakPairs(rows, dataset)
	if len(pairs) == 0 {
		return fmt.Errorf("no rows on %s under both protocols (paper and deployed)", dataset)
	}
	return chart.WritePairs(w, "HR@10 on "+dataset+" under two protocols",
		"What the leak of the published protocol adds: HR@10 on "+dataset, [2]string{"paper", "deployed"},
		[2]string{"paper: held-out items are never drawn as negatives", "deployed: what a real device can do"}, pairs,
		"1 held-out item among 99 sampled items, mean over the seeds of docs/parity.md; grey names are references")
}

// leakPairs returns the methods run under both protocols, the best under paper first, then the references.
func leakPairs(rows []result.ParityRow, dataset string) []chart.Pair {
	var out []chart.Pair
	for _, a := range rows {
		for _, b := range rows {
			if a.Dataset != dataset || b.Dataset != dataset || a.Variant != "" || b.Variant != "" ||
				a.Method != b.Method || a.Protocol != "paper" || b.Protocol != "deployed" {
				continue
			}
			out = append(out, chart.Pair{Name: a.Method, Values: [2]float64{a.HR, b.HR}})
		}
	}
	slices.SortStableFunc(out, func(a, b chart.Pair) int { return cmp.Compare(b.Values[0], a.Values[0]) })
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
			out = append(out, chart.Pair{Name: ref.name, Values: at, Muted: true})
		}
	}
	return out
}
