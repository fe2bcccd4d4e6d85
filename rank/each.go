package rank

// Each holds hit rate and gain at 10 of the users that were measured: what a paired
// test over users needs. Of users with several held-out items these are means.
type Each struct {
	Users    []uint32  `json:"users"` // ascending
	HR, NDCG []float32 // in the order of Users
}

// EachOf computes them for places and start as of OfGroups.
func EachOf(places []Place, start []int, ties Ties) Each {
	var e Each
	users := len(places)
	if start != nil {
		users = len(start) - 1
	}
	for u := range users {
		lo, hi := u, u+1
		if start != nil {
			lo, hi = start[u], start[u+1]
		}
		if lo == hi || places[lo].Above == Absent {
			continue
		}
		hr, ndcg := 0.0, 0.0
		for _, p := range places[lo:hi] {
			hit, gain := p.At(10, ties)
			hr += hit
			ndcg += gain
		}
		n := float64(hi - lo)
		e.Users = append(e.Users, uint32(u))
		e.HR, e.NDCG = append(e.HR, float32(hr/n)), append(e.NDCG, float32(ndcg/n))
	}
	return e
}
