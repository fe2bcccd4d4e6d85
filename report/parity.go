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
	Table             string // what it stands under; rows of one table come together
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
	Seconds           float64    // of a run, its evaluation included
	Up                float64    // bytes that a device sends in a round
	Central           bool       // no federation
	Commit            string
	References        map[string]*Reference // as in Result; only their test metrics are read
}

const parityIntro = `# Parity

What the papers report, beside what this program measures. This page is generated; do not edit it by hand.

- Ours is mean ± standard deviation over the seeds, on the test items, at the round that validation selected. Metrics are fractions; differences are in points (hundredths).
- A number counts as reproduced if HR@10 and NDCG@10 are both within %g points of the published ones. Where they are not, the table says so.
- A verdict is given only under the protocol that the authors' code uses. Under it, a held-out item is never drawn as a training negative, while the items it is ranked against are; the **memoriser**, which counts draws and has no model, shows what that alone is worth. Such numbers say that we run the same method. They do not say how well it would do on a device: for that, read the tables whose protocol does not leak.
- No table mixes two protocols. Seconds are those of one run, with its evaluation; ms are those of the training of a round. Bytes are of the binary form of an update.
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
	b.WriteString("\n## At a glance\n\n")
	for _, p := range distinct(rows, func(r ParityRow) string { return r.Protocol }) {
		if err := glance(rows, datasets, p).Markdown(&b); err != nil {
			return err
		}
	}
	for _, d := range datasets {
		fmt.Fprintf(&b, "## %s\n\n", escapeMD(clean(d)))
		of := slices.DeleteFunc(slices.Clone(rows), func(r ParityRow) bool { return r.Dataset != d })
		for _, p := range distinct(of, func(r ParityRow) string { return r.Protocol }) {
			under := slices.DeleteFunc(slices.Clone(of), func(r ParityRow) bool { return r.Protocol != p })
			fmt.Fprintf(&b, "### Protocol %s (%s)\n\n", escapeMD(clean(p)), leakWord(under[0].Leaks, false))
			for i, name := range distinct(under, func(r ParityRow) string { return r.Table }) {
				of := slices.DeleteFunc(slices.Clone(under), func(r ParityRow) bool { return r.Table != name })
				t := parityTable(of, i == 0)
				if name != "" {
					fmt.Fprintf(&b, "**%s**\n\n", escapeMD(clean(name)))
				}
				if err := t.Markdown(&b); err != nil {
					return err
				}
			}
		}
	}
	b.Truncate(len(bytes.TrimRight(b.Bytes(), "\n")) + 1)
	_, err := w.Write(b.Bytes())
	return err
}

// distinct lists the values of a field, in the order of their first use.
func distinct(rows []ParityRow, of func(ParityRow) string) []string {
	var out []string
	for _, r := range rows {
		if !slices.Contains(out, of(r)) {
			out = append(out, of(r))
		}
	}
	return out
}

// glance is a line per method: HR@10 on every data set under one protocol.
func glance(rows []ParityRow, datasets []string, protocol string) *Table {
	t := &Table{Title: "HR@10 under " + protocol, Header: []string{"method"}, Align: "lr"}
	for _, d := range datasets {
		t.Header = append(t.Header, d, "published")
	}
	for _, m := range distinct(rows, func(r ParityRow) string { return r.Method }) {
		line := []any{m}
		for _, d := range datasets {
			hr, pub := "", ""
			for _, r := range rows {
				if r.Method == m && r.Variant == "" && r.Dataset == d && r.Protocol == protocol {
					if hr = frac(r.HR); r.Published.under(protocol) {
						pub = frac(published(r.Published.HR10))
					}
				}
			}
			line = append(line, hr, pub)
		}
		t.Rows = append(t.Rows, line)
	}
	for c := len(t.Header) - 1; c > 0; c-- { // nobody has published on every set
		if !slices.ContainsFunc(t.Rows, func(r []any) bool { return r[c] != "" }) {
			t.drop(c, 1)
		}
	}
	return t
}

// parityTable is for rows of one data set and protocol; there is at least one. The
// reference rows are added if asked for.
func parityTable(rows []ParityRow, references bool) *Table {
	protocol := rows[0].Protocol
	t := &Table{Align: "lr"}
	t.Header = append(append([]string{"method", "seeds"}, scoreNames[:]...), "published HR / NDCG", "difference in points", "verdict", "ms per round", "seconds", "sent per device and round", "commit")
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
		if p := r.Published; p.under(protocol) {
			d := gapOf(s, p)
			pub, diff = frac(published(p.HR10))+" / "+frac(published(p.NDCG10)), points(d.hr)+" / "+points(d.ndcg)
			verdict = d.verdict(r.Seeds)
			said.add(label, "published by "+p.Source+".")
		}
		t.Rows = append(t.Rows, []any{label, r.Seeds, s[0], s[1], s[2], s[3], pub, diff, verdict, digits(r.RoundMS), digits(r.Seconds), sent(r), head(r.Commit)})
	}
	t.Notes = said.lines()
	if !references {
		labelled = nil
	}
	for _, ref := range refRows(labelled) {
		x := ref.scores
		for i := range x {
			x[i].n = min(x[i].n, 1) // they are means already, and of the same seeds
		}
		t.Rows = append(t.Rows, []any{ref.name, "", x[0], x[1], x[2], x[3], "", "", "", "", "", "", ""})
		t.Notes = append(t.Notes, ref.notes()...)
	}
	if !isPaper(protocol) {
		t.drop(slices.Index(t.Header, "published HR / NDCG"), 3)
	}
	if t.dropEmpty() && references {
		t.Notes = append(t.Notes, "Full ranking: none under this protocol, which ranks sampled candidates only.")
	}
	return t
}

func sent(r ParityRow) string {
	if r.Central {
		return "its history"
	}
	return size(r.Up)
}

func measured(mean, sd float64, seeds int) spread {
	s := one(mean)
	if s.n > 0 && seeds > 1 {
		s.sd, s.n = sd, seeds
	}
	return s
}
