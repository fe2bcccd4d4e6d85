package lab

import (
	"context"
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/rank"
	"github.com/tacit-rec/tacit/refs"
	"github.com/tacit-rec/tacit/report"
)

// parityCells are the rows of docs/parity.md, per data set and protocol.
var parityCells = []struct {
	method  string
	variant []string
}{
	{"pfedrec", nil},
	{"pfedrec", []string{"infer=global"}},
	{"pfedrec", []string{"infer=random"}},
	{"fedmf", nil},
}

// Parity runs every cell of docs/parity.md.
func Parity(ctx context.Context, base Job, dataDir string, sets, protocols []string, seeds int, tell func(string)) ([]report.ParityRow, error) {
	base.Keep = &refs.Keep{}
	var rows []report.ParityRow
	for _, set := range sets {
		// A page of the project is made without the presets of whoever makes it.
		spec, err := Resolve([]Setting{{"data", set, "parity"}, {"preset", "built-in", "parity"}})
		if err != nil {
			return nil, err
		}
		if base.Source, err = OpenData(&spec.Settings, dataDir); err != nil {
			return nil, err
		}
		for _, protocol := range protocols {
			for _, cell := range parityCells {
				given := []Setting{
					{"method", cell.method, "parity"},
					{"data", set, "parity"},
					{"protocol", protocol, "parity"},
					{"seeds", fmt.Sprint(seeds), "parity"},
					{"preset", "built-in", "parity"},
				}
				own, err := Assignments(cell.variant, "parity")
				if err != nil {
					return nil, err
				}
				job := base
				if job.Spec, err = Resolve(append(given, own...)); err != nil {
					return nil, err
				}
				many, err := job.RunSeeds(ctx)
				if err != nil {
					return nil, err
				}
				row := parityRow(many, cell.variant)
				tell(fmt.Sprintf("%s %v on %s under %s: %.4f / %.4f", cell.method, cell.variant, set, protocol, row.HR, row.NDCG))
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

func parityRow(m *report.Many, variant []string) report.ParityRow {
	first := m.Runs[0]
	row := report.ParityRow{
		Method: first.Method, Dataset: first.Dataset, Protocol: first.Protocol, Leaks: first.Leaks, Seeds: len(m.Runs), Rounds: first.Rounds,
		HR: m.Mean.Test.Sampled["hr@10"], HRSD: m.SD.Test.Sampled["hr@10"],
		NDCG: m.Mean.Test.Sampled["ndcg@10"], NDCGSD: m.SD.Test.Sampled["ndcg@10"],
		FullHR: math.NaN(), FullNDCG: math.NaN(), Published: first.Published, Commit: first.Commit, References: meanReferences(m.Runs),
	}
	if len(variant) > 0 {
		row.Variant = variant[0]
		row.Published = nil // the paper's table has the method as it is
	}
	if m.Mean.Test.Full != nil {
		row.FullHR, row.FullNDCG = m.Mean.Test.Full["hr@10"], m.Mean.Test.Full["ndcg@10"]
	}
	for _, r := range m.Runs {
		row.RoundMS += r.RoundMSMedian / float64(len(m.Runs))
	}
	return row
}

// meanReferences takes the mean of the reference rows over the seeds.
func meanReferences(runs []*report.Result) map[string]*report.Reference {
	out := map[string]*report.Reference{}
	for name, first := range runs[0].References {
		ref := *first
		out[name] = &ref
		if first.Test == nil {
			continue
		}
		mean := rank.Summary{}
		for _, r := range runs {
			other := r.References[name].Test
			addShare(&mean.Sampled, other.Sampled, len(runs))
			addShare(&mean.Full, other.Full, len(runs))
		}
		ref.Test = &mean
	}
	return out
}

func addShare(to *map[string]float64, from map[string]float64, n int) {
	for k, v := range from {
		if *to == nil {
			*to = map[string]float64{}
		}
		(*to)[k] += v / float64(n)
	}
}
