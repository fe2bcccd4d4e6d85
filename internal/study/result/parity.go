package result

import "encoding/json"

// ParityRow compares a method with its paper: means and standard deviations over Seeds runs on the test items. A
// metric that was not measured is NaN.
type ParityRow struct {
	Table             string // title of its table; rows of one table are adjacent
	Method, Variant   string // Variant is the setting that differs, such as "infer=global"
	Dataset, Protocol string
	Leaks             bool
	Seeds             int
	Rounds            int     // of each run; 0 if unknown
	HR, HRSD          float64 // sampled, at 10, as fractions
	NDCG, NDCGSD      float64
	FullHR, FullNDCG  float64
	HR20              float64    // sampled; shown next to a published one
	Published         *Published // nil for none
	RoundMS           float64    // median time to train a round
	Seconds           float64    // of a run, including evaluation
	Up                float64    // bytes that a device sends in a round
	Central           bool       // trained in one place, without a federation
	Folder            string     // folder of its runs; empty if they were not saved
	Commit            string
	References        map[string]*Reference // as in Result; only test metrics are used
	Against           []Comparison          // tests against the row that it is a variant of
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

// Verdict says whether the row reproduces its paper; empty if the protocols differ.
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
