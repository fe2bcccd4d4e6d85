package experiment

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/report"
)

// Promise is a run of docs/privacy.md: a method on data with a budget, and the settings
// that were searched for that budget on validation.
type Promise struct {
	Method, Data string
	Budget       string // an epsilon, none, or what noise the devices add on their own
	Words        string // settings
}

// Name is that of its folder.
func (p Promise) Name() string {
	return p.Method + "-" + p.Data + "-" + strings.NewReplacer(":", "-", " ", "-").Replace(p.Budget)
}

// Command makes the run, in a folder of dir.
func (p Promise) Command(dir string) string {
	return fmt.Sprintf("tacit run -m %s -d %s --protocol deployed --preset built-in %s -o %s --no-figures "+
		"--no-references",
		p.Method, p.Data, p.words(), filepath.Join(dir, p.Name()))
}

// words are its settings. Ties count by their expectation, because features tie. With a budget
// the last round is measured, and none is chosen: a choice by metrics would cost.
func (p Promise) words() string {
	if strings.HasPrefix(p.Words, "dp=") {
		return p.Words + " ties=expected eval-every=1000"
	}
	return p.Words + " ties=expected eval-every=5"
}

func (p Promise) settings() []Setting {
	const from = "privacy"
	out := []Setting{
		{"method", p.Method, from},
		{"data", p.Data, from},
		{"protocol", "deployed", from},
		{"preset", "built-in", from},
	}
	for word := range strings.FieldsSeq(p.words()) {
		key, value, _ := strings.Cut(word, "=")
		out = append(out, Setting{key, value, from})
	}
	return out
}

// Promises are the runs of docs/privacy.md. What a noisy sum can carry decides them: fewer numbers
// (a small dim) and fewer rounds for a small budget, everybody in every round, a
// bound that all updates reach, and a rate of the coordinator that makes up for it.
// Each was searched on validation, by hand and by lot, with seed 1.
//
//lint:size it is a table
func Promises() []Promise {
	var out []Promise
	add := func(method, set string, rows ...[2]string) {
		for _, r := range rows {
			out = append(out, Promise{method, set, r[0], r[1]})
		}
	}
	const (
		fedmf   = " batch=64 eta=80 epochs=3"
		small   = " batch=64 eta=0.01 epochs=3" // PFedRec scores its tuned rows: they must stay near the shared ones
		smaller = " batch=64 eta=0.005 epochs=3"
		privrec = " batch=32 dim=8 layers=32,16 lr=0.5 epochs=2 adapt=1 negatives=2 rounds=60"
	)
	add("fedmf", "ml-100k",
		[2]string{"none", "rounds=100"},
		[2]string{"20", "dp=epsilon=20,clip=1 rounds=40 dim=8 negatives=16 lr=0.3 server=sgd:100" + fedmf},
		[2]string{"8", "dp=epsilon=8,clip=1 rounds=20 dim=8 negatives=16 lr=0.3 server=sgd:100" + fedmf},
		[2]string{"3", "dp=epsilon=3,clip=1 rounds=10 dim=2 negatives=8 lr=0.3 server=sgd:200" + fedmf},
		[2]string{"1", "dp=epsilon=1,clip=1 rounds=1 dim=1 negatives=1 lr=0.1 server=sgd:300" + fedmf})
	add("pfedrec", "ml-100k",
		[2]string{"none", "rounds=100"},
		[2]string{"20", "dp=epsilon=20,clip=0.05 rounds=40 dim=8 negatives=16 lr=0.3 server=sgd:2000" + small},
		[2]string{"8", "dp=epsilon=8,clip=0.05 rounds=20 dim=8 negatives=8 lr=0.3 server=sgd:2000" + small},
		[2]string{"3", "dp=epsilon=3,clip=0.05 rounds=10 dim=2 negatives=8 lr=0.3 server=sgd:4000" + small},
		[2]string{"1", "dp=epsilon=1,clip=0.05 rounds=2 dim=1 negatives=1 lr=0.1 server=sgd:6000" + small})
	add("privrec", "ml-100k",
		[2]string{"none", "cohort=poisson:0.2" + privrec},
		[2]string{"20", "dp=epsilon=20,clip=1 cohort=poisson:0.2 server=sgd:3" + privrec},
		[2]string{"8", "dp=epsilon=8,clip=1 cohort=poisson:0.2 server=sgd:3" + privrec},
		[2]string{"3", "dp=epsilon=3,clip=1 cohort=poisson:0.2 server=sgd:3" + privrec},
		[2]string{"1", "dp=epsilon=1,clip=0.5 cohort=poisson:0.2 server=sgd:3" + privrec})
	add("fedmf", "ml-1m",
		[2]string{"none", "rounds=100"},
		[2]string{"20", "dp=epsilon=20,clip=1 rounds=40 dim=8 negatives=8 lr=0.3 server=sgd:300" + fedmf},
		[2]string{"8", "dp=epsilon=8,clip=1 rounds=20 dim=8 negatives=8 lr=0.3 server=sgd:300" + fedmf},
		[2]string{"3", "dp=epsilon=3,clip=1 rounds=20 dim=4 negatives=8 lr=0.3 server=sgd:300" + fedmf},
		[2]string{"1", "dp=epsilon=1,clip=1 rounds=5 dim=1 negatives=4 lr=0.3 server=sgd:500" + fedmf})
	add("pfedrec", "ml-1m",
		[2]string{"none", "rounds=100"},
		[2]string{"20", "dp=epsilon=20,clip=0.05 rounds=40 dim=8 negatives=8 lr=0.3 server=sgd:6000" + smaller},
		[2]string{"8", "dp=epsilon=8,clip=0.05 rounds=20 dim=8 negatives=8 lr=0.3 server=sgd:6000" + smaller},
		[2]string{"3", "dp=epsilon=3,clip=0.05 rounds=20 dim=4 negatives=8 lr=0.3 server=sgd:6000" + smaller},
		[2]string{"1", "dp=epsilon=1,clip=0.05 rounds=5 dim=1 negatives=4 lr=0.3 server=sgd:10000" + smaller})
	add("privrec", "ml-1m",
		[2]string{"none", "cohort=poisson:0.1" + privrec},
		[2]string{"20", "dp=epsilon=20,clip=1 cohort=poisson:0.1 server=sgd:3" + privrec},
		[2]string{"8", "dp=epsilon=8,clip=1 cohort=poisson:0.1 server=sgd:3" + privrec},
		[2]string{"3", "dp=epsilon=3,clip=1 cohort=poisson:0.1 server=sgd:3" + privrec},
		[2]string{"1", "dp=epsilon=1,clip=1 cohort=poisson:0.1 server=sgd:3" + privrec})
	out = append(out, budgetedPromises()...)
	for _, scale := range []string{"0.1", "0.2", "0.3", "0.4", "0.5"} { // Table 4 of the PFedRec paper
		add("pfedrec", "ml-100k", [2]string{"laplace:" + scale, "noise=laplace:" + scale})
	}
	add("pfedrec", "ml-100k", // the scale 0.4 with a bound: an L1 sensitivity of 2·C and 0.2 times that
		[2]string{"local laplace 0.4", "dp=noise=0.2,clip=1,trust=local,mechanism=laplace,adjacency=replace-one " +
			"rounds=100"},
		[2]string{"local 8", "dp=epsilon=8,clip=0.05,trust=local rounds=2 dim=1 negatives=1 lr=0.1 server=sgd:6000" +
			small})
	return out
}

