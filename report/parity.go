package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
)

// ParityRow is a method beside its paper: means and standard deviations over
// Seeds runs, of the test items. A metric that was not measured is NaN.
type ParityRow struct {
	Method, Variant   string // Variant is what sets it apart, such as "infer=global"
	Dataset, Protocol string
	Leaks             bool
	Seeds             int
	Rounds            int     // of each run, which the memoriser watched; 0 if not known
	HR, HRSD          float64 // sampled, at 10, as fractions
	NDCG, NDCGSD      float64
	FullHR, FullNDCG  float64
	Published         *Published // nil for none
	RoundMS           float64    // median time to train a round
	Commit            string
	References        map[string]*Reference // as in Result; only their test metrics are read
}

const parityIntro = `# Parity

What the papers report, beside what this program measures. This page is generated; do not edit it by hand.

- Ours is mean ± standard deviation over the seeds, on the test items, at the round that validation selected. Metrics are fractions; differences are in points (hundredths).
- A number counts as reproduced if HR@10 and NDCG@10 are both within %g points of the published ones. Where they are not, the table says so.
- A verdict is given only under the protocol that the authors' code uses. Under it, a held-out item is never drawn as a training negative, while the items it is ranked against are; the **memoriser**, which counts draws and has no model, shows what that alone is worth. Such numbers say that we run the same method. They do not say how well it would do on a device: for that, read the tables whose protocol does not leak.
- No table mixes two protocols.
`

// Parity writes docs/parity.md: for each data set one table per protocol, rows
// in the order given. Notes are added to the introduction; what stands between
// backticks there is code.
func Parity(w io.Writer, rows []ParityRow, notes ...string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, parityIntro, 100*tolerance)
	for _, n := range notes {
		b.WriteString("- " + escapeNote(clean(n)) + "\n")
	}
	var datasets []string
	for _, r := range rows {
		if !slices.Contains(datasets, r.Dataset) {
			datasets = append(datasets, r.Dataset)
		}
	}
	for _, d := range datasets {
		b.WriteString("\n## " + escapeMD(clean(d)) + "\n\n")
		var done []string
		for _, r := range rows {
			key := fmt.Sprint(r.Protocol, r.Leaks)
			if r.Dataset != d || slices.Contains(done, key) {
				continue
			}
			done = append(done, key)
			var same []ParityRow
			for _, s := range rows {
				if s.Dataset == d && s.Protocol == r.Protocol && s.Leaks == r.Leaks {
					same = append(same, s)
				}
			}
			if err := parityTable(same).Markdown(&b); err != nil {
				return err
			}
		}
		b.Truncate(len(bytes.TrimRight(b.Bytes(), "\n")) + 1)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// parityTable is for rows of one data set and protocol; there is at least one.
func parityTable(rows []ParityRow) *Table {
	protocol, leaks := rows[0].Protocol, rows[0].Leaks
	t := &Table{Title: fmt.Sprintf("Protocol %s (%s)", protocol, leakWord(leaks, false)), Align: "lr"}
	t.Header = append(append([]string{"method", "seeds"}, scoreNames[:]...), "published HR / NDCG", "difference in points", "verdict", "ms per round", "commit")
	var labelled []*row
	var said sayings
	for i, r := range rows {
		label := r.Method
		if r.Variant != "" {
			label += " (" + r.Variant + ")"
		}
		labelled = append(labelled, &row{label: label, runs: []*Run{{Result: &Result{Seed: uint64(i), Rounds: r.Rounds, References: r.References}}}})
		s := spreads{measured(r.HR, r.HRSD, r.Seeds), measured(r.NDCG, r.NDCGSD, r.Seeds), one(r.FullHR), one(r.FullNDCG)}
		pub, diff, verdict := "-", "-", "no published number"
		if p := r.Published; p != nil && isPaper(protocol) {
			d := gapOf(s, p)
			pub, diff = frac(published(p.HR10))+" / "+frac(published(p.NDCG10)), points(d.hr)+" / "+points(d.ndcg)
			verdict = d.verdict(r.Seeds)
			said.add(label, "published by "+p.Source+".")
		}
		t.Rows = append(t.Rows, []any{label, r.Seeds, s[0], s[1], s[2], s[3], pub, diff, verdict, digits(r.RoundMS), head(r.Commit)})
	}
	t.Notes = said.lines()
	for _, ref := range refRows(labelled) {
		x := ref.scores
		for i := range x {
			x[i].n = min(x[i].n, 1) // they are means already, and of the same seeds
		}
		t.Rows = append(t.Rows, []any{ref.name, "", x[0], x[1], x[2], x[3], "", "", "", "", ""})
		t.Notes = append(t.Notes, ref.notes()...)
	}
	if !isPaper(protocol) {
		t.drop(slices.Index(t.Header, "published HR / NDCG"), 3)
	}
	if t.dropEmpty() {
		t.Notes = append(t.Notes, "Full ranking: none under this protocol, which ranks sampled candidates only.")
	}
	return t
}

func measured(mean, sd float64, seeds int) spread {
	s := one(mean)
	if s.n > 0 && seeds > 1 {
		s.sd, s.n = sd, seeds
	}
	return s
}
