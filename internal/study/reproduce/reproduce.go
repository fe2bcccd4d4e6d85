package reproduce

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/sweep"
)

// Config selects the rows of a paper and says how they are run.
type Config struct {
	Paper           Paper
	DataDir         string
	Sets, Protocols []string
	Only            []string // methods; empty for all
	Seeds           int
	Quick           bool        // only rows that fit into about a minute on two cores
	Runs            string      // folder of the run folders; empty to store nothing
	StoredOnly      bool        // take stored runs and run nothing
	OnEvent         func(Event) // receives progress events, one call at a time; may be nil
}

// Event is a progress event of a reproduction: Planned or RowDone.
type Event interface{ event() }

// Planned is the event before the first row.
type Planned struct{ *Plan }

// RowDone is the event of a row that was measured or loaded.
type RowDone struct {
	Row       result.ParityRow // without the test against its base
	Done, Of  int              // rows
	Remaining time.Duration    // estimate; 0 before the first row that was measured
}

func (Planned) event() {}
func (RowDone) event() {}

// measured is what came of a row.
type measured struct {
	row  result.ParityRow
	runs *result.Repeated // nil unless another row is tested against this one, or this one against another
}

// Run measures the rows of a paper's tables, or loads them if they are stored. If it is interrupted
// or fails, it returns the rows that are done with the error.
func Run(ctx context.Context, base experiment.Job, c Config) ([]result.ParityRow, error) {
	if c.StoredOnly && c.Runs == "" {
		return nil, experiment.AsInput(errors.New("--found requires a folder of runs"), "add --runs DIR")
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	plan, err := c.plan(max(base.Jobs, 1))
	if err != nil {
		return nil, err
	}
	c.OnEvent(Planned{plan})
	base.References = &reference.Cache{}
	var jobs []*sweep.Job[*measured]
	for _, row := range plan.Rows {
		jobs = append(jobs, plan.job(row, base))
	}
	all, err := sweep.New(jobs, sweep.Config[*measured]{Cores: base.Jobs, OnEnd: func(e sweep.Ended[*measured]) {
		if e.Job.Done() {
			c.OnEvent(RowDone{e.Job.Result.row, e.Done, e.Done + e.Left, e.Remaining})
		}
	}})
	if err != nil {
		return nil, err
	}
	if !c.StoredOnly {
		err = experiment.AsStopped(ctx, all.Run(ctx), c.Runs)
	}
	rows, wrong := plan.collect(jobs)
	if err == nil {
		err = wrong
	}
	if c.StoredOnly && err == nil && len(rows) == 0 {
		return nil, experiment.AsInput(fmt.Errorf("%s holds none of the %d rows with these settings and seeds", c.Runs,
			len(plan.Rows)), "omit --found to run them")
	}
	return rows, err
}

// job describes a row to the sweep.
func (p *Plan) job(row *Row, job experiment.Job) *sweep.Job[*measured] {
	job.Spec, job.Source, job.Out = row.spec, row.source, row.Folder
	result := func(runs *result.Repeated) *measured {
		m := &measured{row: parityRow(runs, row.variant)}
		m.row.Table, m.row.Folder = row.table, row.Folder
		if row.against != "" || p.tests(row.method) { // runs of the others are large and not needed
			m.runs = runs
		}
		return m
	}
	return &sweep.Job[*measured]{
		Name: row.key(row.method) + " " + row.variant,
		Load: func() (*measured, bool, error) {
			if !row.Stored {
				return nil, false, nil
			}
			if runs := job.StoredSeeds(); runs != nil {
				return result(runs), true, nil
			}
			return nil, false, nil
		},
		Run: func(ctx context.Context, _ int) (*measured, error) {
			runs, err := experiment.RunOrReplace(ctx, job, (*experiment.Job).RunSeeds)
			if err != nil {
				return nil, err
			}
			return result(runs), nil
		},
	}
}

// collect returns the rows that are done, each with the test against its base.
func (p *Plan) collect(jobs []*sweep.Job[*measured]) ([]result.ParityRow, error) {
	var rows []result.ParityRow
	bases := map[string]*result.Repeated{}
	for i, row := range p.Rows {
		if !jobs[i].Done() {
			continue
		}
		m := jobs[i].Result
		if p.tests(row.method) {
			bases[row.key(row.method)] = m.runs
		}
		if base := bases[row.key(row.against)]; base != nil {
			var err error
			if m.row.Against, err = result.CompareMethods(base, m.runs); err != nil {
				return rows, err
			}
		}
		rows = append(rows, m.row)
	}
	return rows, nil
}

func parityRow(m *result.Repeated, variant string) result.ParityRow {
	first := m.Runs[0]
	row := result.ParityRow{
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

// meanReferences averages the reference rows over the seeds. The tests are over all seeds.
func meanReferences(m *result.Repeated) map[string]*result.Reference {
	runs, out := m.Runs, map[string]*result.Reference{}
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