// Measured is what came of a promise.
type Measured struct {
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
	HR       float64         `json:"hr@10"` // of 1 and 99 candidates, on test
	NDCG     float64         `json:"ndcg@10"`
	FullHR   float64         `json:"full_hr@10"`
	FullNDCG float64         `json:"full_ndcg@10"`
	ValidHR  float64         `json:"valid_hr@10"`
	Privacy  *report.Privacy `json:"privacy"` // nil for none
	Commit   string          `json:"commit"`
}

//go:embed measured.json
var measured []byte

// MeasuredRows are those that docs/privacy.md shows.
func MeasuredRows() ([]Measured, error) { return ReadRows(measured) }

// ReadRows reads what tacit docs privacy wrote. A name that no row has is an error: the
// numbers under it would be lost.
func ReadRows(b []byte) ([]Measured, error) {
	var out []Measured
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(&out)
	return out, err
}

// MeasureConfig says which promises to measure.
type MeasureConfig struct {
	Runs    string // where the runs are kept and found again
	Found   bool   // take what is among them, and run nothing
	DataDir string
	Sets    []string   // data sets; all where it is empty
	Kept    []Measured // rows of before: those stay that are not measured anew
	Tell    func(m Measured)
	Skipped func(what string) // a promise that was asked for and is not measured, or a row that goes
}

// Baseline is a reference on a data set.
type Baseline struct {
	Data, Name string
	Test       metrics.Summary
}

// Measure runs the promises, or finds them among the runs, and the references beside
// them: popularity, and what a device learns alone. Rows of before stay where nothing
// new is measured; that nothing at all is, is an error.
func Measure(ctx context.Context, base Job, c MeasureConfig) ([]Measured, []Baseline, error) {
	source := ""
	open := func(p Promise) (job Job, err error) {
		job = base
		if job.Spec, err = Resolve(p.settings()); err != nil {
			return job, fmt.Errorf("%s: %w", p.Name(), err)
		}
		if p.Data != source {
			if base.Source, err = OpenData(&job.Spec.Settings, c.DataDir); err != nil {
				return job, err
			}
			source = p.Data
		}
		job.Source = base.Source
		return job, nil
	}
	rows, err := c.merge(func(p Promise) (Measured, error) {
		if c.Found && !exists(filepath.Join(c.Runs, p.Name(), ResultFile)) {
			return Measured{}, errNotFound
		}
		job, err := open(p)
		if err != nil {
			return Measured{}, err
		}
		return c.one(ctx, job, p)
	})
	if err != nil {
		return nil, nil, err
	}
	var beside []Baseline
	for _, p := range Promises() {
		has := slices.ContainsFunc(rows, func(m Measured) bool { return m.Data == p.Data })
		if !has || slices.ContainsFunc(beside, func(b Baseline) bool { return b.Data == p.Data }) {
			continue
		}
		job, err := open(p)
		if err != nil {
			return nil, nil, err
		}
		found, err := baselines(ctx, job, job.Spec)
		if err != nil {
			return nil, nil, err
		}
		beside = append(beside, found...)
	}
	return rows, beside, nil
}

