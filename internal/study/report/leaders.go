package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
)

// Leaderboard is all methods beside each other, table by table: what leaderboard.json
// holds.
type Leaderboard struct {
	About  string       `json:"about"` // how it was made
	Seeds  int          `json:"seeds"` // at most, for each row
	Tables []*Standings `json:"tables"`
}

// Standings is one data set under one protocol.
type Standings struct {
	Dataset  string      `json:"dataset"`
	Protocol string      `json:"protocol"`
	Read     string      `json:"read,omitempty"` // how the data was read, where that is not as it is
	Users    int         `json:"users"`
	Items    int         `json:"items"`
	Rows     int         `json:"interactions"`
	Reason   string      `json:"reason,omitempty"` // why nothing can be measured
	Entries  []*Standing `json:"entries"`          // the best by full NDCG@10 first, references last
	Missing  []string    `json:"missing"`          // what was not run, and why
}

// Standing is a row. Its metrics are sampled HR@10 and NDCG@10, full HR@10 and NDCG@10.
type Standing struct {
	Method    string     `json:"method"`
	Reference bool       `json:"reference,omitempty"`
	Central   bool       `json:"central,omitempty"` // no federation: every history was in one place
	Epsilon   float64    `json:"epsilon,omitempty"` // that it was trained with; 0 without a promise
	Seeds     []uint64   `json:"seeds"`
	Mean      [4]float64 `json:"mean"`
	SD        [4]float64 `json:"sd"`
	// P is how surely it differs from the best of the column: the p of a paired Wilcoxon
	// test over users, on the seeds that both have, adjusted by Holm for all rows and columns
	// of the table. It is 1 for the best itself.
	P       [4]float64 `json:"p"`
	Best    [4]bool    `json:"best"`
	Few     [4]float64 `json:"few_rows"` // of the quarter of the users with the fewest train rows
	New     *Newcomers `json:"new_users,omitempty"`
	Up      float64    `json:"bytes_up"` // of a device, in the whole of training
	Down    float64    `json:"bytes_down"`
	Seconds float64    `json:"core_seconds"` // of training
	Rounds  int        `json:"rounds"`
	From    string     `json:"settings"`
	Commits []string   `json:"commits"`
}

// Newcomers are the metrics on users that took no part in training, in runs of their own.
type Newcomers struct {
	Share float64    `json:"share"`
	Seeds int        `json:"seeds"`
	Mean  [4]float64 `json:"mean"`
	SD    [4]float64 `json:"sd"`
	How   string     `json:"how"` // they are served, or why not
}

// served reports whether they have metrics.
func (n *Newcomers) served() bool { return n != nil && n.Seeds > 0 }

// worse is below which p a row counts as shown to be below the best.
const worse = 0.01

func (s *Standings) title() string { return s.Dataset + ", protocol " + s.Protocol }

// of is a metric as a table shows it: the best is marked with a star, and who is not shown
// to differ from it with a sign of likeness.
func (e *Standing) of(m int) spread {
	out := spread{mean: e.Mean[m], sd: e.SD[m], n: len(e.Seeds)}
	switch {
	case e.Best[m]:
		out.mark = "*"
	case e.P[m] >= worse:
		out.mark = "~"
	}
	return out
}

// row names a method in a figure, which has one row for it whatever was promised.
func (e *Standing) row() string {
	plain := *e
	plain.Epsilon = 0
	return plain.label()
}

func (e *Standing) label() string {
	switch {
	case e.Reference:
		return refName(e.Method) + " (reference)"
	case e.Central:
		return e.Method + " (one place)"
	case e.Epsilon > 0:
		return fmt.Sprintf("%s (epsilon %.3g)", e.Method, e.Epsilon)
	}
	return e.Method
}

// table is the standings as people read them.
func (s *Standings) table() *Table {
	t := &Table{Title: s.title(), Align: "lrrrrrrrrrrl"}
	t.Header = append(append([]string{"method"}, scoreNames[:]...), "few rows: full NDCG@10",
		"new users: sampled HR@10", "new users: full NDCG@10", "up per device", "down per device",
		"training, one core", "seeds")
	for _, e := range s.Entries {
		if t.Rule == 0 && e.Reference {
			t.Rule = len(t.Rows)
		}
		fresh := [2]spread{{mean: math.NaN()}, {mean: math.NaN()}}
		if n := e.New; n.served() {
			fresh = [2]spread{{mean: n.Mean[0], sd: n.SD[0], n: n.Seeds}, {mean: n.Mean[3], sd: n.SD[3], n: n.Seeds}}
		}
		up, down, train := "-", "-", took(e.Seconds)
		if !e.Central {
			up, down = size(e.Up), size(e.Down)
		}
		t.Rows = append(t.Rows, []any{
			e.label(), e.of(0), e.of(1), e.of(2), e.of(3), frac(e.Few[3]), fresh[0],
			fresh[1], up, down, train, fmt.Sprint(len(e.Seeds)),
		})
	}
	t.lineUp()
	return t
}

