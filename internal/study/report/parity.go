package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

const parityIntro = "# %s\n" +
	"\n" +
	"What the papers report, next to what this program measures. This page is generated; do not edit it by " +
	"hand.\n" +
	"\n" +
	"- Our metrics are mean ± standard deviation over the seeds, on the test items, at the round selected on " +
	"validation, or at the last round if the protocol has no validation set. Metrics are fractions; differences " +
	"are in points (hundredths).\n" +
	"- A result counts as reproduced if HR@10 and NDCG@10 are within %g points of the published ones (if only " +
	"one was published, that one). Otherwise the table says so.\n" +
	"- A verdict is given only under the paper's protocol.%s\n" +
	"- No table mixes two protocols. Seconds are for one run including evaluation; ms are for the training of " +
	"one round. Bytes are the size of an encoded update.\n"

const parityLeak = " Under protocol `paper`, as in the authors' code, a held-out item is never drawn as a training " +
	"negative, while the items it is ranked against are. The **memoriser**, which has no model and counts draws, " +
	"shows what this leak alone is worth. Such metrics show that we run the same method, not how well it would do " +
	"on a device: for that, read the tables whose protocol does not leak."

// Parity writes a page such as docs/parity.md: for each data set one table per protocol, rows in the given order.
// Notes are added to the introduction; text between backticks is code.
func Parity(w io.Writer, title string, rows []result.ParityRow, notes ...string) error {
	var b bytes.Buffer
	leak := ""
	if slices.ContainsFunc(rows, func(r result.ParityRow) bool { return r.Leaks }) {
		leak = parityLeak
	}
	fmt.Fprintf(&b, parityIntro, escapeMD(format.Clean(title)), 100*result.Tolerance, leak)
	for _, n := range notes {
		b.WriteString("- " + escapeNote(format.Clean(n)) + "\n")
	}
	var datasets []string
	for _, r := range rows {
		if !slices.Contains(datasets, r.Dataset) {
			datasets = append(datasets, r.Dataset)
		}
	}
	b.WriteString("\n## At a glance\n\n")
	for _, p := range distinct(rows, func(r result.ParityRow) string { return r.Protocol }) {
		if err := glance(rows, datasets, p).Markdown(&b); err != nil {
			return err
		}
	}
	for _, d := range datasets {
		fmt.Fprintf(&b, "## %s\n\n", escapeMD(format.Clean(d)))
		of := slices.DeleteFunc(slices.Clone(rows), func(r result.ParityRow) bool { return r.Dataset != d })
		for _, p := range distinct(of, func(r result.ParityRow) string { return r.Protocol }) {
			under := slices.DeleteFunc(slices.Clone(of), func(r result.ParityRow) bool { return r.Protocol != p })
			fmt.Fprintf(&b, "### Protocol %s (%s)\n\n", escapeMD(format.Clean(p)), leakLabel(under[0].Leaks, false))
			for i, name := range distinct(under, func(r result.ParityRow) string { return r.Table }) {
				of := slices.DeleteFunc(slices.Clone(under), func(r result.ParityRow) bool { return r.Table != name })
				t := parityTable(of, i == 0)
				if name != "" {
					fmt.Fprintf(&b, "**%s**\n\n", escapeMD(format.Clean(name)))
				}
				if err := t.Markdown(&b); err != nil {
					return err
				}
				if t := againstBase(of); t != nil {
					b.WriteString("Compared with its base:\n\n")
					if err := t.Markdown(&b); err != nil {
						return err
					}
				}
			}
		}
	}
	b.Truncate(len(bytes.TrimRight(b.Bytes(), "\n")) + 1)
	_, err := w.Write(b.Bytes())
	return err
}

// ParityText writes the same tables for a terminal.
func ParityText(w io.Writer, rows []result.ParityRow) error {
	return eachTable(rows, func(t *Table) error { return t.Text(w) })
}

// ParityLaTeX writes the same tables for a paper.
func ParityLaTeX(w io.Writer, rows []result.ParityRow) error {
	return eachTable(rows, func(t *Table) error { return t.LaTeX(w) })
}

