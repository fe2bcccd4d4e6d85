package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// tested are the users with a test rank.
func tested(users []result.User) []result.User {
	return slices.DeleteFunc(slices.Clone(users), func(u result.User) bool { return u.TestRank <= 0 })
}

// tenths splits sorted users into ten groups of nearly equal size.
func tenths(users []result.User) [][]result.User {
	var out [][]result.User
	for k := range 10 {
		if lo, hi := k*len(users)/10, (k+1)*len(users)/10; hi > lo {
			out = append(out, users[lo:hi])
		}
	}
	return out
}

// stats are the hit rate, NDCG and median rank of users.
func stats(users []result.User) (hr, ndcg float64, median int) {
	ranks := make([]int, 0, len(users))
	for _, u := range users {
		ranks = append(ranks, u.TestRank)
		if u.TestRank <= 10 {
			hr++
			ndcg += 1 / math.Log2(float64(u.TestRank)+1)
		}
	}
	slices.Sort(ranks)
	n := float64(max(len(users), 1))
	return hr / n, ndcg / n, ranks[len(ranks)/2]
}

// byRank returns the tested users, best served first.
func byRank(users []result.User) []result.User {
	out := tested(users)
	slices.SortStableFunc(out, func(a, b result.User) int { return cmp.Compare(a.TestRank, b.TestRank) })
	return out
}

// rankTenths draws the median rank of each tenth of the users, best served first.
func rankTenths(users []result.User) (template.HTML, *Table) {
	groups := tenths(byRank(users))
	t := &Table{Header: []string{"tenth", "users", "best_rank", "median_rank", "worst_rank"}}
	if len(groups) < 10 {
		return "", t
	}
	var bars []chart.RangeBar
	for i, g := range groups {
		_, _, mid := stats(g)
		lo, hi := g[0].TestRank, g[len(g)-1].TestRank
		t.Rows = append(t.Rows, []any{i + 1, len(g), lo, mid, hi})
		bars = append(bars, chart.RangeBar{
			Lo: lo, Median: mid, Hi: hi,
			Tip: fmt.Sprintf("tenth %d: %s, ranks %d to %d, median %d", i+1, format.Plural(len(g), "user"), lo, hi,
				mid),
		})
	}
	svg := chart.RankBars("Median rank of the test item, by tenth of the users from best to worst served",
		"rank of the test item (1 is best; bar: median, line: range)", "tenth of the users, best served first",
		"the last bar is the worst-served tenth", bars)
	return svg, t
}

// testRanks are the ranks of the tested users.
func testRanks(users []result.User) []int {
	var out []int
	for _, u := range tested(users) {
		out = append(out, u.TestRank)
	}
	return out
}

// activityBars draws the test HR@10 of users by their number of train rows.
func activityBars(users []result.User) template.HTML {
	var bars []chart.IntervalBar
	for _, q := range fifths(users) {
		p := float64(q.hits) / float64(q.n)
		lo, hi := wilson(q.hits, q.n)
		rows := fmt.Sprint(q.lo)
		if q.lo != q.hi {
			rows = fmt.Sprintf("%d–%d", q.lo, q.hi)
		}
		bars = append(bars, chart.IntervalBar{
			Label: rows, Under: "n " + format.Count(q.n), Value: p, Lo: lo, Hi: hi,
			Tip: fmt.Sprintf("%s train rows: %s of %s in the first 10, %s (95%%: %s to %s)", rows, format.Count(q.hits),
				format.Plural(q.n, "user"), format.Fraction(p), format.Fraction(lo), format.Fraction(hi)),
		})
	}
	return chart.IntervalBars("Test HR@10 by the number of train rows of a user", "test HR@10, with 95% interval",
		"train rows of the user", bars)
}

