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
	"github.com/tacit-rec/tacit/internal/study/report"
)

// Choosing is told after a setting of the method's grid was tried.
type Choosing struct {
	report.Tried
	At, Of int // from 1
}

// chosenBy is the metric that a grid is judged by, on validation items: of the two it
// is the one that ranks lists which hit alike.
const chosenBy = "ndcg@10"

// Chooses reports whether the settings are left to the method's grid: there is no
// preset, nothing of the grid was given, and there are validation items to judge by. With
// a privacy promise nothing is tried: the promise would not cover it.
func (j *Job) Chooses() bool {
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

// Choose tries the method's grid, where settings are left to it, and takes the setting
// that is best on validation items, the first of equals. Test items are not looked at.
// Each setting is run once with the first seed, and measured after its last round.
func (j *Job) Choose(ctx context.Context) error {
	if !j.Chooses() {
		return nil
	}
	start, choice, best := time.Now(), &report.Choice{By: chosenBy, Seed: j.Seed}, []Setting(nil)
	for i, words := range j.Entry.Grid {
		given, err := Assignments(strings.Fields(words), "grid")
		if err != nil {
			return err
		}
		spec, err := j.With(append(given, Setting{"eval-every", fmt.Sprint(j.Rounds), "grid"}))
		if err != nil {
			return err
		}
		one := &Job{Spec: spec.withSeed(j.Seed), Source: j.Source, Jobs: j.Jobs, NoRefs: true}
		res, err := one.Run(ctx)
		if err != nil {
			return err
		}
		tried := report.Tried{
			Settings: words, HR: res.Valid.Sampled["hr@10"], NDCG: res.Valid.Sampled[chosenBy],
			Seconds: res.Seconds.Total,
		}
		if choice.Tried = append(choice.Tried, tried); tried.NDCG > choice.Tried[choice.Chosen].NDCG || i == 0 {
			choice.Chosen, best = i, given
		}
		if j.Tell != nil {
			j.Tell(Choosing{tried, i + 1, len(j.Entry.Grid)})
		}
	}
	spec, err := j.With(best)
	choice.Seconds = time.Since(start).Seconds()
	j.Spec, j.choice = spec, choice
	return err
}

// keepChoice writes what was tried to the run's folder.
func (j *Job) keepChoice(out *folder) error {
	if out == nil || j.choice == nil {
		return nil
	}
	b, err := json.MarshalIndent(j.choice, "", "  ")
	if err != nil {
		return err
	}
	return out.write(ChoiceFile, append(b, '\n'))
}

// readChoice reads it back for a run that goes on. A report without it is still a report.
func (j *Job) readChoice() {
	var c report.Choice
	if b, err := os.ReadFile(filepath.Join(j.Out, ChoiceFile)); err == nil && json.Unmarshal(b, &c) == nil {
		j.choice = &c
	}
}
