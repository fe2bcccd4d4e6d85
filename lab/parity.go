package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/rank"
	"github.com/tacit-rec/tacit/refs"
	"github.com/tacit-rec/tacit/report"
)

// parityCells are the rows of docs/parity.md, per data set and protocol.
var parityCells = []struct {
	table   string
	method  string
	variant string
	deep    bool // it trains a network, which takes its time
	small   bool // it is left out on large data
}{
	{table: parityMain, method: "mf"},
	{table: parityMain, method: "ncf", deep: true},
	{table: parityMain, method: "fcf"},
	{table: parityMain, method: "fedmf"},
	{table: parityMain, method: "fedncf", deep: true},
	{table: parityMain, method: "fedrecon"},
	{table: parityMain, method: "pfedrec"},
	{table: parityMain, method: "fedncf+dualper", deep: true},
	{table: parityMain, method: "fedrecon+dualper"},
	{table: "Figure 3: whose item rows are scored", method: "pfedrec", variant: "infer=global", small: true},
	{table: "Figure 3: whose item rows are scored", method: "pfedrec", variant: "infer=random"},
	{table: parityNoise, method: "pfedrec", variant: "noise=laplace:0.1"},
	{table: parityNoise, method: "pfedrec", variant: "noise=laplace:0.2"},
	{table: parityNoise, method: "pfedrec", variant: "noise=laplace:0.3"},
	{table: parityNoise, method: "pfedrec", variant: "noise=laplace:0.4"},
	{table: parityNoise, method: "pfedrec", variant: "noise=laplace:0.5"},
	{table: parityMore, method: "pfedrec", variant: "layers=64,16", deep: true, small: true},
	{table: parityMore, method: "pfedrec", variant: "loss=bpr", small: true},
	{table: parityMore, method: "fedmf", variant: "loss=bpr", small: true},
}

const (
	parityMain  = "Tables 2 and 3: the methods, and DualPer on them (PFedRec is FedMF with DualPer; FCF is not in the paper)"
	parityNoise = "Table 4: Laplace noise on everything that a device sends"
	parityMore  = "Beyond the paper's code"
)

// parityData is how some data sets are read for the page.
var parityData = map[string][]Setting{
	"frappe": {{"dedup", "first", "parity"}}, // 80 % of its rows repeat a pair
}

// ParityConfig says which cells of docs/parity.md to run.
type ParityConfig struct {
	DataDir         string
	Sets, Protocols []string
	Only            []string // methods; all where it is empty
	Seeds           int
	Runs            string // where the runs are kept and found again; empty for nowhere
	Tell            func(string)
}

// large is how many rows make data large: there networks are trained with one
// seed, every second round is evaluated (of networks every fifth), noise is tried
// under the paper's protocol only, and some cells are left out.
const large = 500_000

// Parity runs every cell of docs/parity.md, or finds it among the runs.
func Parity(ctx context.Context, base Job, c ParityConfig) ([]report.ParityRow, error) {
	base.Keep = &refs.Keep{}
	var rows []report.ParityRow
	for _, set := range c.Sets {
		// A page of the project is made without the presets of whoever makes it.
		about := append([]Setting{{"data", set, "parity"}, {"preset", "built-in", "parity"}}, parityData[set]...)
		spec, err := Resolve(about)
		if err != nil {
			return nil, err
		}
		if base.Source, err = OpenData(&spec.Settings, c.DataDir); err != nil {
			return nil, err
		}
		for _, protocol := range c.Protocols {
			for _, cell := range parityCells {
				if len(c.Only) > 0 && !slices.Contains(c.Only, cell.method) {
					continue
				}
				seeds, every := c.Seeds, 1
				if Rows(base.Source) > large {
					if cell.small || cell.table == parityNoise && protocol != "paper" {
						continue
					}
					if every = 2; cell.deep {
						seeds, every = 1, 5
					}
				}
				given := append(slices.Clone(about), Setting{"method", cell.method, "parity"}, Setting{"protocol", protocol, "parity"},
					Setting{"seeds", fmt.Sprint(seeds), "parity"}, Setting{"eval-every", fmt.Sprint(every), "parity"})
				if cell.variant != "" {
					key, value, _ := strings.Cut(cell.variant, "=")
					given = append(given, Setting{key, value, "parity"})
				}
				many, err := parityCell(ctx, base, given, c.Runs, cell.variant)
				if err != nil {
					return nil, err
				}
				row := parityRow(many, cell.variant)
				row.Table = cell.table
				c.Tell(fmt.Sprintf("%s %s on %s under %s: %.4f / %.4f", cell.method, cell.variant, set, protocol, row.HR, row.NDCG))
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

func parityCell(ctx context.Context, job Job, given []Setting, runs, variant string) (*report.Many, error) {
	var err error
	if job.Spec, err = Resolve(given); err != nil {
		return nil, err
	}
	if runs != "" {
		name := job.Method
		if variant != "" {
			name += "-" + strings.NewReplacer("=", "-", ":", "-", ",", "-").Replace(variant)
		}
		job.Out = filepath.Join(runs, job.Data, job.Protocol, name)
		job.Resume = exists(filepath.Join(job.Out, ConfigFile))
	}
	many, err := job.RunSeeds(ctx)
	var other *Input
	if job.Resume && errors.As(err, &other) { // a run with other settings, such as an older preset
		job.Resume, job.Force = false, true
		return job.RunSeeds(ctx)
	}
	return many, err
}

func parityRow(m *report.Many, variant string) report.ParityRow {
	first := m.Runs[0]
	row := report.ParityRow{
		Method: first.Method, Dataset: first.Dataset, Protocol: first.Protocol, Leaks: first.Leaks, Seeds: len(m.Runs), Rounds: first.Rounds,
		HR: m.Mean.Test.Sampled["hr@10"], HRSD: m.SD.Test.Sampled["hr@10"],
		NDCG: m.Mean.Test.Sampled["ndcg@10"], NDCGSD: m.SD.Test.Sampled["ndcg@10"],
		FullHR: math.NaN(), FullNDCG: math.NaN(), Published: first.Published, Commit: first.Commit, References: meanReferences(m.Runs),
	}
	row.Variant, row.Central = variant, first.Central
	if m.Mean.Test.Full != nil {
		row.FullHR, row.FullNDCG = m.Mean.Test.Full["hr@10"], m.Mean.Test.Full["ndcg@10"]
	}
	for _, r := range m.Runs {
		row.RoundMS += r.RoundMSMedian / float64(len(m.Runs))
		row.Seconds += r.Seconds.Total / float64(len(m.Runs))
		row.Up += r.Bytes.Up / float64(len(m.Runs))
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
