package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// Markdown writes a table for each data set and protocol. Runs that differ only in their seed are one row, as mean
// ± standard deviation.
func Markdown(w io.Writer, runs []*result.Run, at ...int) error {
	var b bytes.Buffer
	b.WriteString("# Results\n\n")
	b.WriteString("Metrics are fractions on the test items, at the round selected on validation; for runs with a " +
		"privacy guarantee the notes say which round. Differences from published numbers are in points " +
		"(hundredths).\n\n")
	for _, g := range groups(runs) {
		t := overview(g)
		if err := t.Markdown(&b); err != nil {
			return err
		}
		if len(at) > 0 {
			if err := cutoffTable(g, g.rows, at).Markdown(&b); err != nil {
				return err
			}
		}
	}
	_, err := w.Write(append(bytes.TrimRight(b.Bytes(), "\n"), '\n'))
	return err
}

// overview is the table of a group: its rows, and the references below them.
func overview(g *group) *Table {
	t := &Table{Title: g.title(), Align: "lr"}
	t.Header = append(append([]string{"method", "seeds"}, result.MetricNames[:]...), "published HR / NDCG",
		"difference in points", "round", "seconds per run", "bytes up per device and round")
	var about []string
	beside := false
	var said rowNotes
	var tested []map[string]*result.Versus
	for _, r := range g.rows {
		vs := r.versus()
		tested = append(tested, vs)
		s := r.scores().marked(vs)
		pub, diff := "-", "-"
		if p := r.published(); p.ComparableUnder(g.protocol) {
			d := gapOf(r.comparable(), p)
			pub = format.Fraction(result.PublishedMetric(p.HR10)) + " / " +
				format.Fraction(result.PublishedMetric(p.NDCG10))
			diff = format.Points(d.HR) + " / " + format.Points(d.NDCG)
			said.add(r.name(), fmt.Sprintf("published by %s; %s.", p.Source, d.Verdict(len(r.runs))))
			beside = true
		} else if p != nil {
			said.add(r.name(), publishedNote(g, r, p))
		}
		t.Rows = append(t.Rows, []any{
			r.label, len(r.runs), s[0], s[1], s[2], s[3], pub, diff, span(r.extent(selectedRound)),
			format.Digits(r.mean(func(r *result.Result) float64 { return r.Seconds.Total })),
			format.Size(r.mean(func(r *result.Result) float64 { return r.Bytes.Up })),
		})
		if x, told := r.bestOnTest(); told {
			t.Rows = append(t.Rows, []any{
				onTestLabel, "", x[0], x[1], x[2], x[3], "", "",
				span(r.extent(func(r *result.Result) int { return r.BestOnTest.Round })), "", "",
			})
			said.add(r.name(), selected(r))
		}
		if x, told := r.newUserScores(); told {
			t.Rows = append(t.Rows, under(newUsersLabel, x))
		}
		said.more(r.name(), strings.TrimPrefix(verdictNote(vs)+".", "."), r.newUserNote(),
			choiceNote(r.runs[0].Result.Choice))
		if res := r.runs[0].Result; res.Privacy != nil {
			said.add(r.name(), strings.Join(append([]string{selected(r)}, privacyNotes(res)...), " "))
		}
	}
	t.Rule = len(t.Rows)
	for _, ref := range referenceRows(g.rows) {
		t.Rows = append(t.Rows, under(ref.name, ref.scores))
		if ref.fresh[0].N > 0 {
			t.Rows = append(t.Rows, under(newUsersLabel, ref.fresh))
		}
		about = append(about, ref.notes()...)
	}
	if !beside {
		t.drop(slices.Index(t.Header, "published HR / NDCG"), 2)
	}
	if t.dropEmpty() {
		about = append(about, fullRankingNote)
	}
	t.lineUp()
	about = append(append(append(about, memoriserNote(g, g.rows)...), letterNotes(g.rows, tested)...), g.notes...)
	if s := leakNote(g, g.rows); s != "" {
		about = append(about, s)
	}
	t.Notes = append(append(said.lines(), sharedCaveats(g.rows)...), about...)
	return t
}

// under is a row of the overview that has only scores.
func under(label string, s spreads) []any {
	return []any{label, "", s[0], s[1], s[2], s[3], "", "", "", "", ""}
}

// more adds the non-empty sentences.
func (s *rowNotes) more(name string, sentences ...string) {
	for _, x := range sentences {
		if x != "" {
			s.add(name, x)
		}
	}
}

