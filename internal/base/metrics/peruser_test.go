package metrics

import (
	"math"
	"slices"
	"testing"
)

// The mean over users must equal the reported metric, so that a test over users tests what is
// reported.
func TestMeanOverUsersEqualsMetric(t *testing.T) {
	places := []Rank{{0, 0}, {3, 2}, {NotRanked, 0}, {9, 0}, {10, 0}, {8, 4}}
	for _, start := range [][]int{nil, {0, 2, 2, 3, 6}} {
		for _, ties := range []Ties{Against, Expected} {
			e, m := PerUserOf(places, start, ties), OfGroups(places, start, ties)
			if len(e.Users) != m.Users || len(e.HR) != m.Users || len(e.NDCG) != m.Users || !slices.IsSorted(e.Users) {
				t.Fatalf("%d users are listed (%v), %d were evaluated", len(e.Users), e.Users, m.Users)
			}
			for name, c := range map[string]struct {
				each []float32
				want float64
			}{"HR@10": {e.HR, m.HR10()}, "NDCG@10": {e.NDCG, m.NDCG10()}} {
				sum := 0.0
				for _, x := range c.each {
					sum += float64(x) / float64(m.Users)
				}
				if math.Abs(sum-c.want) > 1e-6 {
					t.Errorf("start %v, ties %d: the mean of %s over users is %g, the metric %g", start, ties, name,
						sum, c.want)
				}
			}
		}
	}
}
