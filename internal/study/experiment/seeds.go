package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/sweep"
)

// RunSeeds runs the job once for each of its seeds and summarises the runs. Each seed has a folder
// below the job's; a resumed job does not repeat the seeds that are finished.
func (j *Job) RunSeeds(ctx context.Context) (*result.Repeated, error) {
	if j.References == nil {
		j.References = &reference.Cache{}
	}
	if j.Out != "" && !j.Resume { // written first, so that a crashed job can be resumed
		if err := j.claimTop(); err != nil {
			return nil, err
		}
	}
	if j.Resume { // seeds that have not started follow the first one
		j.readEnviron(filepath.Join(j.Out, fmt.Sprintf("seed-%d", j.Seed)))
	}
	all, err := sweep.New(j.seedJobs(), sweep.Config[*result.Result]{Cores: j.Jobs})
	if err == nil {
		err = all.Run(ctx)
	}
	if err = AsStopped(ctx, err, j.Out); err != nil {
		var s *Stopped
		if errors.As(err, &s) && j.Out != "" {
			err = &Stopped{Round: s.Round, Dir: j.Out}
		}
		return nil, err
	}
	var runs []*result.Result
	for _, one := range all.Jobs {
		runs = append(runs, one.Result)
	}
	many := result.CombineSeeds(runs)
	if j.Out == "" {
		return many, nil
	}
	return many, j.writeSeeds(many)
}

// writeSeeds writes the result and the report of all seeds; the folders of the seeds are complete.
func (j *Job) writeSeeds(many *result.Repeated) error {
	b, err := json.MarshalIndent(many, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(j.Out, ResultFile), append(b, '\n')); err != nil {
		return err
	}
	folder, err := result.Load(j.Out)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := report.HTML(&page, []*result.Run{folder}); err != nil {
		return err
	}
	return writeFile(filepath.Join(j.Out, ReportFile), page.Bytes())
}

// seedJobs lists the runs of the seeds.
func (j *Job) seedJobs() []*sweep.Job[*result.Result] {
	var out []*sweep.Job[*result.Result]
	for i := range uint64(j.Seeds) {
		one := *j
		one.Spec = j.Spec.withSeed(j.Seed + i)
		one.Figures = j.Figures && i == 0 // one seed is enough for figures
		one.SeedAt, one.SeedOf = int(i)+1, j.Seeds
		if j.Out != "" {
			one.Out = filepath.Join(j.Out, fmt.Sprintf("seed-%d", one.Seed))
		}
		out = append(out, &sweep.Job[*result.Result]{
			Name: fmt.Sprintf("seed %d", one.Seed),
			Load: one.loadSeed,
			Run:  func(ctx context.Context, _ int) (*result.Result, error) { return one.Run(ctx) },
		})
	}
	return out
}

// loadSeed loads the result of a seed of a resumed job. A seed that was started and not finished
// will be resumed.
func (j *Job) loadSeed() (*result.Result, bool, error) {
	if j.Out == "" || !j.Resume {
		return nil, false, nil
	}
	r, err := result.Load(j.Out)
	if err != nil {
		j.Resume = exists(filepath.Join(j.Out, ConfigFile))
		return nil, false, nil
	}
	return r.Result, true, j.same(r.Result)
}

// Stored returns the result of the finished run in the job's folder. It returns nil if there is
// none, or one with other settings.
func (j *Job) Stored() *result.Result {
	r, err := result.Load(j.Out)
	if err != nil || r.Result == nil || j.same(r.Result) != nil {
		return nil
	}
	return r.Result
}

// StoredSeeds is Stored for a job that RunSeeds ran.
func (j *Job) StoredSeeds() *result.Repeated {
	var runs []*result.Result
	for i := range uint64(j.Seeds) {
		one := *j
		one.Spec = j.Spec.withSeed(j.Seed + i)
		one.Out = filepath.Join(j.Out, fmt.Sprintf("seed-%d", one.Seed))
		r := one.Stored()
		if r == nil {
			return nil
		}
		runs = append(runs, r)
	}
	return result.CombineSeeds(runs)
}

// RunOrReplace calls run, which is (*Job).Run or (*Job).RunSeeds. If the job's folder holds a run
// with the same settings, it is resumed; one with other settings is replaced.
func RunOrReplace[R any](ctx context.Context, j Job, run func(*Job, context.Context) (R, error)) (R, error) {
	j.Resume = j.Out != "" && exists(filepath.Join(j.Out, ConfigFile))
	result, err := run(&j, ctx)
	var other *InputError
	if j.Resume && errors.As(err, &other) {
		j.Resume, j.Force = false, true
		return run(&j, ctx)
	}
	return result, err
}

// claimTop writes the settings to the folder of all seeds.
func (j *Job) claimTop() error {
	if err := claim(j.Out, j.Force); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(j.Out, ResultFile)); err != nil {
		return err
	}
	return AsInput(writeFile(filepath.Join(j.Out, ConfigFile), j.TOML()), "choose an -o that you can write to")
}

// withSeed returns the same experiment with one seed.
func (s *Spec) withSeed(seed uint64) *Spec {
	one := *s
	one.Seed, one.Seeds = seed, 1
	one.Params = s.Entry.Clone(s.Params)
	return &one
}