// rowNotes collects sentences about rows; rows with the same sentence share a line.
type rowNotes struct {
	order []string
	names map[string][]string
}

func (s *rowNotes) add(name, sentence string) {
	if s.names == nil {
		s.names = map[string][]string{}
	}
	if s.names[sentence] == nil {
		s.order = append(s.order, sentence)
	}
	s.names[sentence] = append(s.names[sentence], name)
}

func (s *rowNotes) lines() []string {
	var out []string
	for _, sentence := range s.order {
		out = append(out, strings.Join(s.names[sentence], ", ")+": "+sentence)
	}
	return out
}

// drop removes n columns, starting at column first.
func (t *Table) drop(first, n int) {
	t.Header = slices.Delete(t.Header, first, first+n)
	for i, r := range t.Rows {
		t.Rows[i] = slices.Delete(r, first, first+n)
	}
}

// CSV writes one line per run, with a column for each number. A parameter or option that a run does not have is an
// empty cell.
func CSV(w io.Writer, runs []*result.Run, at ...int) error {
	all := result.EachSeed(runs)
	params, options := map[string]bool{}, map[string]bool{}
	for _, r := range all {
		for k := range r.Result.Params {
			params[k] = true
		}
		for k := range r.Result.Options {
			options[k] = true
		}
	}
	t := new(Table)
	for i, r := range all {
		var line []any
		add := func(name string, v any) {
			if i == 0 {
				t.Header = append(t.Header, name)
			}
			line = append(line, v)
		}
		csvFacts(r.Result, add)
		csvScores(r.Result, add)
		csvCutoffs(r.Result, at, add)
		csvCosts(r.Result, add)
		csvSettings("param.", r.Result.Params, params, add)
		csvSettings("option.", r.Result.Options, options, add)
		t.Rows = append(t.Rows, line)
	}
	return t.CSV(w)
}

func csvFacts(r *result.Result, add func(string, any)) {
	preset := ""
	if r.Preset != nil {
		preset = *r.Preset
	}
	add("method", r.Method)
	add("dataset", r.Dataset)
	add("data_hash", r.DataHash)
	add("protocol", r.Protocol)
	add("leaks", strconv.FormatBool(r.Leaks))
	add("seed", strconv.FormatUint(r.Seed, 10))
	add("preset", preset)
	add("rounds", r.Rounds)
	add("selected_round", r.SelectedRound)
	add("users", r.Users)
	add("items", r.Items)
	add("interactions", r.Interactions)
	add("valid_users", usersOf(&r.Valid))
	add("test_users", usersOf(&r.Test))
	add("test_items_in_train", r.TestItemsInTrain)
	add("users_with_few_candidates", r.FewCandidates)
	add("idle_devices", r.IdleDevices)
}

func csvScores(r *result.Result, add func(string, any)) {
	four := func(name string, s *metrics.Summary) {
		x := result.ScoresOf(s)
		for i, m := range []string{"sampled.hr@10", "sampled.ndcg@10", "full.hr@10", "full.ndcg@10"} {
			add(name+"."+m, x[i])
		}
	}
	four("valid", &r.Valid)
	four("test", &r.Test)
	for _, n := range result.ReferenceNames {
		ref := r.References[n.Key]
		if ref == nil {
			ref = new(result.Reference)
		}
		four(n.Key+".test", ref.Test)
		if ref.Versus != nil {
			add(n.Key+".verdict", ref.Versus.Verdict)
		} else {
			add(n.Key+".verdict", nil)
		}
	}
	if n := r.NewUsers; n != nil {
		four("new_users.test", &n.Test)
	} else {
		four("new_users.test", nil)
	}
	p := r.Published
	if p == nil {
		p = new(result.Published)
	}
	add("published.hr@10", result.PublishedMetric(p.HR10))
	add("published.ndcg@10", result.PublishedMetric(p.NDCG10))
	add("published.source", p.Source)
	if c := r.BestOnTest; c != nil {
		add("chosen_on_test.round", c.Round)
		four("chosen_on_test", &c.Test)
	} else {
		add("chosen_on_test.round", nil)
		four("chosen_on_test", nil)
	}
}

