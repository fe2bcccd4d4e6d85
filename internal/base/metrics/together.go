package metrics

import "math"

// OfTogether computes the metrics of users whose test items are ranked together, in one list. The ranks of user u are
// ranks[start[u]:start[u+1]], best first, each among the candidates that are not test items of the user.
//
// HR is the share of users with a test item in the list, Recall the mean share of a user's test items that are in
// it, and NDCG the gain of the list divided by that of the best possible list. MRR is of the best test item.
func OfTogether(ranks []Rank, start []int, ties Ties) Metrics {
	var m Metrics
	for _, own := range measured(ranks, start) {
		m.Users++
		for i, k := range KS {
			hit, recall, gain := Together(own, k, ties)
			m.HR[i] += hit
			m.Recall[i] += recall
			m.NDCG[i] += gain
		}
		m.MRR += reciprocalTogether(own, ties)
	}
	m.divide()
	return m
}

// PerUserTogether computes PerUser; ranks and start are as for OfTogether.
func PerUserTogether(ranks []Rank, start []int, ties Ties) PerUser {
	var e PerUser
	for u, own := range measured(ranks, start) {
		hit, _, gain := Together(own, 10, ties)
		e.Users = append(e.Users, uint32(u))
		e.HR, e.NDCG = append(e.HR, float32(hit)), append(e.NDCG, float32(gain))
	}
	return e
}

// Together returns hit, recall and normalised gain of a list of length k with several test items; own is as for
// OfTogether. With Expected, they are means over all orders of tied candidates.
func Together(own []Rank, k int, ties Ties) (hit, recall, gain float64) {
	best := 0.0
	for at := range min(len(own), k) {
		best += 1 / math.Log2(float64(at+2))
	}
	for g := range groups(own, ties) {
		in := min(max(k-g.from, 0), g.length) // positions of the group that are in the list
		share := float64(g.items) / float64(g.length)
		recall += float64(share * float64(in))
		for at := g.from; at < g.from+in; at++ {
			gain += share / math.Log2(float64(at+2))
		}
		if g.first {
			none := 1.0 // the probability that no test item of the group is in the list
			for x := range in {
				none *= float64(g.length-g.items-x) / float64(g.length-x)
			}
			hit = 1 - none
		}
	}
	return hit, recall / float64(len(own)), gain / best
}

// reciprocalTogether is the reciprocal rank of the best test item.
func reciprocalTogether(own []Rank, ties Ties) float64 {
	sum := 0.0
	for g := range groups(own, ties) {
		none := 1.0 // the probability that no test item of the group is above
		for x := range g.length - g.items + 1 {
			sum += none * float64(g.items) / float64(g.length-x) / float64(g.from+x+1)
			none *= float64(g.length-g.items-x) / float64(g.length-x)
		}
		break
	}
	return sum
}

// group is consecutive positions of a list, from 0, in which the test items are in random order among tied candidates.
type group struct {
	from, length, items int
	first               bool // it has the best test item
}

// groups iterates over the groups that contain test items.
func groups(own []Rank, ties Ties) func(yield func(group) bool) {
	return func(yield func(group) bool) {
		for at := 0; at < len(own); {
			r, to := own[at], at+1
			g := group{from: int(r.Above) + at, length: 1, items: 1, first: at == 0}
			switch {
			case ties == Against:
				g.from += int(r.Ties)
			case r.Ties > 0:
				for to < len(own) && own[to] == r {
					to++
				}
				g.items = to - at
				g.length = g.items + int(r.Ties)
			}
			if !yield(g) {
				return
			}
			at = to
		}
	}
}