// merge measures what is asked for, and keeps the rows of before elsewhere.
func (c *MeasureConfig) merge(measure func(Promise) (Measured, error)) ([]Measured, error) {
	var rows []Measured
	fresh, left := 0, slices.Clone(c.Kept)
	for _, p := range Promises() {
		asked := len(c.Sets) == 0 || slices.Contains(c.Sets, p.Data)
		m, err := Measured{}, errNotFound
		if asked {
			m, err = measure(p)
		}
		at := slices.IndexFunc(left, func(m Measured) bool { return m.Name == p.Name() })
		stays := at >= 0 && left[at].Settings == p.words()
		switch {
		case err == nil:
			rows = append(rows, m)
			fresh++
			c.Tell(m)
		case !errors.Is(err, errNotFound):
			return nil, fmt.Errorf("%s: %w", p.Name(), err)
		case stays:
			rows = append(rows, left[at])
			if asked {
				c.Skipped(p.Name() + " is not among the runs: its row stays as it was")
			}
		case asked:
			c.Skipped(p.Name() + " is not among the runs: it has no row")
		}
		if at >= 0 && (err == nil || stays) {
			left = slices.Delete(left, at, at+1)
		}
	}
	for _, m := range left {
		c.Skipped("the row of " + m.Name + " goes: there is no such promise any more, or it has other settings")
	}
	if fresh == 0 {
		return nil, c.nothing()
	}
	return rows, nil
}

// nothing says why nothing was measured.
func (c *MeasureConfig) nothing() error {
	var sets []string
	for _, p := range Promises() {
		if !slices.Contains(sets, p.Data) {
			sets = append(sets, p.Data)
		}
	}
	if len(c.Sets) > 0 && !slices.ContainsFunc(c.Sets, func(s string) bool { return slices.Contains(sets, s) }) {
		return input(fmt.Errorf("there is no promise on %s", strings.Join(c.Sets, ", ")), "there are some on "+
			strings.Join(sets, ", "))
	}
	return input(fmt.Errorf("none of the runs of docs/privacy.md is in %s, with the settings that it has now", c.Runs),
		"tacit docs privacy --commands "+c.Runs+" prints the commands that make them; without --found they are run")
}

// one finds or makes a run.
func (c *MeasureConfig) one(ctx context.Context, job Job, p Promise) (Measured, error) {
	job.NoRefs, job.Out = true, filepath.Join(c.Runs, p.Name())
	job.Resume = exists(filepath.Join(job.Out, ConfigFile))
	r, err := job.Run(ctx)
	var other *Input
	if errors.As(err, &other) && job.Resume { // a run with other settings
		if c.Found {
			return Measured{}, errNotFound
		}
		job.Resume, job.Force = false, true
		r, err = job.Run(ctx)
	}
	if err != nil {
		return Measured{}, err
	}
	m := Measured{
		Name: p.Name(), Method: r.Method, Data: r.Dataset, Protocol: r.Protocol, Budget: p.Budget, Settings: p.words(),
		Users: r.Users, Items: r.Items, Rounds: r.Rounds, Selected: r.SelectedRound, Seed: r.Seed,
		HR: report.Short(r.Test.Sampled["hr@10"]), NDCG: report.Short(r.Test.Sampled["ndcg@10"]),
		ValidHR: report.Short(r.Valid.Sampled["hr@10"]),
		FullHR:  report.Short(r.Test.Full["hr@10"]), FullNDCG: report.Short(r.Test.Full["ndcg@10"]),
		Privacy: r.Privacy, Commit: r.Commit,
	}
	return m, nil
}

// baselines are what needs no federation.
func baselines(ctx context.Context, job Job, s *Spec) ([]Baseline, error) {
	split, err := s.Split(job.Source)
	if err != nil {
		return nil, err
	}
	var out []Baseline
	for _, name := range []string{"popularity", "local"} {
		row, err := reference.Compute(ctx, name, reference.Config{
			Split: split, Rounds: 100, Negatives: 4,
			Seed: s.Seed, Ties: s.TieRule(), Jobs: job.Jobs,
		})
		if err != nil {
			return nil, err
		}
		if row.Test != nil {
			out = append(out, Baseline{s.Data, name, *row.Test})
		}
	}
	return out, nil
}
