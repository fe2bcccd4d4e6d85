package sim

import (
	"fmt"

	"github.com/tacit-rec/tacit/rank"
)

// Summaries returns the metrics of validation and test.
func (p *Places) Summaries(ties rank.Ties, items int) (valid, test rank.Summary) {
	valid.Sampled, test.Sampled = rank.Of(p.Valid, ties).ByName(), rank.OfGroups(p.Test, p.Start, ties).ByName()
	if valid.Sampled["users"] == 0 {
		valid.Sampled = nil
	}
	if p.TestFull != nil {
		valid.Full, test.Full = rank.Of(p.ValidFull, ties).ByName(), rank.Of(p.TestFull, ties).ByName()
		test.Full[fmt.Sprintf("coverage@%d", topK)] = rank.Coverage(p.Top, items)
	}
	return valid, test
}

// Each returns the test metrics user by user: among sampled candidates, and among
// the catalogue, empty where the protocol has none.
func (p *Places) Each(ties rank.Ties) (sampled, full rank.Each) {
	return rank.EachOf(p.Test, p.Start, ties), rank.EachOf(p.TestFull, nil, ties)
}
