package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/rank"
	"github.com/tacit-rec/tacit/refs"
	"github.com/tacit-rec/tacit/report"
)

// parityData is how some data sets are read for the page.
var parityData = map[string][]Setting{
	"frappe": {{"dedup", "first", "parity"}}, // 80 % of its rows repeat a pair
}

// ParityConfig says which cells of a paper to run.
type ParityConfig struct {
	Paper           Paper
	DataDir         string
	Sets, Protocols []string
	Only            []string // methods; all where it is empty
	Seeds           int
	Runs            string // where the runs are kept and found again; empty for nowhere
	Found           bool   // take what is among the runs, and run nothing
	Tell            func(Told)
}

// Told is a cell that is done.
type Told struct {
	Row     report.ParityRow
	Done, N int           // cells
	Left    time.Duration // a guess, from the time that the others took
}

// large is how many rows make data large: there networks are trained with one
// seed, every second round is evaluated (of networks every fifth), noise is tried
// under the paper's protocol only, FedRecon has one seed under isolated, and some
// cells are left out.
const large = 500_000

// Parity runs every cell of a paper's tables, or finds it among the runs.
func Parity(ctx context.Context, base Job, c ParityConfig) ([]report.ParityRow, error) {
	if c.Found && c.Runs == "" {
		return nil, input(errors.New("--found takes what is among the runs, and no folder of runs is given"), "add --runs DIR")
	}
	base.Keep = &refs.Keep{}
	var rows []report.ParityRow
	start, n := time.Now(), 0
	for _, cell := range c.Paper.cells {
		if c.wants(cell) {
			n += len(c.Sets) * len(c.Protocols)
		}
	}
	if n == 0 {
		return nil, input(fmt.Errorf("--only %s: no row of %s has such a method", strings.Join(c.Only, ","), c.Paper.Name), "its methods are "+strings.Join(c.Paper.methods(), ", "))
	}
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
			for _, cell := range c.Paper.cells {
				if !c.wants(cell) {
					continue
				}
				seeds, every, wanted := c.effort(cell, protocol, Rows(base.Source) > large)
				if !wanted {
					n--
					continue
				}
				given := append(slices.Clone(about), Setting{"method", cell.method, "parity"}, Setting{"protocol", protocol, "parity"},
					Setting{"seeds", fmt.Sprint(seeds), "parity"}, Setting{"eval-every", fmt.Sprint(every), "parity"})
				for _, word := range strings.Fields(cell.variant) {
					key, value, _ := strings.Cut(word, "=")
					given = append(given, Setting{key, value, "parity"})
				}
				many, err := c.cell(ctx, base, given, c.folder(set, protocol, cell))
				if errors.Is(err, errNotFound) {
					n--
					continue
				}
				if err != nil {
					return nil, err
				}
				row := parityRow(many, cell.variant)
				row.Table, row.Folder = cell.table, c.folder(set, protocol, cell)
				rows = append(rows, row)
				each := time.Since(start) / time.Duration(len(rows))
				c.Tell(Told{row, len(rows), n, each * time.Duration(n-len(rows))})
			}
		}
	}
	return rows, nil
}

// effort is how many seeds a cell has and how often it is evaluated, or that it is
// left out.
func (c *ParityConfig) effort(cell paperCell, protocol string, big bool) (seeds, every int, wanted bool) {
	switch {
	case !big && cell.deep && cell.small:
		return 1, 1, true
	case !big:
		return c.Seeds, 1, true
	case cell.small || cell.table == parityNoise && protocol != "paper":
		return 0, 0, false
	case cell.deep:
		return 1, 5, true
	case protocol == "isolated" && strings.HasPrefix(cell.method, "fedrecon"):
		return 1, 2, true
	}
	return c.Seeds, 2, true
}

func (c *ParityConfig) wants(cell paperCell) bool {
	return len(c.Only) == 0 || slices.Contains(c.Only, cell.method)
}

// folder is where the runs of a cell are kept, or empty.
func (c *ParityConfig) folder(set, protocol string, cell paperCell) string {
	if c.Runs == "" {
		return ""
	}
	name := cell.method
	if cell.variant != "" {
		name += "-" + strings.NewReplacer("=", "-", ":", "-", ",", "-", " ", "-").Replace(cell.variant)
	}
	return filepath.Join(c.Runs, set, protocol, name)
}

var errNotFound = errors.New("lab: not among the runs")

func (c *ParityConfig) cell(ctx context.Context, job Job, given []Setting, folder string) (*report.Many, error) {
	var err error
	if job.Spec, err = Resolve(given); err != nil {
		return nil, err
	}
	job.Out, job.Resume = folder, folder != "" && exists(filepath.Join(folder, ConfigFile))
	if c.Found && !exists(filepath.Join(folder, ResultFile)) {
		return nil, errNotFound
	}
	many, err := job.RunSeeds(ctx)
	var other *Input
	if c.Found && errors.As(err, &other) {
		return nil, errNotFound
	}
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
