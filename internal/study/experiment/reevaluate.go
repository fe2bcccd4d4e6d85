package experiment

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// Evaluation evaluates the stored model of a finished run again, without training.
type Evaluation struct {
	Run      string    // the run folder
	DataDir  string    // folder of the data sets; empty looks where OpenData does
	Settings []Setting // of the evaluation: protocol, ties, eval-users
	Methods  *method.Registry
	Job      Job // how it is run: Jobs, Out, Force, NoReferences, Version, Commit and OnEvent
}

// Do evaluates the run, and returns one result for each of its seeds. With Job.Out it writes a folder like that of a
// run, without a model. If no setting differs from the run's, the ranks that the run stored are counted, and the
// metrics are the same.
func (v *Evaluation) Do(ctx context.Context) (*result.Repeated, error) {
	stored, err := result.Load(v.Run)
	if err != nil {
		return nil, AsInput(err, "tacit run -o DIR creates a run folder")
	}
	if stored.Result == nil {
		return nil, AsInput(fmt.Errorf("%s holds a search or a leaderboard, not a run", v.Run),
			"tacit run -o DIR creates a run folder")
	}
	if v.Job.References == nil {
		v.Job.References = &reference.Cache{}
	}
	if len(stored.Seeds) == 0 {
		one, err := v.one(ctx, v.Run, v.Job.Out)
		if err != nil {
			return nil, err
		}
		return &result.Repeated{Runs: []*result.Result{one}}, nil
	}
	var runs []*result.Result
	var top *Job
	for _, s := range stored.Seeds {
		name, out := fmt.Sprintf("seed-%d", s.Result.Seed), ""
		if v.Job.Out != "" {
			if top == nil {
				if top, err = v.claim(); err != nil {
					return nil, err
				}
			}
			out = filepath.Join(v.Job.Out, name)
		}
		one, err := v.one(ctx, filepath.Join(v.Run, name), out)
		if err != nil {
			return nil, err
		}
		runs = append(runs, one)
	}
	many := result.CombineSeeds(runs)
	if top == nil {
		return many, nil
	}
	return many, top.writeSeeds(many)
}

// claim prepares the folder of several seeds.
func (v *Evaluation) claim() (*Job, error) {
	given, err := ReadFile(filepath.Join(v.Run, ConfigFile))
	if err != nil {
		return nil, err
	}
	top := v.Job
	if top.Spec, err = ResolveIn(v.Methods, append(OldDefaults(), given...)); err != nil {
		return nil, err
	}
	if top.Spec, err = top.With(v.Settings); err != nil {
		return nil, err
	}
	return &top, top.claimTop()
}

// one evaluates the run of one seed.
func (v *Evaluation) one(ctx context.Context, dir, out string) (*result.Result, error) {
	from, err := Restore(v.Methods, dir, v.DataDir)
	if err != nil {
		return nil, err
	}
	j := v.Job
	j.Source, j.Out, j.Model, j.Figures = from.Source, out, ModelNever, false
	if j.Spec, err = from.With(v.Settings); err != nil {
		return nil, err
	}
	if j.OnEvent == nil {
		j.OnEvent = func(Event) {}
	}
	if err := sameTraining(from.Protocol, j.Protocol); err != nil {
		return nil, err
	}
	split, err := j.Split(j.Source)
	if err != nil {
		return nil, err
	}
	res, run := *from.Result, from.Run
	last := run.RoundsRun()
	again := result.Evaluated{Run: v.Run, Protocol: from.Protocol, Round: res.SelectedRound}
	if j.Protocol != from.Protocol || j.EvalUsers.Of(split) != from.EvalUsers.Of(from.Split) {
		if run.Best, err = run.EvaluateOn(ctx, split, j.EvalUsers.Of(split)); err != nil {
			if ctx.Err() != nil {
				return nil, AsStopped(ctx, err, "")
			}
			return nil, AsInput(fmt.Errorf("%s cannot be evaluated again: %w", dir, err),
				"train it again with tacit run")
		}
		again.Round = last
		again.Tuned = run.HasTunedTables()
	}
	res.Schema, res.Protocol, res.Leaks, res.SelectedRound = result.Schema, j.Protocol, split.Leaks(), again.Round
	if hides := from.Split.Hide != split.Hide; hides && run.DrawsNegatives() { // negatives were drawn by another rule
		res.Leaks = res.Leaks || from.Split.Leaks()
		again.OtherNegatives = true
	}
	res.Evaluated, res.Options, res.BestOnTest = &again, param.Values(&j.Options), nil
	res.Version, res.Commit = j.Version, j.Commit
	res.Valid, res.Test = run.Best.Summaries(j.TieRule(), j.Source.Items())
	res.NewUsers = j.newUsers(run, split)
	res.TestItemsInTrain, res.FewCandidates = irregularUsers(split)
	if res.EvaluatedSample = 0; j.EvalUsers.Of(split) < split.Users() {
		res.EvaluatedSample = j.EvalUsers.Of(split)
	}
	res.Literature = nil
	for _, pub := range methods.PublishedSequences(j.Data, j.Protocol) {
		res.Literature = append(res.Literature, result.Published{
			Model: pub.Model, HR10: pub.HR10, NDCG10: pub.NDCG10, Source: pub.Source, Protocol: pub.Protocol,
		})
	}
	res.References, res.LeakMeasured, res.UserScores = nil, nil, nil
	if !j.NoReferences {
		if err := j.addReferences(ctx, run, &res, split); err != nil {
			return nil, AsStopped(ctx, err, "")
		}
	}
	folder, err := openFolder(j.Out, j.Spec, environ(&j), j.Force)
	if err != nil {
		return nil, err
	}
	defer folder.close()
	return &res, j.finish(run, split, &res, nil, folder)
}

// sameTraining returns an error if models under one protocol are trained on other rows than under the other.
func sameTraining(trained, evaluated string) error {
	if trained == evaluated {
		return nil
	}
	a, err := data.ProtocolNamed(trained)
	if err != nil {
		return AsInput(err, "")
	}
	b, err := data.ProtocolNamed(evaluated)
	if err != nil {
		return AsInput(err, "tacit help protocols describes them")
	}
	if a.Split == data.LeaveOneOut && b.Split == data.LeaveOneOut {
		return nil
	}
	rows := map[data.SplitKind]string{
		data.LeaveOneOut: "all rows of a user but the last two", data.TimeCut: "the rows before a cut in time",
		data.LastOut: "all rows of a user but the last one", data.NewUsers: "the rows of four fifths of the users",
	}
	return AsInput(fmt.Errorf("a model trained under %s cannot be evaluated under %s: %s trains on %s, and %s on %s",
		trained, evaluated, trained, rows[a.Split], evaluated, rows[b.Split]),
		"train it again: tacit run with --protocol "+evaluated)
}