func csvCosts(r *result.Result, add func(string, any)) {
	number := func(name string, x float64) { add(name, strconv.FormatFloat(x, 'g', 6, 64)) }
	number("seconds.train", r.Seconds.Train)
	number("seconds.eval", r.Seconds.Eval)
	number("seconds.total", r.Seconds.Total)
	number("round_ms_median", r.RoundMSMedian)
	number("devices_per_s", r.DevicesPerS)
	number("samples_per_s", r.SamplesPerS)
	add("peak_rss_bytes", strconv.FormatInt(r.PeakRSSBytes, 10))
	number("bytes.up_per_device", r.Bytes.Up)
	number("bytes.down_per_device", r.Bytes.Down)
	if p := r.Privacy; p != nil {
		add("privacy.epsilon", format.Value(p.Epsilon))
		number("privacy.delta", p.Delta)
	} else {
		add("privacy.epsilon", nil)
		add("privacy.delta", nil)
	}
	add("version", strings.TrimSpace(r.Version))
	add("commit", r.Commit)
}

// csvSettings adds a cell for each of keys.
func csvSettings(prefix string, values map[string]any, keys map[string]bool, add func(string, any)) {
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if v, ok := values[k]; ok {
			add(prefix+k, format.Value(v))
		} else {
			add(prefix+k, nil)
		}
	}
}

// isPaper reports whether a paper about federated methods uses the protocol: the others are ours, or for sequences.
func isPaper(protocol string) bool {
	return !slices.Contains([]string{"isolated", "deployed", "complete", "temporal"}, protocol)
}

// leakLabel says whether a protocol leaks. Data that repeats pairs reveals the test item even if the protocol does
// not leak.
func leakLabel(leaks, repeats bool) string {
	switch {
	case leaks:
		return "leaks"
	case repeats:
		return "does not leak, but the data repeats pairs"
	}
	return "does not leak"
}

// plotTable holds the numbers of a plot, for drawing it with another program.
func plotTable(p *chart.Plot, x, y string) *Table {
	t := &Table{Header: []string{"series", x, y}}
	for _, s := range p.Lines {
		for i := range s.X {
			at := any(format.Exact(s.X[i]))
			if k := int(s.X[i]); p.Names != nil && k >= 0 && k < len(p.Names) {
				at = p.Names[k]
			}
			t.Rows = append(t.Rows, []any{s.Name(), at, format.Exact(s.Y[i])})
		}
	}
	return t
}

// lineTable holds the numbers of a line chart.
func lineTable(l *chart.LineChart, y string) *Table {
	return plotTable(&chart.Plot{Lines: l.Lines}, "round", y)
}

// rankTable holds the numbers of the hit-rate curve.
func rankTable(users []result.User) *Table {
	t := &Table{Header: []string{"k", "hr@k"}}
	all := tested(users)
	for k := 1; k <= 100 && len(all) > 0; k++ {
		n := 0
		for _, u := range all {
			if u.TestRank <= k {
				n++
			}
		}
		t.Rows = append(t.Rows, []any{k, format.Exact(float64(n) / float64(len(all)))})
	}
	return t
}

// fifthTable holds the numbers of the bars by activity.
func fifthTable(users []result.User) *Table {
	t := &Table{Header: []string{"least_train_rows", "most_train_rows", "users", "hr@10", "lower", "upper"}}
	for _, q := range fifths(users) {
		lo, hi := wilson(q.hits, q.n)
		t.Rows = append(t.Rows, []any{
			q.lo, q.hi, q.n, format.Exact(float64(q.hits) / float64(q.n)), format.Exact(lo),
			format.Exact(hi),
		})
	}
	return t
}

// fifth is a group of users with similar numbers of train rows.
type fifth struct{ lo, hi, n, hits int }

// fifths splits the evaluated users by train rows. Users with the same number stay together, so there may be fewer
// than five groups, of unequal size.
func fifths(users []result.User) []fifth {
	var seen []result.User
	for _, u := range users {
		if u.TestRank > 0 {
			seen = append(seen, u)
		}
	}
	slices.SortStableFunc(seen, func(a, b result.User) int { return a.Rows - b.Rows })
	var out []fifth
	bin, start := -1, 0
	for i, u := range seen {
		if i > 0 && u.Rows != seen[i-1].Rows {
			start = i
		}
		if b := 5 * start / len(seen); b != bin {
			bin = b
			out = append(out, fifth{lo: u.Rows})
		}
		q := &out[len(out)-1]
		q.hi = u.Rows
		q.n++
		if u.TestRank <= 10 {
			q.hits++
		}
	}
	return out
}

// wilson is the 95% interval of a share.
func wilson(hits, n int) (lo, hi float64) {
	const z = 1.96
	p, m := float64(hits)/float64(n), float64(n)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return math.Max(0, mid-half), math.Min(1, mid+half)
}

func gapOf(s spreads, p *result.Published) result.Gap { return result.GapTo(p, s[0].Mean, s[1].Mean) }
