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

// runsWithReferences returns the runs of rows that have references.
func runsWithReferences(rows []*row) []*result.Run {
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

// referenceKeys returns the references of runs: the four standard ones, then any others. It is empty for runs
// without references.
func referenceKeys(runs []*result.Run) []string {
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

// referenceRow is a reference as a row of a table.
type referenceRow struct {
	name   string
	scores spreads
	fresh  spreads // of users held out of training
	reason string  // why it was not computed
	// the number of users it was measured on, if it differs from the method's; otherwise 0
	least, most int
}

// notes returns the sentences about the reference below a table.
func (r *referenceRow) notes() []string {
	var out []string
	if r.reason != "" {
		out = append(out, because(r.name, r.reason))
	}
	if r.most > 0 {
		out = append(out, fmt.Sprintf("%s: measured on %s.", r.name, plurals(r.least, r.most, "user")))
	}
	return out
}

// referenceRows are the references of rows that share a table.
func referenceRows(rows []*row) []referenceRow {
	var out []referenceRow
	for _, key := range referenceKeys(runsWithReferences(rows)) {
		out = append(out, rowsOfReference(key, rows)...)
	}
	return out
}

// rowsOfReference returns a reference over the seeds of rows, one row for each sampling setting. If there are
// several, the name says which.
func rowsOfReference(key string, rows []*row) []referenceRow {
	runs := runsWithReferences(rows)
	all := new(settingDiff)
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
	var out []referenceRow
	for _, name := range names {
		out = append(out, pool(key, name, parts[name]))
	}
	return out
}

// sampling returns the settings that a reference depends on besides data, protocol and seed: the memoriser
// counts draws over the rounds of the run, and local training draws negatives.
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

// pool combines a reference over the seeds of runs. A value that a seed gives twice counts once.
func pool(key, name string, runs []*result.Run) referenceRow {
	type one struct {
		seed uint64
		result.Scores
	}
	out := referenceRow{name: name}
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
				id.Scores[i] = -1 // NaN cannot be a map key
			}
		}
		if !seen[id] {
			seen[id] = true
			all, fresh = append(all, s.Scores), append(fresh, result.ScoresOf(ref.New))
		}
	}
	if out.scores = spreadsOf(all); len(all) == 0 {
		out.reason = cmp.Or(out.reason, notComputed)
		return out
	}
	out.reason, out.fresh = "", spreadsOf(fresh)
	for i, s := range out.scores {
		if s.SD == 0 { // it does not depend on the seed
			out.scores[i].N = min(s.N, 1)
		}
	}
	return out
}

// referencesIntro explains the chart of the references. A verdict on the method needs a protocol that does not
// leak: under one that does, local-only training memorises the answers too.
func referencesIntro(g *group) string {
	s := "What simpler methods reach on the same users and items. "
	if g.leaks {
		return s + "The memoriser has no model: it counts how often an item was drawn as a training negative. Its " +
			"metrics show how much of the result the leak alone explains."
	}
	s += "A method below popularity or local-only training learned nothing from the federation. The memoriser " +
		"has no model: it counts how often an item was drawn as a training negative. "
	if g.repeats {
		return s + "The data repeats pairs, so it recognises test items that are also train rows."
	}
	return s + "This protocol does not leak, so it is at chance level."
}

// memoriserNote explains the memoriser's row under protocols that do not leak: it is at chance level, which readers
// could take for a weak baseline or for a bug, unless the data repeats pairs of user and item.
func memoriserNote(g *group, rows []*row) []string {
	if g.leaks || len(rowsOfReference("memoriser", rows)) == 0 {
		return nil
	}
	s := "The memoriser has no model: it ranks first the items that were drawn least often as training negatives. "
	if g.repeats {
		return []string{s + "A device never draws its train rows as negatives. The data repeats pairs, so the " +
			"memoriser recognises test items that are also train rows and exceeds chance (HR@10 of .10 among 100 " +
			"candidates)."}
	}
	return []string{s + "This protocol does not leak, so the memoriser is close to chance (HR@10 of .10 among 100 " +
		"candidates). It is a control, not a baseline."}
}
