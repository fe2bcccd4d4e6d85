package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// Text writes what `tacit run` prints at the end: the metrics next to the references and the published ones, and
// the cost. A second table has the metrics at the list lengths at, if any are given.
func Text(w io.Writer, r *result.Result, at ...int) error {
	return SeedsText(w, &result.Repeated{Runs: []*result.Result{r}}, at...)
}

// SeedsText is Text for several seeds, as mean ± standard deviation. It reads only m.Runs.
func SeedsText(w io.Writer, m *result.Repeated, at ...int) error {
	var runs []*result.Run
	for _, r := range m.Runs {
		runs = append(runs, &result.Run{Result: r})
	}
	for _, g := range groups(runs) {
		for i, r := range g.rows {
			if i > 0 {
				fmt.Fprintln(w)
			}
			t := runTable(g, r)
			t.Notes = append(append(t.Notes, notes(g, r)...), g.notes...)
			if err := t.Text(w); err != nil {
				return err
			}
			if len(at) > 0 {
				fmt.Fprintln(w)
				if err := cutoffTable(g, []*row{r}, at).Text(w); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// runTable is the table of one row: the method, the published metrics and the references.
func runTable(g *group, r *row) *Table {
	seed := fmt.Sprintf("seed %d", r.runs[0].Result.Seed)
	if n := len(r.runs); n > 1 {
		seed = fmt.Sprintf("mean ± sd of %d seeds", n)
	}
	t := &Table{
		Title:  fmt.Sprintf("%s on %s, %s", r.label, g.title(), seed),
		Header: append([]string{""}, result.MetricNames[:]...), Align: "lr",
	}
	add := func(name string, s spreads) {
		t.Rows = append(t.Rows, []any{name, s[0], s[1], s[2], s[3]})
	}
	vs := r.versus()
	add(r.label, r.scores().marked(vs))
	if s, told := r.bestOnTest(); told {
		add(onTestLabel, s)
	}
	if s, told := r.newUserScores(); told {
		add(newUsersLabel, s)
	}
	if p := r.published(); p.ComparableUnder(g.protocol) {
		add("published", spreads{one(result.PublishedMetric(p.HR10)), one(result.PublishedMetric(p.NDCG10))})
	}
	for _, p := range r.runs[0].Result.Literature {
		model := format.Clip(format.Clean(p.Model), 40)
		add("published: "+model, spreads{2: one(p.HR10), 3: one(p.NDCG10)})
		t.Notes = append(t.Notes, fmt.Sprintf("%s is trained centrally: %s.", model,
			format.Clip(format.Clean(p.Source), 200)))
	}
	if len(t.Notes) > 0 {
		t.Notes = append(t.Notes, literatureNote)
	}
	t.Rule = len(t.Rows)
	for _, ref := range referenceRows([]*row{r}) {
		add(ref.name, ref.scores)
		if ref.fresh[0].N > 0 {
			add(newUsersLabel, ref.fresh)
		}
		t.Notes = append(t.Notes, ref.notes()...)
	}
	if t.dropEmpty() {
		t.Notes = append(t.Notes, fullRankingNote)
	}
	t.lineUp()
	t.Notes = append(append(t.Notes, memoriserNote(g, []*row{r})...),
		letterNotes([]*row{r}, []map[string]*result.Versus{vs})...)
	if said := verdictNote(vs); said != "" && r.of <= len(r.runs) {
		t.Notes = append(t.Notes, fmt.Sprintf("Compared with the references: %s.", said))
	}
	return t
}

// literatureNote says how the results of papers on sequences differ from ours.
const literatureNote = "The published models rank among items with at least five rows; ratings of the same second " +
	"are in another order there."

// fullRankingNote explains missing columns.
const fullRankingNote = "This protocol has no separate full ranking."

func one(x float64) spread { return spread{Spread: result.SpreadOf([]float64{x})} }

// dropEmpty removes the columns of full ranking if no row has a value there.
func (t *Table) dropEmpty() bool {
	first := slices.Index(t.Header, result.MetricNames[2])
	for _, r := range t.Rows {
		for _, v := range r[first : first+2] {
			if v.(spread).N > 0 {
				return false
			}
		}
	}
	t.drop(first, 2)
	return true
}

// notes returns the sentences below the table of a run.
func notes(g *group, r *row) []string {
	out := []string{selected(r)}
	if s := choiceNote(r.runs[0].Result.Choice); s != "" {
		out = append(out, s)
	}
	if s := r.newUserNote(); s != "" {
		out = append(out, s)
	}
	out = append(out, caveats(r)...)
	if p := r.published(); p != nil {
		out = append(out, publishedNote(g, r, p))
	}
	res := r.runs[0].Result
	traffic := fmt.Sprintf("Traffic per device and round: %s up, %s down.", format.Size(res.Bytes.Up),
		format.Size(res.Bytes.Down))
	if res.Central {
		traffic = "Trained in one place, without a federation: every history leaves its device."
	}
	out = append(out, traffic,
		fmt.Sprintf("Speed: %s per round (median, training only), %s devices/s, %s samples/s; %s to train, %s to "+
			"evaluate, %s in total%s.",
			format.Duration(r.mean(func(r *result.Result) float64 { return r.RoundMSMedian })/1000),
			format.Compact(r.mean(func(r *result.Result) float64 { return r.DevicesPerS })),
			format.Compact(r.mean(func(r *result.Result) float64 { return r.SamplesPerS })),
			format.Duration(r.mean(func(r *result.Result) float64 { return r.Seconds.Train })),
			format.Duration(r.mean(func(r *result.Result) float64 { return r.Seconds.Eval })),
			format.Duration(r.mean(func(r *result.Result) float64 { return r.Seconds.Total })), peak(res)))
	if res.Dropped+res.Late > 0 {
		out = append(out, fmt.Sprintf("Devices that dropped out: %s; devices that missed the deadline: %s.",
			format.Count(res.Dropped),
			format.Count(res.Late)))
	}
	if res.Privacy != nil {
		out = append(out, privacyNotes(res)...)
	}
	if s := leakNote(g, []*row{r}); s != "" {
		out = append(out, s)
	}
	return out
}

func peak(r *result.Result) string {
	if r.PeakRSSBytes <= 0 {
		return ""
	}
	return "; peak memory " + format.Size(float64(r.PeakRSSBytes))
}

// onTestLabel is the second row of a method whose paper selected its round on test.
const onTestLabel = "  its best round on test"

// selected says which round is reported and how it was selected.
func selected(r *row) string {
	lo, hi := r.extent(selectedRound)
	rounds := r.runs[0].Result.Rounds
	if hi == 0 {
		return "No round was selected, because no round was evaluated."
	}
	if r.runs[0].Result.Privacy != nil {
		return privateRound(r.runs[0].Result, span(lo, hi))
	}
	if r.runs[0].Result.BestOnTest != nil {
		lo, hi := r.extent(func(r *result.Result) int { return r.BestOnTest.Round })
		return fmt.Sprintf("Reported round: %d, the last one, because there is no validation set. Selecting on "+
			"test, as in the paper, gives round %s; those metrics were selected on the test items and are not an "+
			"estimate.",
			rounds, span(lo, hi))
	}
	if len(r.runs[0].Result.Valid.Sampled) == 0 {
		return fmt.Sprintf("Reported round: %s of %d. There is no validation set, so the round was not selected on "+
			"validation.", span(lo, hi), rounds)
	}
	hr := r.mean(func(r *result.Result) float64 { return result.MetricOf(r.Valid.Sampled, "hr@10") })
	if r.runs[0].Result.LastRoundCounts {
		return fmt.Sprintf("Reported round: %s of %d, the last one, because the method is complete only then (HR@10 "+
			"on validation: %s).", span(lo, hi), rounds, format.Fraction(hr))
	}
	return fmt.Sprintf("Reported round: %s of %d, selected on validation (HR@10 %s), never on test.", span(lo, hi),
		rounds, format.Fraction(hr))
}

func selectedRound(r *result.Result) int { return r.SelectedRound }

func span(lo, hi int) string {
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}

// publishedNote compares a row with the published metrics, if the protocols match.
func publishedNote(g *group, r *row, p *result.Published) string {
	if !p.ComparableUnder(g.protocol) {
		return fmt.Sprintf("Published (%s): HR@10 %s, NDCG@10 %s under the paper's protocol; not comparable with %s.",
			p.Source, format.Fraction(result.PublishedMetric(p.HR10)),
			format.Fraction(result.PublishedMetric(p.NDCG10)), g.protocol)
	}
	d := gapOf(r.comparable(), p)
	verdict := d.Verdict(len(r.runs))
	if r.of > len(r.runs) {
		verdict = fmt.Sprintf("the verdict is based on the mean over all %d seeds", r.of)
	}
	return fmt.Sprintf("Published (%s): our HR@10 differs by %s points and our NDCG@10 by %s points; %s.", p.Source,
		format.Points(d.HR), format.Points(d.NDCG), verdict)
}

// leakNote says how large the leak of a protocol is; empty if it does not leak.
func leakNote(g *group, rows []*row) string {
	if !g.leaks {
		return ""
	}
	var reach []string
	for _, ref := range rowsOfReference("memoriser", rows) {
		if m := ref.scores[0]; m.N > 0 {
			reach = append(reach, format.Fraction(m.Mean)+
				strings.TrimPrefix(ref.name, result.ReferenceTitle("memoriser")))
		}
	}
	if m := rows[0].runs[0].Result.LeakMeasured; len(reach) == 0 && m != nil {
		reach = []string{format.Fraction(m.Memoriser)}
	}
	if len(reach) == 0 {
		return "This protocol leaks: training treats held-out items differently from the items they are ranked " +
			"against. Use --protocol deployed to measure the method itself."
	}
	return fmt.Sprintf("This protocol leaks: a scorer without a model (the memoriser) reaches an HR@10 of %s. Use "+
		"--protocol deployed to measure the method itself.", strings.Join(reach, " and "))
}

// notComputed is the reason for a reference that a run does not mention.
const notComputed = "not computed"

// because explains why a reference was not computed.
func because(name, reason string) string {
	if reason == notComputed {
		return name + ": not computed."
	}
	return name + ": not computed (" + strings.TrimSuffix(reason, ".") + ")."
}
