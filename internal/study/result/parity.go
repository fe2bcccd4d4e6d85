package result

import "encoding/json"

// ParityRow is a method beside its paper: means and standard deviations over
// Seeds runs, of the test items. A metric that was not measured is NaN.
type ParityRow struct {
	Table             string // what it stands under; rows of one table come together
	Method, Variant   string // Variant is what sets it apart, such as "infer=global"
	Dataset, Protocol string
	Leaks             bool
	Seeds             int
	Rounds            int     // of each run, which the memoriser watched; 0 if not known
	HR, HRSD          float64 // sampled, at 10, as fractions
	NDCG, NDCGSD      float64
	FullHR, FullNDCG  float64
	HR20              float64    // sampled; shown beside a published one
	Published         *Published // nil for none
	RoundMS           float64    // median time to train a round
	Seconds           float64    // of a run, its evaluation included
	Up                float64    // bytes that a device sends in a round
	Central           bool       // no federation
	Folder            string     // where its runs are kept; empty if nowhere
	Commit            string
	References        map[string]*Reference // as in Result; only their test metrics are read
	Against           []Comparison          // tests against the row that it is a variant of; nil for none
}

// MarshalJSON writes a metric that was not measured as null.
func (r ParityRow) MarshalJSON() ([]byte, error) {
	null := func(x float64) any {
		if x != x {
			return nil
		}
		return x
	}
	return json.Marshal(map[string]any{
		"dataset": r.Dataset, "protocol": r.Protocol, "leaks": r.Leaks, "table": r.Table, "method": r.Method,
		"variant": r.Variant, "seeds": r.Seeds, "rounds": r.Rounds,
		"hr@10": null(r.HR), "hr@10_sd": null(r.HRSD), "ndcg@10": null(r.NDCG), "ndcg@10_sd": null(r.NDCGSD),
		"hr@20": null(r.HR20),
		"full":  map[string]any{"hr@10": null(r.FullHR), "ndcg@10": null(r.FullNDCG)}, "published": r.Published,
		"verdict":  r.Verdict(),
		"round_ms": r.RoundMS, "seconds": r.Seconds, "bytes_up_per_device": r.Up, "central": r.Central,
		"commit": r.Commit, "references": r.References, "against_base": r.Against,
	})
}

// Verdict is what a row says about its paper, or empty.
func (r ParityRow) Verdict() string {
	if !r.Published.ComparableUnder(r.Protocol) {
		return ""
	}
	return GapTo(r.Published, r.HR, r.NDCG).Verdict(r.Seeds)
}

func (r ParityRow) Label() string {
	if r.Variant != "" {
		return r.Method + " (" + r.Variant + ")"
	}
	return r.Method
}
