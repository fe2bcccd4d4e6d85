// Package privacycost measures what user-level differential privacy costs in accuracy (docs/privacy.md)
// and plans the noise of a guarantee. It never adds noise itself: package privacy does. The measured
// rows are built into the program, so that a plan can show the accuracy of the nearest one.
package privacycost

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/sweep"
)

// Row is the result of a run: a row of docs/privacy.md.
type Row struct {
	Name     string          `json:"name"`
	Method   string          `json:"method"`
	Data     string          `json:"data"`
	Protocol string          `json:"protocol"`
	Budget   string          `json:"budget"`
	Settings string          `json:"settings"`
	Users    int             `json:"users"`
	Items    int             `json:"items"`
	Rounds   int             `json:"rounds"`
	Selected int             `json:"selected_round"`
	Seed     uint64          `json:"seed"`
	HR       float64         `json:"hr@10"` // on test items, among 99 sampled candidates
	NDCG     float64         `json:"ndcg@10"`
	FullHR   float64         `json:"full_hr@10"`
	FullNDCG float64         `json:"full_ndcg@10"`
	ValidHR  float64         `json:"valid_hr@10"`
	Privacy  *result.Privacy `json:"privacy"` // nil without a guarantee
	Commit   string          `json:"commit"`
}

//go:embed measured.json
var measured []byte

// Rows returns the rows that docs/privacy.md shows.
func Rows() ([]Row, error) { return ReadRows(measured) }

// ReadRows reads what tacit docs privacy wrote. An unknown field is an error: its numbers would be lost.
func ReadRows(b []byte) ([]Row, error) {
	var out []Row
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(&out)
	return out, err
}

// Config selects the runs to measure.
type Config struct {
	Folder     string // of the run folders
	StoredOnly bool   // take stored runs and run nothing
	DataDir    string
	Sets       []string    // data sets; empty for all
	Old        []Row       // earlier rows; a row stays if its run is not measured again
	OnEvent    func(Event) // receives progress events, one call at a time; may be nil
}

// Event is a progress event: RowMeasured, RowKept, RowMissing or RowDropped.
type Event interface{ event() }

// RowMeasured is the event of a run that was measured or loaded.
type RowMeasured struct{ Row }

// RowKept is the event of a run that is not stored and whose earlier row stays.
type RowKept struct{ Name string }

// RowMissing is the event of a run that is not stored and has no row.
type RowMissing struct{ Name string }

// RowDropped is the event of an earlier row whose run does not exist any more or has other settings.
type RowDropped struct{ Name string }

func (RowMeasured) event() {}
func (RowKept) event()     {}
func (RowMissing) event()  {}
func (RowDropped) event()  {}

// Baseline is a reference row on a data set.
type Baseline struct {
	Data, Name string
	Test       metrics.Summary
}

// study is a measurement in progress.
type study struct {
	Config
	base    experiment.Job
	sources map[string]data.Source // by data set
}

