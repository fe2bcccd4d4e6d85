package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// group is the content of one table: runs on the same data under the same protocol.
type group struct {
	dataset, hash, protocol string
	leaks, repeats          bool
	rows                    []*row
	notes                   []string
}

// row is the runs of one method with one setting, which differ only in their seed.
type row struct {
	label string
	mark  string // a letter, if labels are too long for legends and notes
	runs  []*result.Run
	of    int // seeds of the row that this one was taken from; 0 for a whole row
}

// legendRoom is how many letters a legend has room for.
const legendRoom = 18

// letter names rows by letters if their labels do not fit into a legend, where they would be cut to the same words.
func (g *group) letter() {
	if !slices.ContainsFunc(g.rows, func(r *row) bool { return utf8.RuneCountInString(r.label) > legendRoom }) {
		return
	}
	for i, r := range g.rows {
		if r.mark = string(rune('A' + i%26)); i >= 26 {
			r.mark += fmt.Sprint(i / 26)
		}
		r.label = r.mark + ": " + r.label
	}
}

// name is the row's name in notes.
func (r *row) name() string { return cmp.Or(r.mark, r.label) }

// legend is the row's name in figures.
func (r *row) legend() string {
	if r.mark == "" {
		return format.Clip(r.label, legendRoom)
	}
	return format.Clip(r.mark+": "+r.runs[0].Result.Method, legendRoom)
}

func (r *row) scores() spreads {
	var all []result.Scores
	for _, run := range r.runs {
		all = append(all, result.ScoresOf(&run.Result.Test))
	}
	return spreadsOf(all)
}

// newUserScores returns the scores of users held out of training; false if no run has them.
func (r *row) newUserScores() (s spreads, told bool) {
	var all []result.Scores
	for _, run := range r.runs {
		if n := run.Result.NewUsers; n != nil {
			all = append(all, result.ScoresOf(&n.Test))
		}
	}
	return spreadsOf(all), len(all) > 0
}

// newUserNote says how many users were held out and how the method serves them.
func (r *row) newUserNote() string {
	n := r.runs[0].Result.NewUsers
	if n == nil {
		return ""
	}
	lo, hi := r.extent(func(r *result.Result) int { return usersOf(&r.NewUsers.Test) })
	if hi == 0 {
		return fmt.Sprintf("New users (%.3g of all users, held out of training): %s.", n.Share, n.How)
	}
	return fmt.Sprintf("New users: tested on %s users held out of training (%.3g of all users); %s. The other rows "+
		"are for the users in training.", counts(lo, hi), n.Share, n.How)
}

// newUsersLabel is the row of users held out of training.
const newUsersLabel = "  on new users"

// bestOnTest returns the scores of the rounds with the best test metrics; false if runs do not have them.
func (r *row) bestOnTest() (s spreads, told bool) {
	var all []result.Scores
	for _, run := range r.runs {
		c := run.Result.BestOnTest
		if c == nil {
			return s, false
		}
		all = append(all, result.ScoresOf(&c.Test))
	}
	return spreadsOf(all), len(all) > 0
}

// comparable returns the scores to compare with published ones: a paper without a validation set selects its round
// on test.
func (r *row) comparable() spreads {
	if s, told := r.bestOnTest(); told {
		return s
	}
	return r.scores()
}

// mean is over the runs of a row.
func (r *row) mean(of func(*result.Result) float64) float64 {
	sum := 0.0
	for _, run := range r.runs {
		sum += of(run.Result)
	}
	return sum / float64(len(r.runs))
}

// published returns the published metrics for the row, or nil.
func (r *row) published() *result.Published {
	for _, run := range r.runs {
		if run.Result.Published != nil {
			return run.Result.Published
		}
	}
	return nil
}

