package metrics

// PerUser holds hit rate and gain at 10 of the users that were measured: what a paired
// test over users needs. Of users with several held-out items these are means.
type PerUser struct {
	Users    []uint32  `json:"users"` // ascending
	HR, NDCG []float32 // in the order of Users
}

// PerUserOf computes them for places and start as of OfGroups.
func PerUserOf(places []Rank, start []int, ties Ties) PerUser {
	var e PerUser
	for u, own := range measured(places, start) {
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
