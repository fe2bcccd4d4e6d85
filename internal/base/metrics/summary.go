package metrics

import "fmt"

// Summary holds the metrics of one held-out item per user by the names of the
// output contract ("hr@10"), among sampled candidates and among the catalogue.
type Summary struct {
	Sampled map[string]float64 `json:"sampled"`
	Full    map[string]float64 `json:"full"` // nil where the protocol has none
}

// ByName gives metrics the names of the output contract. With one held-out item
// recall is the hit rate.
func (m Metrics) ByName() map[string]float64 {
	out := map[string]float64{"mrr": m.MRR, "users": float64(m.Users)}
	for i, k := range KS {
		out[fmt.Sprintf("hr@%d", k)] = m.HR[i]
		out[fmt.Sprintf("recall@%d", k)] = m.HR[i]
		out[fmt.Sprintf("ndcg@%d", k)] = m.NDCG[i]
	}
	return out
}