// groups sorts runs into tables, in order of appearance. The order of a group's
// rows is that of the runs.
func groups(runs []*result.Run) []*group {
	var out []*group
	byKey := map[string]*group{}
	members := map[*group][]*result.Run{}
	hashes := map[string]map[string]bool{}
	for _, r := range result.EachSeed(runs) {
		res := r.Result
		key := fmt.Sprintf("%q %q %q %t", res.Dataset, res.DataHash, res.Protocol, res.Leaks)
		g := byKey[key]
		if g == nil {
			g = &group{dataset: res.Dataset, hash: res.DataHash, protocol: res.Protocol, leaks: res.Leaks}
			byKey[key] = g
			out = append(out, g)
		}
		members[g] = append(members[g], r)
		if hashes[g.dataset] == nil {
			hashes[g.dataset] = map[string]bool{}
		}
		hashes[g.dataset][g.hash] = true
	}
	for _, g := range out {
		if len(hashes[g.dataset]) == 1 {
			g.hash = "" // the name says it
		}
		g.fill(members[g])
	}
	return out
}

// title names the data, the protocol and whether it leaks.
func (g *group) title() string {
	name := g.dataset
	if g.hash != "" {
		name += " (" + format.Clip(g.hash, 24) + ")"
	}
	return fmt.Sprintf("%s, protocol %s (%s)", name, g.protocol, leakLabel(g.leaks, g.repeats))
}

// fill puts runs with the same settings into one row, and labels each row by the settings that differ: parameters
// among runs of the same method, options among all runs.
func (g *group) fill(runs []*result.Run) {
	byKey := map[string]*row{}
	params, options := map[string]*settingDiff{}, new(settingDiff)
	for _, r := range runs {
		g.repeats = g.repeats || repeats(r.Result)
		p := params[r.Result.Method]
		if p == nil {
			p = new(settingDiff)
			params[r.Result.Method] = p
		}
		p.add(settings(r.Result.Params))
		options.add(optionsOf(r.Result))
	}
	for _, r := range runs {
		res := r.Result
		own, opt := settings(res.Params), optionsOf(res)
		key := fmt.Sprintf("%q %q %q", res.Method, own, opt)
		at := byKey[key]
		if at == nil {
			words := append([]string{res.Method}, params[res.Method].words(own)...)
			at = &row{label: format.Clip(strings.Join(append(words, options.words(opt)...), " "), 140)}
			byKey[key] = at
			g.rows = append(g.rows, at)
		}
		if slices.ContainsFunc(at.runs, func(o *result.Run) bool { return o.Result.Seed == res.Seed }) {
			g.notes = append(g.notes, fmt.Sprintf("%s: seed %d appears more than once and is counted once.", at.label,
				res.Seed))
			continue
		}
		at.runs = append(at.runs, r)
	}
}

// settings formats the values of parameters or options.
func settings(m map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = format.Value(v)
	}
	return out
}

// optionsOf returns the options of a run and the program's version: metrics of two versions are not averaged.
func optionsOf(r *result.Result) map[string]string {
	out := settings(r.Options)
	delete(out, "seed")
	delete(out, "jobs")
	if _, ok := out["rounds"]; !ok {
		out["rounds"] = fmt.Sprint(r.Rounds)
	}
	out["version"] = strings.TrimSpace(r.Version + " " + format.HashPrefix(r.Commit))
	if r.Privacy != nil {
		out["epsilon"] = format.Epsilon(r.Privacy.Epsilon)
	}
	return out
}

// settingDiff finds the keys whose values differ between maps.
type settingDiff struct {
	n      int
	values map[string]map[string]int
}

func (d *settingDiff) add(m map[string]string) {
	if d.values == nil {
		d.values = map[string]map[string]int{}
	}
	d.n++
	for k, v := range m {
		if d.values[k] == nil {
			d.values[k] = map[string]int{}
		}
		d.values[k][v]++
	}
}

// words returns the key=value pairs of m that differ from other maps, by key.
func (d *settingDiff) words(m map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if d.values[k][m[k]] < d.n || k == "epsilon" {
			out = append(out, format.Clip(k, 30)+"="+format.Clip(cmp.Or(m[k], "none"), 30))
		}
	}
	return out
}
