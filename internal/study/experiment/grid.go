package experiment

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/sweep"
)

// chosenBy is the validation metric that decides about a grid. Of HR@10 and NDCG@10 it is the one
// that distinguishes settings with equal hits.
const chosenBy = "ndcg@10"

// ChoosesSettings reports whether the settings are taken from the method's grid: there is no preset,
// the user set no key of the grid, and the protocol has validation items. A run with a privacy
// guarantee does not choose, because the guarantee would not cover the runs of the grid.
func (j *Job) ChoosesSettings() bool {
	if len(j.Entry.Grid) == 0 || j.Settings.Preset != "auto" && j.Settings.Preset != "built-in" ||
		j.Spec.Preset != nil || j.DP.On() || j.Resume {
		return false
	}
	for _, words := range j.Entry.Grid {
		for word := range strings.FieldsSeq(words) {
			if key, _, _ := strings.Cut(word, "="); j.From[key] != "" {
				return false
			}
		}
	}
	p, err := data.ProtocolNamed(j.Protocol)
	return err == nil && p.Validates()
}

// ChooseSettings runs the method's grid, if ChoosesSettings, and takes the setting with the best
// metric on validation items; of equal ones the first. It does not read test items. Each setting is
// run with the first seed and measured after its last round.
func (j *Job) ChooseSettings(ctx context.Context) error {
	if !j.ChoosesSettings() {
		return nil
	}
	start := time.Now()
	var jobs []*sweep.Job[result.Tried]
	for _, words := range j.Entry.Grid {
		jobs = append(jobs, &sweep.Job[result.Tried]{
			Name: words,
			Run:  func(ctx context.Context, _ int) (result.Tried, error) { return j.try(ctx, words) },
		})
	}
	all, err := sweep.New(jobs, sweep.Config[result.Tried]{Cores: j.Jobs, OnEnd: func(e sweep.Ended[result.Tried]) {
		if j.OnEvent != nil && e.Job.Done() {
			j.OnEvent(SettingTried{e.Job.Result, e.Done, len(jobs)})
		}
	}})
	if err == nil {
		err = all.Run(ctx)
	}
	if err != nil {
		return err
	}
	choice := &result.Choice{By: chosenBy, Seed: j.Seed}
	for i, one := range jobs {
		choice.Tried = append(choice.Tried, one.Result)
		if one.Result.NDCG > choice.Tried[choice.Chosen].NDCG {
			choice.Chosen = i
		}
	}
	best, err := Assignments(strings.Fields(j.Entry.Grid[choice.Chosen]), "grid")
	if err != nil {
		return err
	}
	spec, err := j.With(best)
	choice.Seconds = time.Since(start).Seconds()
	j.Spec, j.choice = spec, choice
	return err
}

// try measures one setting of the grid.
func (j *Job) try(ctx context.Context, words string) (result.Tried, error) {
	given, err := Assignments(strings.Fields(words), "grid")
	if err != nil {
		return result.Tried{}, err
	}
	spec, err := j.With(append(given, Setting{"eval-every", fmt.Sprint(j.Rounds), "grid"}))
	if err != nil {
		return result.Tried{}, err
	}
	one := &Job{Spec: spec.withSeed(j.Seed), Source: j.Source, Jobs: j.Jobs, NoReferences: true}
	res, err := one.Run(ctx)
	if err != nil {
		return result.Tried{}, err
	}
	return result.Tried{
		Settings: words, HR: res.Valid.Sampled["hr@10"], NDCG: res.Valid.Sampled[chosenBy],
		Seconds: res.Seconds.Total,
	}, nil
}

// writeChoice writes the tried settings to the run's folder.
func (j *Job) writeChoice(out *folder) error {
	if out == nil || j.choice == nil {
		return nil
	}
	b, err := json.MarshalIndent(j.choice, "", "  ")
	if err != nil {
		return err
	}
	return out.write(choiceFile, append(b, '\n'))
}

// readChoice reads the tried settings of a resumed run. If they are missing, the report omits them.
func (j *Job) readChoice() {
	var c result.Choice
	if b, err := os.ReadFile(filepath.Join(j.Out, choiceFile)); err == nil && json.Unmarshal(b, &c) == nil {
		j.choice = &c
	}
}
