package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// Markdown writes a table for each data set and protocol; no table mixes two
// protocols. Runs that differ in their seed only are one row, as mean ± standard
// deviation.
func Markdown(w io.Writer, runs []*Run) error {
	var b bytes.Buffer
	b.WriteString("# Results\n\n")
	b.WriteString("Metrics are fractions on the test items, at the round that validation selected, but for runs " +
		"with a privacy promise, where notes say which; differences to published numbers are in points (hundredths).\n\n")
	for _, g := range groups(runs) {
		t := overview(g)
		if err := t.Markdown(&b); err != nil {
			return err
		}
	}
	_, err := w.Write(append(bytes.TrimRight(b.Bytes(), "\n"), '\n'))
	return err
}

// overview is the table of a group: its rows, and the references under them.
func overview(g *group) *Table {
	t := &Table{Title: g.title(), Align: "lr"}
	t.Header = append(append([]string{"method", "seeds"}, scoreNames[:]...), "published HR / NDCG",
		"difference in points", "round", "seconds per run", "bytes up per device and round")
	var about []string
	beside := false
	var said sayings
	var tested []map[string]*Versus
	for _, r := range g.rows {
		vs := r.versus()
		tested = append(tested, vs)
		s := r.scores().marked(vs)
		pub, diff := "-", "-"
		if p := r.published(); p.under(g.protocol) {
			d := gapOf(r.asPublished(), p)
			pub = frac(published(p.HR10)) + " / " + frac(published(p.NDCG10))
			diff = points(d.hr) + " / " + points(d.ndcg)
			said.add(r.name(), fmt.Sprintf("published by %s; %s.", p.Source, d.verdict(len(r.runs))))
			beside = true
		} else if p != nil {
			said.add(r.name(), against(g, r, p))
		}
		t.Rows = append(t.Rows, []any{
			r.label, len(r.runs), s[0], s[1], s[2], s[3], pub, diff, span(r.extent(selectedRound)),
			digits(r.mean(func(r *Result) float64 { return r.Seconds.Total })),
			size(r.mean(func(r *Result) float64 { return r.Bytes.Up })),
		})
		if x, told := r.onTest(); told {
			t.Rows = append(t.Rows, []any{
				onTestLabel, "", x[0], x[1], x[2], x[3], "", "",
				span(r.extent(func(r *Result) int { return r.OnTest.Round })), "", "",
			})
			said.add(r.name(), selected(r))
		}
		if x, told := r.fresh(); told {
			t.Rows = append(t.Rows, under(freshLabel, x))
		}
		said.more(r.name(), strings.TrimPrefix(verdicts(vs)+".", "."), r.freshNote(), r.runs[0].Result.Choice.chosen())
		if res := r.runs[0].Result; res.Privacy != nil {
			said.add(r.name(), strings.Join(append([]string{selected(r)}, privacyNotes(res)...), " "))
		}
	}
	t.Rule = len(t.Rows)
	for _, ref := range refRows(g.rows) {
		t.Rows = append(t.Rows, under(ref.name, ref.scores))
		if ref.fresh[0].n > 0 {
			t.Rows = append(t.Rows, under(freshLabel, ref.fresh))
		}
		about = append(about, ref.notes()...)
	}
	if !beside {
		t.drop(slices.Index(t.Header, "published HR / NDCG"), 2)
	}
	if t.dropEmpty() {
		about = append(about, "Full ranking: none under this protocol beside its own candidates.")
	}
	t.lineUp()
	about = append(append(append(about, nothingToMemorise(g, g.rows)...), lettered(g.rows, tested)...), g.notes...)
	if s := leakWords(g, g.rows); s != "" {
		about = append(about, s)
	}
	t.Notes = append(append(said.lines(), sharedCaveats(g.rows)...), about...)
	return t
}

// under is a line of the overview with scores alone.
func under(label string, s spreads) []any {
	return []any{label, "", s[0], s[1], s[2], s[3], "", "", "", "", ""}
}

// more adds the sentences that are not empty.
func (s *sayings) more(name string, sentences ...string) {
	for _, x := range sentences {
		if x != "" {
			s.add(name, x)
		}
	}
}

// sayings are sentences about rows; rows with the same sentence share a line.
type sayings struct {
	order []string
	names map[string][]string
}

func (s *sayings) add(name, sentence string) {
	if s.names == nil {
		s.names = map[string][]string{}
	}
	if s.names[sentence] == nil {
		s.order = append(s.order, sentence)
	}
	s.names[sentence] = append(s.names[sentence], name)
}

func (s *sayings) lines() []string {
	var out []string
	for _, sentence := range s.order {
		out = append(out, strings.Join(s.names[sentence], ", ")+": "+sentence)
	}
	return out
}

// drop removes n columns from the first.
func (t *Table) drop(first, n int) {
	t.Header = slices.Delete(t.Header, first, first+n)
	for i, r := range t.Rows {
		t.Rows[i] = slices.Delete(r, first, first+n)
	}
}

// CSV writes one line per run, with a column for each number. A param or option
// that a run does not have is an empty cell.
func CSV(w io.Writer, runs []*Run) error {
	all := flat(runs)
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
		csvCosts(r.Result, add)
		csvSettings("param.", r.Result.Params, params, add)
		csvSettings("option.", r.Result.Options, options, add)
		t.Rows = append(t.Rows, line)
	}
	return t.CSV(w)
}

func csvFacts(r *Result, add func(string, any)) {
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
	add("test_items_in_train", r.Repeats)
	add("users_with_few_candidates", r.Few)
	add("idle_devices", r.Idle)
}

func csvScores(r *Result, add func(string, any)) {
	four := func(name string, s *metrics.Summary) {
		x := scoresOf(s)
		for i, m := range []string{"sampled.hr@10", "sampled.ndcg@10", "full.hr@10", "full.ndcg@10"} {
			add(name+"."+m, x[i])
		}
	}
	four("valid", &r.Valid)
	four("test", &r.Test)
	for _, n := range refNames {
		ref := r.References[n.key]
		if ref == nil {
			ref = new(Reference)
		}
		four(n.key+".test", ref.Test)
		if ref.Versus != nil {
			add(n.key+".verdict", ref.Versus.Verdict)
		} else {
			add(n.key+".verdict", nil)
		}
	}
	if n := r.NewUsers; n != nil {
		four("new_users.test", &n.Test)
	} else {
		four("new_users.test", nil)
	}
	p := r.Published
	if p == nil {
		p = new(Published)
	}
	add("published.hr@10", published(p.HR10))
	add("published.ndcg@10", published(p.NDCG10))
	add("published.source", p.Source)
	if c := r.OnTest; c != nil {
		add("chosen_on_test.round", c.Round)
		four("chosen_on_test", &c.Test)
	} else {
		add("chosen_on_test.round", nil)
		four("chosen_on_test", nil)
	}
}

func csvCosts(r *Result, add func(string, any)) {
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
		add("privacy.epsilon", word(p.Epsilon))
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
			add(prefix+k, word(v))
		} else {
			add(prefix+k, nil)
		}
	}
}
