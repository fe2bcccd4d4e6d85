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
)

// RunSeeds runs the job once for each of its seeds, and writes what they amount
// to beside their folders. Resumed, it goes on where it was.
func (j *Job) RunSeeds(ctx context.Context) (*report.Many, error) {
	if j.Keep == nil {
		j.Keep = &reference.Keep{}
	}
	if j.Out != "" && !j.Resume { // so that a killed run can be resumed
		if err := j.claimTop(); err != nil {
			return nil, err
		}
	}
	var runs []*report.Result
	for i := range uint64(j.Seeds) {
		one := *j
		one.Spec = j.Spec.withSeed(j.Seed + i)
		one.Figures = j.Figures && i == 0 // one seed is enough to look at
		if j.Out != "" {
			one.Out = filepath.Join(j.Out, fmt.Sprintf("seed-%d", one.Seed))
			if j.Resume {
				if r, err := report.Load(one.Out); err == nil {
					if err := one.same(r.Result); err != nil {
						return nil, err
					}
					runs = append(runs, r.Result)
					continue
				}
				one.Resume = exists(filepath.Join(one.Out, ConfigFile))
			}
		}
		r, err := one.Run(ctx)
		if err != nil {
			var s *Stopped
			if errors.As(err, &s) && j.Out != "" {
				err = &Stopped{Round: s.Round, Dir: j.Out}
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
	if err := writeFile(filepath.Join(j.Out, ResultFile), append(b, '\n')); err != nil {
		return nil, err
	}
	all, err := report.Load(j.Out)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := report.HTML(&page, []*report.Run{all}); err != nil {
		return nil, err
	}
	return many, writeFile(filepath.Join(j.Out, ReportFile), page.Bytes())
}

// claimTop writes the settings of all seeds to a folder that is free.
func (j *Job) claimTop() error {
	if err := claim(j.Out, j.Force); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(j.Out, ResultFile)); err != nil {
		return err
	}
	return input(writeFile(filepath.Join(j.Out, ConfigFile), j.TOML()), "give an -o that can be written to")
}

// withSeed is the same experiment with one seed.
func (s *Spec) withSeed(seed uint64) *Spec {
	one := *s
	one.Seed, one.Seeds = seed, 1
	one.Params = s.Entry.Clone(s.Params)
	return &one
}
