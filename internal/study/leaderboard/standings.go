package leaderboard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/report"
)

// entrant is a row while it is put together.
type entrant struct {
	*report.Standing
	each map[uint64]*[4][]float32 // by seed
}

// Standings puts the cells together. What has no cell is among the missing.
func (a *Agenda) Standings() (*report.Leaderboard, error) {
	out := &report.Leaderboard{Seeds: a.Seeds, About: a.about()}
	for _, t := range a.Tables {
		s := &report.Standings{
			Dataset: t.Set, Protocol: t.Protocol, Read: t.Read, Users: t.Users, Items: t.Items, Rows: t.Rows,
			Reason:  t.Reason,
			Entries: []*report.Standing{}, Missing: []string{},
		}
		out.Tables = append(out.Tables, s)
		if err := a.fill(s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// about says how the board was made.
func (a *Agenda) about() string {
	kept, machines := 0, []string(nil)
	for _, c := range a.Cells {
		if c.Kept != nil && c.Kept.Refused == "" {
			if kept++; !slices.Contains(machines, c.Kept.CPU) {
				machines = append(machines, c.Kept.CPU)
			}
		}
	}
	return fmt.Sprintf("%d of %d cells are there, with seeds from 1 to at most %d; a cell is one run. Their "+
		"machines: %s. Each row names its settings and commit at the end.",
		kept, len(a.Cells), a.Seeds, strings.Join(machines, "; "))
}

func (a *Agenda) fill(s *report.Standings) error {
	var rows []*entrant
	by := map[string]*entrant{}
	missing := map[string][]*Cell{}
	var order []string
	for _, c := range a.Cells {
		if c.Set != s.Dataset || c.Protocol != s.Protocol {
			continue
		}
		if why := c.missing(); why != "" {
			if missing[why] == nil {
				order = append(order, why)
			}
			missing[why] = append(missing[why], c)
			continue
		}
		e := by[c.row()]
		if e == nil {
			e = &entrant{
				Standing: &report.Standing{Method: c.Method, Reference: c.Reference},
				each:     map[uint64]*[4][]float32{},
			}
			by[c.row()] = e
			rows = append(rows, e)
		}
		if err := e.add(c); err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
	}
	rows = slices.DeleteFunc(rows, func(e *entrant) bool { return len(e.Seeds) == 0 }) // new users alone are no row
	for _, e := range rows {
		e.finish(a.Cells, s)
	}
	slices.SortStableFunc(rows, func(x, y *entrant) int {
		if x.Reference != y.Reference {
			return cmp.Compare(b2i(x.Reference), b2i(y.Reference))
		}
		return cmp.Compare(y.Mean[3], x.Mean[3])
	})
	test(rows)
	for _, e := range rows {
		s.Entries = append(s.Entries, e.Standing)
	}
	for _, why := range order {
		s.Missing = append(s.Missing, listed(missing[why])+": "+strings.TrimSuffix(why, "."))
	}
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// missing says why a cell has no numbers; it is empty for one that has.
func (c *Cell) missing() string {
	switch {
	case c.Kept != nil:
		return c.Kept.Refused
	case c.Reason != "":
		return c.Reason
	}
	return "not run"
}

// long is how many seconds on one core make a cell that is named with its time.
const long = 100

// listed names cells: rows with their seeds, and with minutes on one core where it is
// those that they are missing for.
func listed(cells []*Cell) string {
	var order []string
	seeds := map[string][]string{}
	for _, c := range cells {
		name := c.Method
		if c.Reference {
			name += " (reference)"
		}
		if c.New {
			name += " on new users"
		}
		if seeds[name] == nil {
			order = append(order, name)
		}
		seeds[name] = append(seeds[name], fmt.Sprint(c.Seed))
	}
	var out []string
	for _, name := range order {
		out = append(out, name+" "+strings.Join(seeds[name], "+"))
	}
	said := "seeds of " + strings.Join(out, ", ")
	most := slices.MaxFunc(cells, func(a, b *Cell) int { return cmp.Compare(a.Guess, b.Guess) })
	if most.Guess >= long && (most.Reason == "" || most.late) {
		said += fmt.Sprintf(" (about %.0f min each on one core at most, as for %s)", most.Guess/60, most.Method)
	}
	return said
}

// add takes a cell that has numbers.
func (e *entrant) add(c *Cell) error {
	k := c.Kept
	if c.New {
		return nil // see finish
	}
	var each [4][]float32
	for m, text := range k.Each {
		var err error
		if each[m], err = unpack(text); err != nil {
			return err
		}
		if len(each[m]) != len(each[0]) {
			return fmt.Errorf("board: %d users have one metric and %d another", len(each[0]), len(each[m]))
		}
	}
	e.each[c.Seed] = &each
	e.Seeds = append(e.Seeds, c.Seed)
	e.Central, e.Epsilon, e.Rounds = k.Central, k.Epsilon, k.Rounds
	from := k.From
	if k.Choice != nil && k.Choice.Chosen >= 0 && k.Choice.Chosen < len(k.Choice.Tried) {
		from += ": " + k.Choice.Tried[k.Choice.Chosen].Settings
	}
	if !strings.Contains(e.From, from) {
		e.From = strings.TrimPrefix(e.From+"; "+from, "; ")
	}
	if !slices.Contains(e.Commits, k.Commit) {
		e.Commits = append(e.Commits, k.Commit)
	}
	return nil
}

// scores are the four metrics of a summary.
func scores(s metrics.Summary) [4]float64 {
	return [4]float64{s.Sampled["hr@10"], s.Sampled["ndcg@10"], s.Full["hr@10"], s.Full["ndcg@10"]}
}

// finish takes means over the cells of the row.
func (e *entrant) finish(cells []*Cell, s *report.Standings) {
	var own, fresh [][4]float64
	for _, c := range cells {
		k := c.Kept
		if c.Set != s.Dataset || c.Protocol != s.Protocol || c.Method != e.Method || c.Reference != e.Reference ||
			k == nil || k.Refused != "" {
			continue
		}
		if c.New {
			if n := k.NewUsers; n != nil {
				if e.New == nil {
					e.New = &report.Newcomers{Share: n.Share, How: n.How}
				}
				if n.Test.Sampled != nil {
					fresh = append(fresh, scores(n.Test))
				}
			}
			continue
		}
		own = append(own, scores(k.Test))
		n := float64(len(e.Seeds))
		for m := range e.Few {
			e.Few[m] += k.Few[m] / n
		}
		e.Up += k.Up / n
		e.Down += k.Down / n
		e.Seconds += k.Seconds.Train * float64(k.Jobs) / n
	}
	e.Mean, e.SD = moments(own)
	if e.New != nil {
		e.New.Seeds = len(fresh)
		e.New.Mean, e.New.SD = moments(fresh)
	}
}

// moments are mean and standard deviation (of a sample) of each metric.
func moments(all [][4]float64) (mean, sd [4]float64) {
	n := float64(len(all))
	for m := range mean {
		for _, x := range all {
			mean[m] += x[m] / n
		}
		for _, x := range all {
			sd[m] += (x[m] - mean[m]) * (x[m] - mean[m])
		}
		if sd[m] = math.Sqrt(sd[m] / max(n-1, 1)); len(all) < 2 {
			sd[m] = 0
		}
	}
	return mean, sd
}

// test compares every row with the best of each column, which is a method and no reference:
// a paired Wilcoxon test over users, of the means over the seeds that both have, with Holm's
// correction for all rows and columns.
func test(rows []*entrant) {
	var ps []float64
	var at []*float64
	for m := range 4 {
		var best *entrant
		for _, e := range rows {
			e.P[m] = 1
			if !e.Reference && (best == nil || e.Mean[m] > best.Mean[m]) {
				best = e
			}
		}
		if best == nil {
			continue
		}
		best.Best[m] = true
		for _, e := range rows {
			if e != best {
				ps, at = append(ps, metrics.Wilcoxon(apart(best, e, m))), append(at, &e.P[m])
			}
		}
	}
	for i, p := range metrics.Holm(ps) {
		*at[i] = p
	}
}

// apart are the differences of users between two rows, by a metric.
func apart(a, b *entrant, m int) []float64 {
	var out []float64
	n := 0
	for _, seed := range a.Seeds {
		x, y := a.each[seed], b.each[seed]
		if y == nil || len(x[m]) != len(y[m]) {
			continue
		}
		if n++; out == nil {
			out = make([]float64, len(x[m]))
		}
		for u := range out {
			out[u] += float64(x[m][u]) - float64(y[m][u])
		}
	}
	return slices.DeleteFunc(out, math.IsNaN) // who was not measured by both
}
