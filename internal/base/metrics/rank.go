// Package metrics holds ranking metrics: the rank of a held-out item among candidates, means
// over users, and tests of significance. Ranks are kept per user, so that every metric and
// every test uses the same numbers. The package never scores items.
package metrics

import (
	"iter"
	"math"

	"github.com/tacit-rec/tacit/vec"
)

// Rank is the rank of a held-out item: how many candidates score above it, and how many the
// same. Above is NotRanked for a user without a held-out item.
type Rank struct{ Above, Ties int32 }

// NotRanked is Rank.Above of a user that was not evaluated.
const NotRanked = -1

// RankOf returns the rank of a score among others. A NaN counts as above, so that a model that
// has diverged scores nothing.
func RankOf(score float32, others []float32) Rank {
	below, equal := vec.Count(others, score)
	return Rank{Above: int32(len(others) - below - equal), Ties: int32(equal)}
}

// Ties decides how equal scores count.
type Ties uint8

const (
	Against  Ties = iota // the held-out item loses every tie, as in the reference code
	Expected             // the mean over all orders of the tied items
)

// KS are the list lengths of reported metrics.
var KS = [...]int{5, 10, 15, 20, 50}

// Metrics are means over the evaluated users, as fractions.
type Metrics struct {
	Users int
	HR    [len(KS)]float64
	NDCG  [len(KS)]float64
	// Recall is HR unless the test items of a user are ranked together.
	Recall [len(KS)]float64
	MRR    float64
}

// measured iterates over the users that were ranked, each with its ranks; start is as for OfGroups.
func measured(ranks []Rank, start []int) iter.Seq2[int, []Rank] {
	return func(yield func(int, []Rank) bool) {
		users := len(ranks)
		if start != nil && users > 0 {
			users = len(start) - 1
		}
		for u := range users {
			lo, hi := u, u+1
			if start != nil {
				lo, hi = start[u], start[u+1]
			}
			if lo < hi && ranks[lo].Above != NotRanked && !yield(u, ranks[lo:hi]) {
				return
			}
		}
	}
}

// Of computes the metrics of one rank per user.
func Of(ranks []Rank, ties Ties) Metrics {
	return OfGroups(ranks, nil, ties)
}

// OfGroups computes the metrics of users with several held-out items: the ranks of user u are
// ranks[start[u]:start[u+1]]. Each user counts with the mean over its items. start is nil if
// each user has one.
func OfGroups(ranks []Rank, start []int, ties Ties) Metrics {
	var m Metrics
	for _, own := range measured(ranks, start) {
		m.Users++
		share := 1 / float64(len(own))
		for _, p := range own {
			for i, k := range KS {
				hr, ndcg := p.At(k, ties)
				m.HR[i] += float64(share * hr)
				m.NDCG[i] += float64(share * ndcg)
			}
			m.MRR += float64(share * p.Reciprocal(ties))
		}
	}
	m.Recall = m.HR
	m.divide()
	return m
}

// divide turns sums over users into means.
func (m *Metrics) divide() {
	if m.Users == 0 {
		return
	}
	n := float64(m.Users)
	for i := range KS {
		m.HR[i] /= n
		m.NDCG[i] /= n
		m.Recall[i] /= n
	}
	m.MRR /= n
}

// At returns hit and gain of a list of length k. With one held-out item the hit is also the
// recall.
func (p Rank) At(k int, ties Ties) (hit, gain float64) {
	lo, hi := int(p.Above), int(p.Above+p.Ties)
	if ties == Against {
		lo = hi
	}
	for at := lo; at <= hi && at < k; at++ {
		hit++
		gain += 1 / math.Log2(float64(at+2))
	}
	n := float64(hi - lo + 1)
	return hit / n, gain / n
}

// Reciprocal is the reciprocal rank.
func (p Rank) Reciprocal(ties Ties) float64 {
	lo, hi := int(p.Above), int(p.Above+p.Ties)
	if ties == Against {
		return 1 / float64(hi+1)
	}
	s := 0.0
	for at := lo; at <= hi; at++ {
		s += 1 / float64(at+1)
	}
	return s / float64(hi-lo+1)
}

// HR10 and NDCG10 are the metrics that the field reports.
func (m Metrics) HR10() float64   { return m.HR[1] }
func (m Metrics) NDCG10() float64 { return m.NDCG[1] }

// Coverage is the share of the catalogue that appears in any list; None fills short lists.
func Coverage(lists []uint32, items int) float64 {
	if len(lists) == 0 || items == 0 {
		return 0
	}
	seen := make([]bool, items)
	n := 0
	for _, i := range lists {
		if i != None && !seen[i] {
			seen[i] = true
			n++
		}
	}
	return float64(n) / float64(items)
}

// None fills lists that are too short.
const None = math.MaxUint32
