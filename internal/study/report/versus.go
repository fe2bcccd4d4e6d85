package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/result"
)

// versus are the tests of a row by reference; nil where none were made.
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
	return result.Against(results)
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

// marked gives each score the letters of the references that it is above.
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

// lettered explains the letters of rows with their tests; nothing where no test was
// made.
func lettered(rows []*row, all []map[string]*result.Versus) []string {
	var letters []string
	for _, n := range result.ReferenceNames {
		if slices.ContainsFunc(all, func(vs map[string]*result.Versus) bool { return vs[n.Key] != nil }) {
			letters = append(letters, n.Letter+" "+n.Name)
		}
	}
	if len(letters) == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("Letters after a number: the method is above that reference (%s) by a paired "+
		"Wilcoxon test over users, p < %g after Holm's correction "+
		"for all references and metrics of its row. No letter: not shown to be above.", strings.Join(letters, ", "),
		result.SignificanceLevel)}
	var untested []string
	for i, vs := range all {
		if len(vs) == 0 {
			untested = append(untested, rows[i].name())
		}
	}
	if len(untested) > 0 {
		out = append(out, fmt.Sprintf("Not tested, since the runs do not hold each user's metrics beside the "+
			"references: %s.", strings.Join(untested, ", ")))
	}
	return out
}

// verdicts say how a method stands to its references; empty where no test was made.
func verdicts(vs map[string]*result.Versus) string {
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
