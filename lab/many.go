package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/report"
)

// RunSeeds runs the job once for each of its seeds, and writes what they amount
// to beside their folders. Resumed, it goes on where it was.
func (j *Job) RunSeeds(ctx context.Context) (*report.Many, error) {
	var runs []*report.Result
	for i := range uint64(j.Seeds) {
		one := *j
		one.Spec = j.Spec.withSeed(j.Seed + i)
		if j.Out != "" {
			one.Out = filepath.Join(j.Out, fmt.Sprintf("seed-%d", one.Seed))
			if j.Resume {
				if r, err := report.Load(one.Out); err == nil {
					runs = append(runs, r.Result)
					continue
				}
				one.Resume = exists(filepath.Join(one.Out, CheckpointFile))
			}
		}
		r, err := one.Run(ctx)
		if err != nil {
			var s *Stopped
			if errors.As(err, &s) && j.Out != "" {
				err = errors.Join(j.writeTop(), &Stopped{s.Round, j.Out})
			}
			return nil, err
		}
		runs = append(runs, r)
	}
	many := report.Repeat(runs)
	if j.Out == "" {
		return many, nil
	}
	b, err := json.MarshalIndent(many, "", "  ")
	if err != nil {
		return nil, err
	}
	return many, errors.Join(j.writeTop(), writeFile(filepath.Join(j.Out, ResultFile), append(b, '\n')))
}

// writeTop writes the settings of all seeds.
func (j *Job) writeTop() error {
	if err := os.MkdirAll(j.Out, 0o755); err != nil {
		return err
	}
	return writeFile(filepath.Join(j.Out, ConfigFile), j.TOML())
}

// withSeed is the same experiment with one seed.
func (s *Spec) withSeed(seed uint64) *Spec {
	one := *s
	one.Seed, one.Seeds = seed, 1
	one.Params = methods.Clone(s.Params)
	return &one
}
