package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// referred are the runs that carry references.
func referred(rows []*row) []*result.Run {
	var out []*result.Run
	for _, r := range rows {
		for _, run := range r.runs {
			if len(run.Result.References) > 0 {
				out = append(out, run)
			}
		}
	}
	return out
}

// refKeys are the references of any run: the four, and what else there is. There
// are none for runs without references.
func refKeys(runs []*result.Run) []string {
	if len(runs) == 0 {
		return nil
	}
	more := map[string]bool{}
	for _, run := range runs {
		for k := range run.Result.References {
			more[k] = true
		}
	}
	var keys []string
	for _, n := range result.ReferenceNames {
		keys = append(keys, n.Key)
		delete(more, n.Key)
	}
	return append(keys, slices.Sorted(maps.Keys(more))...)
}

// refRow is a reference as a line of a table.
type refRow struct {
	name   string
	scores spreads
	fresh  spreads // of users that took no part in training
	reason string  // why there is none
	// users it was measured on, where that is not as many as the method; else 0
	least, most int
}

// notes are the sentences under a table about the reference.
func (r *refRow) notes() []string {
	var out []string
	if r.reason != "" {
		out = append(out, because(r.name, r.reason))
	}
	if r.most > 0 {
		out = append(out, fmt.Sprintf("%s: measured on %s.", r.name, plurals(r.least, r.most, "user")))
	}
	return out
}

// refRows are the references of rows that share a table.
func refRows(rows []*row) []refRow {
	var out []refRow
	for _, key := range refKeys(referred(rows)) {
		out = append(out, refsOf(key, rows)...)
	}
	return out
}

// refsOf is a reference over the seeds of rows, one for each way of sampling that
// it saw; its name says which, where there are several.
func refsOf(key string, rows []*row) []refRow {
	runs := referred(rows)
	all := new(differ)
	for _, run := range runs {
		all.add(sampling(key, run.Result))
	}
	var names []string
	parts := map[string][]*result.Run{}
	for _, run := range runs {
		name := result.ReferenceTitle(key)
		m := sampling(key, run.Result)
		var apart []string
		for _, k := range slices.Backward(slices.Sorted(maps.Keys(m))) { // rounds first
			if all.values[k][m[k]] < all.n {
				apart = append(apart, m[k])
			}
		}
		if len(apart) > 0 {
			name += " (" + strings.Join(apart, ", ") + ")"
		}
		if parts[name] == nil {
			names = append(names, name)
		}
		parts[name] = append(parts[name], run)
	}
	var out []refRow
	for _, name := range names {
		out = append(out, pool(key, name, parts[name]))
	}
	return out
}

// sampling is what a reference depends on beside data, protocol and seed: the
// memoriser watches the rounds of the run, and local training draws negatives.
func sampling(key string, r *result.Result) map[string]string {
	out := map[string]string{}
	if key == "memoriser" {
		out["rounds"] = format.Plural(r.Rounds, "round")
	}
	if n, ok := r.Options["negatives"]; ok && (key == "memoriser" || key == "local") {
		out["negatives"] = format.Clip(format.Value(n), 30) + " negatives"
	}
	return out
}

// pool is a reference over the seeds of runs. A value that a seed gives twice
// counts once.
func pool(key, name string, runs []*result.Run) refRow {
	type one struct {
		seed uint64
		result.Scores
	}
	out := refRow{name: name}
	seen := map[one]bool{}
	var all, fresh []result.Scores
	for _, run := range runs {
		ref := run.Result.References[key]
		if ref == nil {
			continue
		}
		if ref.Test == nil {
			out.reason = cmp.Or(out.reason, ref.Reason)
			continue
		}
		n, own := usersOf(ref.Test), usersOf(&run.Result.Test)
		if n > 0 && own > 0 && n != own {
			out.least, out.most = min(cmp.Or(out.least, n), n), max(out.most, n)
		}
		s := one{run.Result.Seed, result.ScoresOf(ref.Test)}
		id := s
		for i, x := range id.Scores {
			if math.IsNaN(x) {
				id.Scores[i] = -1 // NaN is no key
			}
		}
		if !seen[id] {
			seen[id] = true
			all, fresh = append(all, s.Scores), append(fresh, result.ScoresOf(ref.New))
		}
	}
	if out.scores = spreadsOf(all); len(all) == 0 {
		out.reason = cmp.Or(out.reason, "not computed")
		return out
	}
	out.reason, out.fresh = "", spreadsOf(fresh)
	for i, s := range out.scores {
		if s.SD == 0 { // the seed has no say in it
			out.scores[i].N = min(s.N, 1)
		}
	}
	return out
}

// nothingToMemorise explains the memoriser's row where the protocol does not leak: there it
// stands at chance, and a reader may take it for a rival that is beaten, or for a bug.
func nothingToMemorise(g *group, rows []*row) []string {
	if g.leaks || len(refsOf("memoriser", rows)) == 0 {
		return nil
	}
	return []string{"The memoriser has no model: it puts those items first that were drawn least often as training " +
		"negatives. This protocol does not leak, so the draws tell nothing, " +
		"and the row is that of chance (HR@10 of .10 among 100 candidates), a little above or below it. It shows that there is nothing to memorise; it is no mark to beat."}
}