// Measure measures the runs, or loads those that are stored, and the baselines to compare with:
// popularity and local-only training. Earlier rows stay if their run is not measured again. It is an
// error if no run was measured.
func Measure(ctx context.Context, base experiment.Job, c Config) ([]Row, []Baseline, error) {
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	s := &study{c, base, map[string]data.Source{}}
	s.base.NoReferences = true
	var jobs []*sweep.Job[Row]
	for _, run := range Runs() {
		if s.selects(run) {
			jobs = append(jobs, s.job(run))
		}
	}
	all, err := sweep.New(jobs, sweep.Config[Row]{Cores: base.Jobs, OnEnd: func(e sweep.Ended[Row]) {
		if e.Job.Done() {
			c.OnEvent(RowMeasured{e.Job.Result})
		}
	}})
	if err == nil && !c.StoredOnly {
		err = all.Run(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	fresh := map[string]Row{}
	for _, j := range jobs {
		if j.Done() {
			fresh[j.Name] = j.Result
		}
	}
	rows, err := c.merge(fresh)
	if err != nil {
		return nil, nil, err
	}
	baselines, err := s.baselines(ctx, rows)
	return rows, baselines, err
}

// selects reports whether the configuration asks for a run.
func (c *Config) selects(run Run) bool { return len(c.Sets) == 0 || slices.Contains(c.Sets, run.Data) }

// job describes a run to the sweep.
func (s *study) job(run Run) *sweep.Job[Row] {
	return &sweep.Job[Row]{
		Name: run.Name(),
		Load: func() (Row, bool, error) {
			folder := filepath.Join(s.Folder, run.Name())
			if _, err := os.Stat(filepath.Join(folder, experiment.ResultFile)); err != nil {
				return Row{}, false, nil // known before the data is opened
			}
			job, err := s.open(run)
			if err != nil {
				return Row{}, false, err
			}
			if r := job.Stored(); r != nil {
				return newRow(run, r), true, nil
			}
			return Row{}, false, nil
		},
		Run: func(ctx context.Context, _ int) (Row, error) {
			job, err := s.open(run)
			if err != nil {
				return Row{}, err
			}
			r, err := experiment.RunOrReplace(ctx, job, (*experiment.Job).Run)
			if err != nil {
				return Row{}, fmt.Errorf("%s: %w", run.Name(), err)
			}
			return newRow(run, r), nil
		},
	}
}

// open resolves a run and opens its data.
func (s *study) open(run Run) (job experiment.Job, err error) {
	job = s.base
	if job.Spec, err = experiment.Resolve(run.settings()); err != nil {
		return job, fmt.Errorf("%s: %w", run.Name(), err)
	}
	if s.sources[run.Data] == nil {
		if s.sources[run.Data], err = experiment.OpenData(&job.Spec.Settings, s.DataDir); err != nil {
			return job, err
		}
	}
	job.FitTo(s.sources[run.Data])
	job.Source, job.Out = s.sources[run.Data], filepath.Join(s.Folder, run.Name())
	return job, nil
}

// merge returns the fresh rows and the earlier rows that stay, in the order of Runs.
func (c *Config) merge(fresh map[string]Row) ([]Row, error) {
	var rows []Row
	old := slices.Clone(c.Old)
	for _, run := range Runs() {
		row, measured := fresh[run.Name()]
		at := slices.IndexFunc(old, func(r Row) bool { return r.Name == run.Name() })
		stays := at >= 0 && old[at].Settings == run.words()
		switch {
		case measured:
			rows = append(rows, row)
		case stays:
			rows = append(rows, old[at])
			if c.selects(run) {
				c.OnEvent(RowKept{run.Name()})
			}
		case c.selects(run):
			c.OnEvent(RowMissing{run.Name()})
		}
		if at >= 0 && (measured || stays) {
			old = slices.Delete(old, at, at+1)
		}
	}
	for _, r := range old {
		c.OnEvent(RowDropped{r.Name})
	}
	if len(fresh) == 0 {
		return nil, c.nothingMeasured()
	}
	return rows, nil
}

// nothingMeasured is the error of a measurement without a row.
func (c *Config) nothingMeasured() error {
	var sets []string
	for _, run := range Runs() {
		if !slices.Contains(sets, run.Data) {
			sets = append(sets, run.Data)
		}
	}
	if len(c.Sets) > 0 && !slices.ContainsFunc(c.Sets, func(s string) bool { return slices.Contains(sets, s) }) {
		return experiment.AsInput(fmt.Errorf("docs/privacy.md has no runs on %s", strings.Join(c.Sets, ", ")),
			"data sets are "+strings.Join(sets, ", "))
	}
	return experiment.AsInput(fmt.Errorf("%s holds no run of docs/privacy.md with its current settings", c.Folder),
		"tacit docs privacy --commands "+c.Folder+" prints the commands that make them; omit --found to run them")
}

func newRow(run Run, r *result.Result) Row {
	return Row{
		Name: run.Name(), Method: r.Method, Data: r.Dataset, Protocol: r.Protocol, Budget: run.Budget,
		Settings: run.words(),
		Users:    r.Users, Items: r.Items, Rounds: r.Rounds, Selected: r.SelectedRound, Seed: r.Seed,
		HR: result.SixDigits(r.Test.Sampled["hr@10"]), NDCG: result.SixDigits(r.Test.Sampled["ndcg@10"]),
		ValidHR: result.SixDigits(r.Valid.Sampled["hr@10"]),
		FullHR:  result.SixDigits(r.Test.Full["hr@10"]), FullNDCG: result.SixDigits(r.Test.Full["ndcg@10"]),
		Privacy: r.Privacy, Commit: r.Commit,
	}
}

// baselines measures the reference rows on the data sets of the rows.
func (s *study) baselines(ctx context.Context, rows []Row) ([]Baseline, error) {
	var out []Baseline
	for _, run := range Runs() {
		shown := slices.ContainsFunc(rows, func(r Row) bool { return r.Data == run.Data })
		if !shown || slices.ContainsFunc(out, func(b Baseline) bool { return b.Data == run.Data }) {
			continue
		}
		job, err := s.open(run)
		if err != nil {
			return nil, err
		}
		split, err := job.Spec.Split(job.Source)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{"popularity", "local"} {
			row, err := reference.Compute(ctx, name, reference.Config{
				Split: split, Rounds: 100, Negatives: 4,
				Seed: job.Spec.Seed, Ties: job.Spec.TieRule(), Jobs: job.Jobs,
			})
			if err != nil {
				return nil, err
			}
			if row.Test != nil {
				out = append(out, Baseline{run.Data, name, *row.Test})
			}
		}
	}
	return out, nil
}
