package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/report"
)

// ParityConfig says which cells of a paper to run.
type ParityConfig struct {
	Paper           Paper
	DataDir         string
	Sets, Protocols []string
	Only            []string // methods; all where it is empty
	Seeds           int
	Runs            string // where the runs are kept and found again; empty for nowhere
	Found           bool   // take what is among the runs, and run nothing
	Begin           func(*Agenda)
	Tell            func(Told)
}

// Told is a cell that is done.
type Told struct {
	Row     report.ParityRow
	Done, N int           // cells
	Left    time.Duration // a guess, from the time that the others took
}

// Parity runs every cell of a paper's tables, or finds it among the runs. If it is
// stopped, the rows of the cells that are done come with the error.
func Parity(ctx context.Context, base Job, c ParityConfig) ([]report.ParityRow, error) {
	if c.Found && c.Runs == "" {
		return nil, input(errors.New("--found takes what is among the runs, and no folder of runs is given"),
			"add --runs DIR")
	}
	plan, err := c.plan(max(base.Jobs, 1))
	if err != nil {
		return nil, err
	}
	if c.Begin != nil {
		c.Begin(plan)
	}
	base.Keep = &reference.Keep{}
	var rows []report.ParityRow
	done := map[string]*report.Many{}
	start, n := time.Now(), len(plan.Cells)
	for _, cell := range plan.Cells {
		many, err := c.cell(ctx, base, cell)
		if errors.Is(err, errNotFound) {
			n--
			continue
		}
		if err != nil {
			return rows, err
		}
		row := parityRow(many, cell.variant)
		row.Table, row.Folder = cell.table, cell.Folder
		if plan.tests(cell.method) { // others need not be held
			done[cell.place()+cell.method] = many
		}
		if from := done[cell.place()+cell.against]; from != nil {
			if row.Against, err = report.Differ(from, many); err != nil {
				return rows, err
			}
		}
		rows = append(rows, row)
		each := time.Since(start) / time.Duration(len(rows))
		c.Tell(Told{row, len(rows), n, each * time.Duration(n-len(rows))})
	}
	if c.Found && len(rows) == 0 {
		return nil, input(fmt.Errorf("none of the %d cells is in %s, with these settings and seeds", len(plan.Cells),
			c.Runs), "leave --found out to run them")
	}
	return rows, nil
}

var errNotFound = errors.New("lab: not among the runs")

func (c *ParityConfig) cell(ctx context.Context, job Job, cell *Cell) (*report.Many, error) {
	job.Spec, job.Source = cell.spec, cell.source
	job.Out, job.Resume = cell.Folder, cell.Folder != "" && exists(filepath.Join(cell.Folder, ConfigFile))
	if c.Found && !cell.Kept {
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
		Method: first.Method, Dataset: first.Dataset, Protocol: first.Protocol, Leaks: first.Leaks, Seeds: len(m.Runs),
		Rounds: first.Rounds,
		HR:     m.Mean.Test.Sampled["hr@10"], HRSD: m.SD.Test.Sampled["hr@10"],
		NDCG: m.Mean.Test.Sampled["ndcg@10"], NDCGSD: m.SD.Test.Sampled["ndcg@10"],
		FullHR: math.NaN(), FullNDCG: math.NaN(), HR20: math.NaN(), Published: first.Published, Commit: first.Commit,
		References: meanReferences(m),
	}
	if hr, ok := m.Mean.Test.Sampled["hr@20"]; ok {
		row.HR20 = hr
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

// meanReferences takes the mean of the reference rows over the seeds, with the tests
// over all of them.
func meanReferences(m *report.Many) map[string]*report.Reference {
	runs, out := m.Runs, map[string]*report.Reference{}
	for name, first := range runs[0].References {
		ref := *first
		ref.Versus = m.Versus[name]
		out[name] = &ref
		if first.Test == nil {
			continue
		}
		mean := metrics.Summary{}
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

// names says what there is in the order of its first use.
func names(cells []*Cell, of func(*Cell) string) []string {
	var out []string
	for _, c := range cells {
		if s := of(c); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Seeds says how many seeds the cells have: 5 seeds, or 1 to 5 seeds.
func (p *Agenda) Seeds() string {
	lo, hi := p.Cells[0].seeds, p.Cells[0].seeds
	for _, c := range p.Cells {
		lo, hi = min(lo, c.seeds), max(hi, c.seeds)
	}
	switch {
	case hi == 1:
		return "one seed"
	case lo == hi:
		return fmt.Sprint(lo, " seeds")
	}
	return fmt.Sprintf("%d to %d seeds", lo, hi)
}
