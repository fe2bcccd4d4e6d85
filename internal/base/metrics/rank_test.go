package metrics

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// rankings returns every rank, from 1, that the held-out item may get if the list is sorted by
// score and ties are in any order.
func rankings(score float32, others []float32) (ranks []int) {
	type entry struct {
		score float32
		held  bool
	}
	all := []entry{{score, true}}
	for _, o := range others {
		all = append(all, entry{o, false})
	}
	for before := 0; ; before++ { // number of tied items before it
		sorted := slices.Clone(all)
		slices.SortStableFunc(sorted, func(a, b entry) int { return cmp.Compare(b.score, a.score) })
		at := slices.IndexFunc(sorted, func(e entry) bool { return e.held }) // first of the tied items
		if at+before >= len(sorted) || sorted[at+before].score != score {
			return ranks
		}
		ranks = append(ranks, at+before+1)
	}
}

// brute computes the metrics of one user from the sorted list.
func brute(ranks []int, k int, ties Ties) (hit, gain, reciprocal float64) {
	if ties == Against {
		ranks = ranks[len(ranks)-1:]
	}
	for _, r := range ranks {
		if r <= k {
			hit++
			gain += math.Ln2 / math.Log(float64(r)+1)
		}
		reciprocal += 1 / float64(r)
	}
	n := float64(len(ranks))
	return hit / n, gain / n, reciprocal / n
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

func TestMetricsMatchSortedList(t *testing.T) {
	r := rng.New(rng.Test)
	for _, ties := range []Ties{Against, Expected} {
		var places []Rank
		var want Metrics
		for range 300 {
			others := make([]float32, r.Uint32n(80))
			levels := 1 + r.Uint32n(30) // few levels make ties
			for i := range others {
				others[i] = float32(r.Uint32n(levels))
			}
			score := float32(r.Uint32n(levels))
			p := RankOf(score, others)
			places = append(places, p)
			ranks := rankings(score, others)
			for i, k := range KS {
				hit, gain, rec := brute(ranks, k, ties)
				want.HR[i] += hit / 300
				want.NDCG[i] += gain / 300
				if i == 0 {
					want.MRR += rec / 300
				}
				if h, g := p.At(k, ties); !near(h, hit) || !near(g, gain) {
					t.Fatalf("%g among %v, k %d, ties %d: hit %g, gain %g, want %g and %g", score, others, k, ties, h,
						g, hit, gain)
				}
				if got := p.Reciprocal(ties); !near(got, rec) {
					t.Fatalf("%g among %v, ties %d: reciprocal rank %g, want %g", score, others, ties, got, rec)
				}
			}
			places = append(places, Rank{Above: NotRanked}) // not evaluated, must not count
		}
		got := Of(places, ties)
		if got.Users != 300 {
			t.Errorf("%d users are counted, want 300: unranked users must not count", got.Users)
		}
		for i, k := range KS {
			if !near(got.HR[i], want.HR[i]) || !near(got.NDCG[i], want.NDCG[i]) {
				t.Errorf("ties %d: HR@%d %g, NDCG@%d %g, want %g and %g", ties, k, got.HR[i], k, got.NDCG[i],
					want.HR[i], want.NDCG[i])
			}
		}
		if !near(got.MRR, want.MRR) || got.HR10() != got.HR[1] || got.NDCG10() != got.NDCG[1] {
			t.Errorf("ties %d: MRR %g, want %g", ties, got.MRR, want.MRR)
		}
	}
}

func TestRanksByHand(t *testing.T) {
	for _, c := range []struct {
		name   string
		score  float32
		others []float32
		want   Rank
	}{
		{"alone", 1, nil, Rank{0, 0}},
		{"best", 5, []float32{1, 2, 3}, Rank{0, 0}},
		{"worst", 0, []float32{1, 2, 3}, Rank{3, 0}},
		{"tied with all", 1, []float32{1, 1, 1}, Rank{0, 3}},
		{"masked ones are below", 1, []float32{float32(math.Inf(-1)), 2}, Rank{1, 0}},
		{"minus zero is zero", 0, []float32{float32(math.Copysign(0, -1))}, Rank{0, 1}},
	} {
		if got := RankOf(c.score, c.others); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A diverged model must not win because its scores are NaN.
func TestNaNScoresZero(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, p := range map[string]Rank{
		"a NaN among numbers":   RankOf(nan, make([]float32, 99)),
		"a number among NaNs":   RankOf(1, slices.Repeat([]float32{nan}, 99)),
		"a NaN among NaNs":      RankOf(nan, slices.Repeat([]float32{nan}, 99)),
		"a NaN among masked":    RankOf(nan, slices.Repeat([]float32{-inf}, 99)),
		"an Inf among its like": RankOf(inf, slices.Repeat([]float32{inf}, 99)),
	} {
		if m := Of([]Rank{p}, Against); m.HR[3] != 0 || m.NDCG[3] != 0 || m.MRR > 0.0101 {
			t.Errorf("%s: HR@50 %g, NDCG@50 %g, MRR %g, want 0", name, m.HR[3], m.NDCG[3], m.MRR)
		}
	}
}

func TestMetricsWithoutUsersAreZero(t *testing.T) {
	for _, places := range [][]Rank{nil, {{Above: NotRanked}, {Above: NotRanked}}} {
		if got := Of(places, Expected); got != (Metrics{}) {
			t.Errorf("the metrics of no users are %+v, want zeros", got)
		}
	}
}

func TestCoverageIsFractionOfListedItems(t *testing.T) {
	for _, c := range []struct {
		lists []uint32
		items int
		want  float64
	}{
		{nil, 10, 0},
		{[]uint32{1}, 0, 0},
		{[]uint32{None, None}, 10, 0},
		{[]uint32{3, 3, 3}, 10, 0.1},
		{[]uint32{0, 9, None, 4, 0}, 10, 0.3},
		{[]uint32{0, 1}, 2, 1},
	} {
		if got := Coverage(c.lists, c.items); !near(got, c.want) {
			t.Errorf("the coverage of %v over %d items is %g, want %g", c.lists, c.items, got, c.want)
		}
	}
}

func TestMetricNames(t *testing.T) {
	m := Of([]Rank{{3, 0}, {12, 1}}, Against)
	got := m.ByName()
	for name, want := range map[string]float64{
		"hr@5": 0.5, "hr@10": 0.5, "hr@20": 1, "hr@50": 1, "recall@10": 0.5, "users": 2, "mrr": (1.0/4 + 1.0/14) / 2,
		"ndcg@10": math.Ln2 / math.Log(5) / 2, "ndcg@5": math.Ln2 / math.Log(5) / 2,
	} {
		if g, ok := got[name]; !ok || !near(g, want) {
			t.Errorf("%s is %g (present: %v), want %g", name, g, ok, want)
		}
	}
	if len(got) != 2+3*len(KS) {
		t.Errorf("there are %d names, want %d", len(got), 2+3*len(KS))
	}
}