// servedTable compares groups of users with the mean over all users.
func servedTable(users []result.User) *Table {
	t := &Table{Header: []string{"users", "n", "HR@10", "NDCG@10", "median rank"}, Align: "lr"}
	all := tested(users)
	if len(all) < 10 {
		return nil
	}
	add := func(name string, g []result.User) {
		hr, ndcg, mid := stats(g)
		t.Rows = append(t.Rows, []any{name, format.Count(len(g)), hr, ndcg, format.Count(mid)})
	}
	add("all", all)
	t.Rule = 1
	slices.SortStableFunc(all, func(a, b result.User) int { return cmp.Compare(a.Rows, b.Rows) })
	groups := tenths(all)
	worst, low := 0, math.Inf(1)
	for i, g := range groups {
		if hr, _, _ := stats(g); hr < low {
			worst, low = i, hr
		}
	}
	span := func(g []result.User) string { return rowsSpan(g[0].Rows, g[len(g)-1].Rows) }
	add("least active tenth ("+span(groups[0])+")", groups[0])
	add("most active tenth ("+span(groups[len(groups)-1])+")", groups[len(groups)-1])
	add("worst-served tenth by activity ("+span(groups[worst])+")", groups[worst])
	ranked := tenths(byRank(users))
	add("worst-served tenth by rank", ranked[len(ranked)-1])
	if b, w := groups[0], groups[len(groups)-1]; len(b) > 0 {
		hrB, _, _ := stats(b)
		hrW, _, _ := stats(w)
		word := "higher"
		if hrW < hrB {
			word = "lower"
		}
		t.Notes = append(t.Notes, fmt.Sprintf("HR@10 of the most active tenth is %s points %s than that of the "+
			"least active tenth.", strings.TrimLeft(format.Points(hrW-hrB), "+-"), word))
	}
	return t
}

func rowsSpan(lo, hi int) string {
	if lo == hi {
		return format.Plural(lo, "train row")
	}
	return fmt.Sprintf("%s to %s", format.Count(lo), format.Plural(hi, "train row"))
}

// interval is the 95% bootstrap interval of a run's HR@10 over its users.
func interval(users []result.User) string {
	var hits []float64
	for _, u := range tested(users) {
		hit := 0.0
		if u.TestRank <= 10 {
			hit = 1
		}
		hits = append(hits, hit)
	}
	if len(hits) < 20 || len(hits) > 50_000 {
		return ""
	}
	lo, hi := metrics.Bootstrap(hits, 1000, 1)
	return fmt.Sprintf("95%% bootstrap interval of the sampled HR@10 over %[3]s: %[1]s to %[2]s. Do not compare "+
		"references with this interval; the tests against them are paired by user.",
		format.Fraction(lo), format.Fraction(hi), format.Plural(len(hits), "user"))
}

// popularityBars draws the shares of recommendations and of train rows by popularity.
func popularityBars(p *result.Popularity) (template.HTML, *Table) {
	t := &Table{Header: []string{"tenth_of_catalogue", "share_of_train_rows", "share_of_recommendations"}}
	for k := range p.Data {
		t.Rows = append(t.Rows, []any{k + 1, format.Exact(p.Data[k]), format.Exact(p.Recommended[k])})
	}
	return chart.ShareBars("Share of train rows and of recommendations by tenth of the catalogue", p.Data,
		p.Recommended), t
}

// topBars draws the items that are in most lists.
func topBars(p *result.Popularity) (template.HTML, *Table) {
	t := &Table{Header: []string{"title", "share_of_users", "train_rows"}}
	var bars []chart.TitleBar
	for _, m := range p.Most {
		t.Rows = append(t.Rows, []any{m.Title, format.Exact(m.Share), m.Rows})
		bars = append(bars, chart.TitleBar{
			Title: m.Title, Value: m.Share,
			Tip: fmt.Sprintf("%s: in the lists of %.1f%% of users, %s", format.Clip(m.Title, 80),
				100*m.Share, format.Plural(m.Rows, "train row")),
		})
	}
	return chart.TitleBars("The items that are in most lists", "share of users with the item in their first ten",
		bars), t
}

func popularityTable(p *result.Popularity) *Table {
	t := &Table{Header: []string{"", "recommended", "in the data"}, Align: "lr"}
	t.Rows = [][]any{
		{
			"share of the catalogue that is recommended to anyone (coverage@10)", fmt.Sprintf("%.1f%%", 100*p.Coverage),
			"",
		},
		{
			"Gini coefficient of items (0: all equal, 1: one item only)", fmt.Sprintf("%.3f", p.Gini),
			fmt.Sprintf("%.3f", p.GiniData),
		},
		{"share of the tail", fmt.Sprintf("%.1f%%", 100*p.TailShare), "about 20%"},
	}
	t.Rule = len(t.Rows)
	t.Notes = []string{fmt.Sprintf("The tail is all items except the %s with 80%% of the train rows. Lists are "+
		"those of %s at the reported round.", format.Plural(p.HeadItems, "item"), format.Plural(p.Users, "user"))}
	return t
}
