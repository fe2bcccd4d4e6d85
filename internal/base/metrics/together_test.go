package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bruteTogether computes the metrics of a list from the relevance of its positions.
func bruteTogether(relevant []bool, k int) (hit, recall, gain, reciprocal float64) {
	n, dcg, best := 0, 0.0, 0.0
	for at, r := range relevant {
		if !r {
			continue
		}
		if n == 0 {
			reciprocal = 1 / float64(at+1)
		}
		if n < k {
			best += 1 / math.Log2(float64(n+2))
		}
		n++
		if at < k {
			hit = 1
			recall++
			dcg += 1 / math.Log2(float64(at+2))
		}
	}
	return hit, recall / float64(n), dcg / best, reciprocal
}

// orders calls f with every order of the positions from..to of a list whose first items there are relevant.
func orders(list []bool, ties [][2]int, f func()) {
	if len(ties) == 0 {
		f()
		return
	}
	from, to := ties[0][0], ties[0][1]
	n := 0
	for _, r := range list[from:to] {
		if r {
			n++
		}
	}
	for bits := range 1 << (to - from) { // every choice of n positions has the same probability
		count := 0
		for x := range to - from {
			on := bits>>x&1 == 1
			list[from+x] = on
			if on {
				count++
			}
		}
		if count == n {
			orders(list, ties[1:], f)
		}
	}
	for x := range to - from {
		list[from+x] = x < n
	}
}

// Metrics of several test items are those of the sorted list, and with Expected the mean over all orders of ties.
func TestTogetherMatchesSortedList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		type item struct {
			score float32
			test  bool
		}
		var list []item
		var others, tests []float32
		for i := range 2 + r.IntN(10) {
			x := item{float32(r.IntN(4)), i == 0 || r.IntN(3) == 0}
			list = append(list, x)
			if x.test {
				tests = append(tests, x.score)
			} else {
				others = append(others, x.score)
			}
		}
		slices.Sort(tests)
		slices.Reverse(tests)
		own := make([]Rank, len(tests))
		for i, s := range tests {
			own[i] = RankOf(s, others)
		}
		slices.SortStableFunc(list, func(a, b item) int { // test items last among equals
			switch {
			case a.score != b.score:
				return int(b.score - a.score)
			case a.test == b.test:
				return 0
			case a.test:
				return 1
			}
			return -1
		})
		relevant := make([]bool, len(list))
		var ties [][2]int
		for i, x := range list {
			relevant[i] = x.test
			if i == 0 || x.score != list[i-1].score {
				ties = append(ties, [2]int{i, i + 1})
			}
			ties[len(ties)-1][1] = i + 1
		}
		start := []int{0, len(own)}
		for i, k := range KS[:2] {
			hit, recall, gain, reciprocal := bruteTogether(relevant, k)
			m := OfTogether(own, start, Against)
			if !near(m.HR[i], hit) || !near(m.Recall[i], recall) || !near(m.NDCG[i], gain) || !near(m.MRR, reciprocal) {
				t.Fatalf("%v, ties against, at %d: %+v, want %g %g %g %g", list, k, m, hit, recall, gain, reciprocal)
			}
			var sum [5]float64
			all := slices.Clone(relevant)
			orders(all, ties, func() {
				h, rc, g, rr := bruteTogether(all, k)
				for x, v := range [...]float64{h, rc, g, rr, 1} {
					sum[x] += v
				}
			})
			m = OfTogether(own, start, Expected)
			for x, v := range [...]float64{m.HR[i], m.Recall[i], m.NDCG[i], m.MRR} {
				if math.Abs(v-sum[x]/sum[4]) > 1e-9 {
					t.Fatalf("%v, expected ties, at %d: metric %d is %g, want %g", list, k, x, v, sum[x]/sum[4])
				}
			}
		}
	}
}

// One test item per user has the metrics of Of.
func TestTogetherOfOneItemIsOf(t *testing.T) {
	ranks := []Rank{{3, 2}, {0, 0}, {NotRanked, 0}, {12, 40}, {9, 0}}
	for _, ties := range []Ties{Against, Expected} {
		a, b := Of(ranks, ties), OfTogether(ranks, []int{0, 1, 2, 3, 4, 5}, ties)
		for i := range KS {
			if !near(a.HR[i], b.HR[i]) || !near(a.Recall[i], b.Recall[i]) || !near(a.NDCG[i], b.NDCG[i]) {
				t.Errorf("at %d: %+v and %+v", KS[i], a, b)
			}
		}
		if !near(a.MRR, b.MRR) || a.Users != b.Users {
			t.Errorf("%+v and %+v", a, b)
		}
	}
}
