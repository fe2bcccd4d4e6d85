package leaderboard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// row is a row of a table while its cells are collected.
type row struct {
	*result.LeaderboardRow
	each map[uint64]*[4][]float32 // by seed
}

// Report collects the cells into tables. Cells without a result are listed with the reason.
func (b *Board) Report() (*result.Leaderboard, error) {
	out := &result.Leaderboard{Seeds: b.Seeds, About: b.about()}
	for _, t := range b.Tables {
		s := &result.LeaderboardTable{
			Dataset: t.Set, Protocol: t.Protocol, ReadOptions: t.Read, Users: t.Users, Items: t.Items, Rows: t.Rows,
			Reason:  t.Reason,
			Entries: []*result.LeaderboardRow{}, Missing: []string{},
		}
		out.Tables = append(out.Tables, s)
		if err := b.fill(s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// about says how many cells were measured, and on which machines.
func (b *Board) about() string {
	measured := 0
	var machines []string
	for _, c := range b.Cells {
		if c.Result == nil || c.Result.Refused != "" {
			continue
		}
		measured++
		if !slices.Contains(machines, c.Result.CPU) {
			machines = append(machines, c.Result.CPU)
		}
	}
	return fmt.Sprintf("%d of %d cells (a cell is one run) were measured, with up to %d seeds each, on: %s. "+
		"The table at the end lists settings and commits.",
		measured, len(b.Cells), b.Seeds, strings.Join(machines, "; "))
}

func (b *Board) fill(s *result.LeaderboardTable) error {
	var rows []*row
	byName := map[string]*row{}
	missing := map[string][]*Cell{}
	var order []string
	for _, c := range b.Cells {
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
		e := byName[c.row()]
		if e == nil {
			e = &row{
				LeaderboardRow: &result.LeaderboardRow{Method: c.Method, Reference: c.Reference},
				each:           map[uint64]*[4][]float32{},
			}
			byName[c.row()] = e
			rows = append(rows, e)
		}
		if err := e.add(c); err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
	}
	rows = slices.DeleteFunc(rows, func(e *row) bool { return len(e.Seeds) == 0 }) // cells of cold-start users only
	for _, e := range rows {
		e.finish(b.Cells, s)
	}
	slices.SortStableFunc(rows, func(x, y *row) int {
		if x.Reference != y.Reference {
			return cmp.Compare(b2i(x.Reference), b2i(y.Reference))
		}
		return cmp.Compare(y.Mean[3], x.Mean[3])
	})
	test(rows)
	for _, e := range rows {
		s.Entries = append(s.Entries, e.LeaderboardRow)
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

// missing says why a cell has no metrics; it is empty for one that has.
func (c *Cell) missing() string {
	if c.Result != nil {
		return c.Result.Refused
	}
	return c.Reason()
}

// longSeconds is the time on one core from which a missing cell is listed with its time.
const longSeconds = 100

// listed names cells: rows grouped by the seeds that they lack, and minutes on one core if these are
// the reason that they are missing.
func listed(cells []*Cell) string {
	type missingRow struct {
		name  string
		isNew bool
	}
	var rows []missingRow
	seeds := map[missingRow]string{}
	for _, c := range cells {
		r := missingRow{c.Method, c.New}
		if c.Reference {
			r.name += " (reference)"
		}
		if seeds[r] == "" {
			rows = append(rows, r)
			seeds[r] = fmt.Sprint(c.Seed)
		} else {
			seeds[r] += fmt.Sprint("+", c.Seed)
		}
	}
	var groups []string
	names := map[string][]string{}
	for _, r := range rows {
		group := "seed " + seeds[r]
		if strings.Contains(seeds[r], "+") {
			group = "seeds " + seeds[r]
		}
		if r.isNew {
			group += " on new users"
		}
		if names[group] == nil {
			groups = append(groups, group)
		}
		names[group] = append(names[group], r.name)
	}
	for x, group := range groups {
		groups[x] = group + " of " + strings.Join(names[group], ", ")
	}
	text := strings.Join(groups, "; ")
	most := slices.MaxFunc(cells, func(a, b *Cell) int { return cmp.Compare(a.Cost, b.Cost) })
	if most.Cost >= longSeconds && most.Skip == "" {
		text += fmt.Sprintf(" (up to about %.0f min each on one core, for %s)", most.Cost/60, most.Method)
	}
	return text
}

// add adds the metrics of a cell to its row.
func (e *row) add(c *Cell) error {
	k := c.Result
	if c.New {
		return nil // finish adds cold-start users
	}
	var each [4][]float32
	for m, text := range k.Each {
		var err error
		if each[m], err = unpack(text); err != nil {
			return err
		}
		if len(each[m]) != len(each[0]) {
			return fmt.Errorf("metrics per user are corrupt: %d users have one metric, %d another", len(each[0]),
				len(each[m]))
		}
	}
	e.each[c.Seed] = &each
	e.Seeds = append(e.Seeds, c.Seed)
	e.Central, e.Epsilon, e.Rounds = k.Central, k.Epsilon, k.Rounds
	from := k.From
	if k.Choice != nil && k.Choice.Chosen >= 0 && k.Choice.Chosen < len(k.Choice.Tried) {
		from += ": " + k.Choice.Tried[k.Choice.Chosen].Settings
	}
	if !strings.Contains(e.Settings, from) {
		e.Settings = strings.TrimPrefix(e.Settings+"; "+from, "; ")
	}
	if !slices.Contains(e.Commits, k.Commit) {
		e.Commits = append(e.Commits, k.Commit)
	}
	return nil
}

// scores returns the four metrics of a summary.
func scores(s metrics.Summary) [4]float64 {
	return [4]float64{s.Sampled["hr@10"], s.Sampled["ndcg@10"], s.Full["hr@10"], s.Full["ndcg@10"]}
}

// finish computes means over the cells of the row.
func (e *row) finish(cells []*Cell, s *result.LeaderboardTable) {
	var own, fresh [][4]float64
	for _, c := range cells {
		k := c.Result
		if c.Set != s.Dataset || c.Protocol != s.Protocol || c.Method != e.Method || c.Reference != e.Reference ||
			k == nil || k.Refused != "" {
			continue
		}
		if c.New {
			if n := k.NewUsers; n != nil {
				if e.NewUsers == nil {
					e.NewUsers = &result.NewUserScores{Share: n.Share, How: n.How}
				}
				if n.Test.Sampled != nil {
					fresh = append(fresh, scores(n.Test))
				}
			}
			continue
		}
		own = append(own, scores(k.Test))
		n := float64(len(e.Seeds))
		for m := range e.FewRows {
			e.FewRows[m] += k.Few[m] / n
		}
		e.Up += k.Up / n
		e.Down += k.Down / n
		e.Seconds += k.Seconds.Train * float64(k.Jobs) / n
	}
	e.Mean, e.SD = moments(own)
	if e.NewUsers != nil {
		e.NewUsers.Seeds = len(fresh)
		e.NewUsers.Mean, e.NewUsers.SD = moments(fresh)
	}
}

// moments computes the mean and the sample standard deviation of each metric.
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

// test compares every row with the best method of each column (reference rows are never the best):
// a paired Wilcoxon test over users on the means over the seeds that both rows have, with Holm's
// correction for all rows and columns.
func test(rows []*row) {
	var ps []float64
	var at []*float64
	for m := range 4 {
		var best *row
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
				ps, at = append(ps, metrics.Wilcoxon(differences(best, e, m))), append(at, &e.P[m])
			}
		}
	}
	for i, p := range metrics.Holm(ps) {
		*at[i] = p
	}
}

// differences returns the differences per user between two rows in one metric.
func differences(a, b *row, m int) []float64 {
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
	return slices.DeleteFunc(out, math.IsNaN) // users that only one row measured
}