// eachTable calls do with each table; its title names data, protocol and subject.
func eachTable(rows []result.ParityRow, do func(*Table) error) error {
	key := func(r result.ParityRow) string { return r.Dataset + "\x00" + r.Protocol + "\x00" + r.Table }
	last := ""
	for _, k := range distinct(rows, key) {
		of := slices.DeleteFunc(slices.Clone(rows), func(r result.ParityRow) bool { return key(r) != k })
		first := of[0]
		place := first.Dataset + "\x00" + first.Protocol
		t := parityTable(of, place != last)
		last = place
		t.Title = fmt.Sprintf("%s, protocol %s (%s)", first.Dataset, first.Protocol, leakLabel(first.Leaks, false))
		if first.Table != "" {
			t.Title += ": " + first.Table
		}
		if err := do(t); err != nil {
			return err
		}
		if t := againstBase(of); t != nil {
			t.Title = "Compared with its base"
			if err := do(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// ParityCSV writes one line per row.
func ParityCSV(w io.Writer, rows []result.ParityRow) error {
	t := &Table{Header: []string{
		"dataset", "protocol", "leaks", "table", "method", "variant", "seeds", "hr10", "hr10_sd", "ndcg10",
		"ndcg10_sd", "full_hr10", "full_ndcg10",
		"published_hr10", "published_ndcg10", "source", "round_ms", "seconds", "bytes_up", "commit", "hr20",
		"published_hr20", "versus",
	}}
	for _, r := range rows {
		pub := result.Published{HR10: math.NaN(), NDCG10: math.NaN()}
		if r.Published != nil {
			pub = *r.Published
		}
		line := []any{r.Dataset, r.Protocol, r.Leaks, r.Table, r.Method, r.Variant, r.Seeds}
		for _, x := range []float64{r.HR, r.HRSD, r.NDCG, r.NDCGSD, r.FullHR, r.FullNDCG, pub.HR10, pub.NDCG10} {
			line = append(line, plain(x))
		}
		t.Rows = append(t.Rows, append(line, pub.Source, plain(r.RoundMS), plain(r.Seconds), plain(r.Up), r.Commit,
			plain(r.HR20), plain(result.PublishedMetric(pub.HR20)), verdictNote(versusOf(r.References))))
	}
	return t.CSV(w)
}

// plain formats a number for programs; empty if it was not measured.
func plain(x float64) string {
	if x != x {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 8, 64)
}

// distinct returns the values of a field in order of first use.
func distinct(rows []result.ParityRow, of func(result.ParityRow) string) []string {
	var out []string
	for _, r := range rows {
		if !slices.Contains(out, of(r)) {
			out = append(out, of(r))
		}
	}
	return out
}

// glance is a table with a row per method: HR@10 on every data set under one protocol.
func glance(rows []result.ParityRow, datasets []string, protocol string) *Table {
	t := &Table{Title: "HR@10 under " + protocol, Header: []string{"method"}, Align: "lr"}
	for _, d := range datasets {
		t.Header = append(t.Header, d, "published")
	}
	for _, m := range distinct(rows, func(r result.ParityRow) string { return r.Method }) {
		line, some := []any{m}, false
		for _, d := range datasets {
			hr, pub := "", ""
			for _, r := range rows {
				if r.Method == m && r.Variant == "" && r.Dataset == d && r.Protocol == protocol {
					some = true
					if hr = format.Fraction(r.HR); r.Published.ComparableUnder(protocol) {
						pub = format.Fraction(result.PublishedMetric(r.Published.HR10))
					}
				}
			}
			line = append(line, hr, pub)
		}
		if some {
			t.Rows = append(t.Rows, line)
		}
	}
	for c := len(t.Header) - 1; c > 0; c-- { // drop columns without published metrics
		if !slices.ContainsFunc(t.Rows, func(r []any) bool { return r[c] != "" }) {
			t.drop(c, 1)
		}
	}
	return t
}

// parityTable is the table for one or more rows of one data set and protocol, with the references if asked for.
func parityTable(rows []result.ParityRow, references bool) *Table {
	protocol := rows[0].Protocol
	t := &Table{Align: "lr"}
	t.Header = append(append([]string{"method", "seeds"}, result.MetricNames[:]...), pubTitle, "difference in points",
		longTitle, "verdict", "ms per round", "seconds", "sent per device and round", "commit")
	var labelled []*row
	var said rowNotes
	var tested []map[string]*result.Versus
	for i, r := range rows {
		labelled = append(labelled, &row{
			label: r.Label(),
			runs:  []*result.Run{{Result: &result.Result{Seed: uint64(i), Rounds: r.Rounds, References: r.References}}},
		})
		vs := versusOf(r.References)
		tested = append(tested, vs)
		t.Rows = append(t.Rows, parityLine(r, vs))
		if p := r.Published; p.ComparableUnder(protocol) {
			said.add(r.Label(), "published by "+p.Source+".")
		}
		if v := verdictNote(vs); v != "" {
			said.add(r.Label(), v+".")
		}
	}
	t.Notes = append(said.lines(), letterNotes(labelled, tested)...)
	if !references {
		labelled = nil
	}
	for _, ref := range parityRefs(rows, labelled) {
		x := ref.scores
		for i := range x {
			x[i].N = min(x[i].N, 1) // already means over the same seeds
		}
		t.Rows = append(t.Rows, []any{ref.name, "", x[0], x[1], x[2], x[3], "", "", "", "", "", "", "", ""})
		t.Notes = append(t.Notes, ref.notes()...)
	}
	if long := slices.Index(t.Header, longTitle); !slices.ContainsFunc(t.Rows,
		func(r []any) bool { return r[long] != "" }) {
		t.drop(long, 1)
	}
	if !isPaper(protocol) {
		t.drop(slices.Index(t.Header, pubTitle), 3)
	}
	if t.dropEmpty() && references {
		t.Notes = append(t.Notes, fullRankingNote)
	}
	t.lineUp()
	return t
}

// parityRefs returns the references of labelled rows. Rows with fewer seeds than another are left out, because
// the mean would count some seeds twice. The memoriser differs for each number of rounds.
func parityRefs(rows []result.ParityRow, labelled []*row) []referenceRow {
	var out []referenceRow
	for _, key := range referenceKeys(runsWithReferences(labelled)) {
		var of []*row
		for i, r := range labelled {
			if !slices.ContainsFunc(rows, func(q result.ParityRow) bool {
				return q.Seeds > rows[i].Seeds && len(q.References) > 0 &&
					(key != "memoriser" || q.Rounds == rows[i].Rounds)
			}) {
				of = append(of, r)
			}
		}
		out = append(out, rowsOfReference(key, of)...)
	}
	return out
}

// The columns that only some tables have.
const pubTitle, longTitle = "published HR / NDCG", "HR@20 / published"

// parityLine is the row in its table.
func parityLine(r result.ParityRow, vs map[string]*result.Versus) []any {
	s := parityScores(r).marked(vs)
	pub, diff, long := "-", "-", ""
	if p := r.Published; p.ComparableUnder(r.Protocol) {
		d := gapOf(s, p)
		pub, diff = format.Fraction(result.PublishedMetric(p.HR10))+" / "+
			format.Fraction(result.PublishedMetric(p.NDCG10)), format.Points(d.HR)+" / "+format.Points(d.NDCG)
		if p.HR20 > 0 {
			long = format.Fraction(r.HR20) + " / " + format.Fraction(p.HR20)
		}
	}
	return []any{
		r.Label(), r.Seeds, s[0], s[1], s[2], s[3], pub, diff, long, parityVerdict(r, vs), format.Digits(r.RoundMS),
		format.Digits(r.Seconds), sent(r), format.HashPrefix(r.Commit),
	}
}

func parityScores(r result.ParityRow) spreads {
	return spreads{measured(r.HR, r.HRSD, r.Seeds), measured(r.NDCG, r.NDCGSD, r.Seeds), one(r.FullHR), one(r.FullNDCG)}
}

// parityVerdict is the verdict on reproduction, and the one against popularity unless the method is better: a
// reproduced metric may still be no better than popularity.
func parityVerdict(r result.ParityRow, vs map[string]*result.Versus) string {
	out := cmp.Or(r.Verdict(), "no published number")
	if v := vs["popularity"]; v != nil && v.Phrase() != "better than %s" {
		out += "; " + v.Verdict
	}
	return out
}

func sent(r result.ParityRow) string {
	if r.Central {
		return "its whole history"
	}
	return format.Size(r.Up)
}

func measured(mean, sd float64, seeds int) spread {
	s := one(mean)
	if s.N > 0 && seeds > 1 {
		s.SD, s.N = sd, seeds
	}
	return s
}
