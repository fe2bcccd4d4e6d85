package metrics

// PerUser holds hit rate and gain at 10 of each evaluated user, for paired tests over users.
// For users with several held-out items they are means.
type PerUser struct {
	Users    []uint32  `json:"users"` // ascending
	HR, NDCG []float32 // in the order of Users
}

// PerUserOf computes PerUser; ranks and start are as for OfGroups.
func PerUserOf(ranks []Rank, start []int, ties Ties) PerUser {
	var e PerUser
	for u, own := range measured(ranks, start) {
		hr, ndcg := 0.0, 0.0
		for _, p := range own {
			hit, gain := p.At(10, ties)
			hr += hit
			ndcg += gain
		}
		n := float64(len(own))
		e.Users = append(e.Users, uint32(u))
		e.HR, e.NDCG = append(e.HR, float32(hr/n)), append(e.NDCG, float32(ndcg/n))
	}
	return e
}
