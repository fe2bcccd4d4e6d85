package metrics

import "fmt"

// Summary holds metrics by their names in output files ("hr@10"), among sampled candidates and
// among the catalogue.
type Summary struct {
	Sampled map[string]float64 `json:"sampled"`
	Full    map[string]float64 `json:"full"` // nil if the protocol has none
}

// ByName returns the metrics by their names in output files.
func (m Metrics) ByName() map[string]float64 {
	out := map[string]float64{"mrr": m.MRR, "users": float64(m.Users)}
	for i, k := range KS {
		out[fmt.Sprintf("hr@%d", k)] = m.HR[i]
		out[fmt.Sprintf("recall@%d", k)] = m.Recall[i]
		out[fmt.Sprintf("ndcg@%d", k)] = m.NDCG[i]
	}
	return out
}