// settings says where the settings of rows come from.
func (b *Leaderboard) settings() *Table {
	t := &Table{Title: "Settings", Header: []string{
		"data", "protocol", "method", "settings", "rounds", "seeds",
		"commit",
	}, Align: "llllrrl"}
	for _, s := range b.Tables {
		for _, e := range s.Entries {
			var seeds []string
			for _, x := range e.Seeds {
				seeds = append(seeds, fmt.Sprint(x))
			}
			rounds := "-"
			if e.Rounds > 0 {
				rounds = fmt.Sprint(e.Rounds)
			}
			t.Rows = append(t.Rows, []any{
				s.Dataset, s.Protocol, e.label(), e.From, rounds, strings.Join(seeds, " "),
				strings.Join(e.Commits, " "),
			})
		}
	}
	return t
}

// readBoard are the sentences that a reader needs.
func (b *Leaderboard) readBoard() []string {
	return []string{
		b.About,
		"Metrics are fractions on test items, of the round that validation chose, or of the last where the method says so; mean ± standard deviation over the seeds. Sampled is 1 held-out item among 99 others, full is among the catalogue. Tables are in the order of full NDCG@10.",
		fmt.Sprintf("A star marks the best method of a column; ~ marks who is not shown to differ from it by a "+
			"paired Wilcoxon test over users (p < %g after Holm's correction for the whole table), on the seeds that both have. Everything else differs from the best.", worse),
		"Few rows: the quarter of the users with the fewest train rows. New users: a share of the users that took no part in training and are recommended to from their own history, in runs of their own; a dash is for methods that cannot serve them, or that were not run so.",
		"Traffic is that of one device in the whole of training. Training is seconds times goroutines, without evaluation, and depends on the machine and on what ran beside it. Methods marked with (one place) are no federation; those marked with an epsilon were trained with that promise; references are below the rule, and their seconds include scoring. The memoriser has no model and only counts which items were drawn as training negatives: under protocols that do not leak it stands at chance, and says that nothing can be had from the draws.",
	}
}

// Leaders writes the leaderboard as a page of Markdown. The picture is shown if its name is
// not empty.
func Leaders(w io.Writer, b *Leaderboard, picture string) error {
	var out bytes.Buffer
	out.WriteString("# Leaderboard\n\nGenerated by `tacit docs leaderboard`; do not edit it by hand.\n\n")
	if picture != "" {
		fmt.Fprintf(&out,
			"![Full NDCG@10 of every method on every data set, and the bytes that a device sends](%s)\n\n", picture)
	}
	for _, s := range b.readBoard() {
		fmt.Fprintf(&out, "- %s\n", s)
	}
	for _, s := range b.Tables {
		out.WriteString("\n")
		if s.Reason != "" {
			fmt.Fprintf(&out, "## %s\n\nNot run: %s.\n", s.title(), s.Reason)
			continue
		}
		t := s.table()
		t.Notes = s.notes()
		if err := t.Markdown(&out); err != nil {
			return err
		}
	}
	out.WriteString("\n")
	if err := b.settings().Markdown(&out); err != nil {
		return err
	}
	_, err := w.Write(append(bytes.TrimRight(out.Bytes(), "\n"), '\n'))
	return err
}

// notes are what stands under a table.
func (s *Standings) notes() []string {
	about := fmt.Sprintf("%s, %s, %s", plural(s.Users, "user"), plural(s.Items, "item"), plural(s.Rows, "interaction"))
	if s.Read != "" {
		about += "; read with " + s.Read
	}
	out := []string{about + "."}
	if how := s.served(); how != "" {
		out = append(out, "New users, "+how+".")
	}
	if len(s.Missing) == 0 {
		return append(out, "Nothing is missing.")
	}
	for _, m := range s.Missing {
		out = append(out, "Missing: "+m+".")
	}
	return out
}

// served says how methods serve new users.
func (s *Standings) served() string {
	by := map[string][]string{}
	var order []string
	share := 0.0
	for _, e := range s.Entries {
		if e.New == nil || e.Reference {
			continue
		}
		if share = e.New.Share; by[e.New.How] == nil {
			order = append(order, e.New.How)
		}
		by[e.New.How] = append(by[e.New.How], e.Method)
	}
	var out []string
	for _, how := range order {
		out = append(out, fmt.Sprintf("%s (%s)", how, strings.Join(by[how], ", ")))
	}
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g of all: %s", share, strings.Join(out, "; "))
}

// LeadersText writes the tables for a terminal.
func LeadersText(w io.Writer, b *Leaderboard) error {
	for _, s := range b.Tables {
		t := s.table()
		if t.Notes = s.notes(); s.Reason != "" {
			t.Rows, t.Notes = nil, []string{"Not run: " + s.Reason + "."}
		}
		if err := t.Text(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return nil
}

// LeadersFile is the name of a leaderboard in its folder of cells.
const LeadersFile = "leaderboard.json"

// loadLeaders returns nil for a folder that holds no leaderboard.
func loadLeaders(dir string) (*Leaderboard, error) {
	f, err := open(dir, LeadersFile, maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxResult))
	if err != nil {
		return nil, err
	}
	var out Leaderboard
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("report: %s: %w; write it anew with `tacit docs leaderboard --found`", f.Name(), err)
	}
	for _, s := range out.Tables {
		if s == nil || slices.Contains(s.Entries, nil) {
			return nil, fmt.Errorf("report: %s: a table or a row is null; write it anew with `tacit docs "+
				"leaderboard --found`", f.Name())
		}
	}
	return &out, nil
}
