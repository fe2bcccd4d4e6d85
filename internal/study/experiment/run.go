package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/sim"
)

// Job is an experiment and how it is run.
type Job struct {
	*Spec
	Source       data.Source
	Jobs         int    // goroutines; the result does not depend on it
	Out          string // the run folder; empty for none
	Force        bool   // replace a run that the folder holds
	Resume       bool   // resume the run that the folder holds
	NoReferences bool
	Figures      bool // compute the figures of the report; only with a folder
	Model        Model
	Version      string
	Commit       string

	SeedAt, SeedOf int // which of the seeds of RunSeeds this is, from 1; 0 for a run of one seed

	OnEvent func(Event) // receives progress events, one call at a time; may be nil

	References *reference.Cache // shared by the reference rows of several runs; may be nil

	modelLimit int64 // of ModelAuto; 0 for modelLimit

	choice *result.Choice // set by ChooseSettings; nil if it did not choose
}

// Stopped is the error of a run that was interrupted.
type Stopped struct {
	Round int
	Dir   string // folder to resume the run from; empty if nothing was saved
	Hint  string // how to resume, if not by tacit run --resume
}

// AsStopped returns err as Stopped if ctx is done: an interrupt may arrive between two runs, when
// no run can say so.
func AsStopped(ctx context.Context, err error, dir string) error {
	var already *Stopped
	if err == nil || ctx.Err() == nil || errors.As(err, &already) {
		return err
	}
	return &Stopped{Dir: dir}
}

func (s *Stopped) Error() string {
	if s.Round == 0 {
		return "interrupted"
	}
	if s.Dir == "" {
		return fmt.Sprintf("stopped after round %d; nothing was saved", s.Round)
	}
	return fmt.Sprintf("stopped after round %d", s.Round)
}

// IdleError returns an error if most devices of the first round had nothing to train on.
func (s *Spec) IdleError(ev sim.Event) error {
	if ev.Round != 1 || !s.Cohort.All() || ev.Idle <= ev.Devices+ev.Late+ev.Dropped {
		return nil
	}
	hint := "try --protocol deployed, which holds out one row per user and hides no item"
	if s.Protocol == "deployed" {
		hint = "tacit data describe " + s.Data + " shows how many interactions users have"
	}
	return AsInput(fmt.Errorf("protocol %s leaves most devices without training data (%d of %d): they have no "+
		"training "+
		"rows, or no item to draw as a negative", s.Protocol, ev.Idle, ev.Idle+ev.Devices),
		hint)
}

// Split splits the data by the experiment's protocol.
func (s *Spec) Split(src data.Source) (*data.Split, error) {
	protocol, err := s.SplitProtocol()
	if err != nil {
		return nil, err
	}
	if err := s.check(src, protocol); err != nil {
		return nil, err
	}
	split, err := data.NewSplit(src, protocol, s.Seed)
	if err == nil {
		err = split.CheckTested()
	}
	if err != nil {
		return nil, AsInput(err, "")
	}
	return split, nil
}

// saveEvery is how often a run with a folder writes a checkpoint.
const saveEvery = 30 * time.Second

// Run runs the job. When ctx is done, it finishes the round in progress without evaluating it, saves
// a checkpoint and returns Stopped; a resumed run evaluates that round.
func (j *Job) Run(ctx context.Context) (*result.Result, error) {
	if j.OnEvent == nil {
		j.OnEvent = func(Event) {}
	}
	if j.Resume && exists(filepath.Join(j.Out, ResultFile)) {
		done, err := result.Load(j.Out)
		if err != nil {
			return nil, AsInput(err, "")
		}
		return done.Result, j.same(done.Result)
	}
	start := time.Now()
	if j.devices == 0 {
		j.FitTo(j.Source)
	}
	split, err := j.Split(j.Source)
	if err != nil {
		return nil, err
	}
	j.Options.Name = j.Method
	run, err := sim.New(j.Params, split, j.Options, j.Seed, j.Jobs)
	if err != nil {
		return nil, AsInput(err, "")
	}
	out, err := j.open(run)
	if err != nil {
		return nil, err
	}
	defer out.close()
	if err := j.openLedger(run, out); err != nil {
		return nil, err
	}
	start = start.Add(-run.Total) // time before the resume counts
	j.OnEvent(Started{j, run, split})
	if j.Resume {
		j.OnEvent(Resumed{run.EvaluatedRounds()})
	}
	figures := j.figures(run, split)
	start = start.Add(figures.elapsed())
	if err := j.rounds(ctx, run, out, figures, &start); err != nil {
		return nil, err
	}
	if run.BudgetEnd > 0 {
		j.OnEvent(BudgetSpent{run.BudgetEnd})
	}
	run.Total = time.Since(start)
	res := j.result(run, split)
	if res.Privacy, err = privacyOf(run); err != nil {
		return nil, err
	}
	if !j.NoReferences {
		if err := j.addReferences(ctx, run, res, split); err != nil {
			return nil, j.stopped(ctx, run, out, err)
		}
	}
	drawn, err := figures.compute(ctx)
	if err != nil {
		return nil, j.stopped(ctx, run, out, err)
	}
	return res, j.finish(run, split, res, drawn, out)
}

func (j *Job) open(run *sim.Run) (*folder, error) {
	if !j.Resume {
		f, err := openFolder(j.Out, j.Spec, environ(j), j.Force)
		if err != nil {
			return nil, err
		}
		return f, j.writeChoice(f)
	}
	f := &folder{dir: j.Out}
	j.readChoice()
	j.readEnviron(j.Out)
	return f, f.resume(run, j.fingerprint())
}

// rounds runs the remaining rounds. It moves start by the time that figures take, so that the run's
// time does not include them.
func (j *Job) rounds(ctx context.Context, run *sim.Run, out *folder, figures *figures, start *time.Time) error {
	saved := time.Now()
	for !run.Done() {
		if ctx.Err() != nil {
			return j.stopped(ctx, run, out, ctx.Err())
		}
		ev, err := run.Step(ctx)
		run.Total = time.Since(*start)
		switch {
		case run.Unevaluated != nil: // interrupted during the evaluation
			return j.stopped(ctx, run, out, err)
		case errors.Is(err, round.ErrBudgetSpent) && run.Selected > 0:
			return nil // a crash spent the budget of this round: report the last evaluation
		case errors.Is(err, round.ErrBudgetSpent):
			return AsInput(err, "no round was evaluated: start a new run with --force, and more noise or a smaller "+
				"eval-every")
		case errors.Is(err, privacy.ErrClip):
			return AsInput(err, "omit --as-printed or use adaptive=geometric to keep the clipping bound positive")
		case errors.Is(err, sim.ErrDiverged):
			return AsInput(fmt.Errorf("round %d: %w", ev.Round, err), stabler(param.Values(j.Params)))
		case err != nil:
			return err
		}
		before := figures.elapsed()
		if err := out.event(line{ev, figures.spectra(ev.Round)}); err != nil {
			return err
		}
		*start = start.Add(figures.elapsed() - before)
		j.OnEvent(RoundEnded{ev})
		if err := j.IdleError(ev); err != nil {
			return err
		}
		every := saveEvery
		if run.Stack() != nil { // repeating a lost round would spend privacy budget
			every = saveEvery / 10
		}
		if time.Since(saved) > every {
			if err := out.checkpoint(run, j.fingerprint()); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
	return nil
}

// stabler suggests settings against divergence.
func stabler(params map[string]any) string {
	key := "lr"
	if _, ok := params["recon-lr"]; ok {
		key = "recon-lr"
	}
	if _, eta := params["eta"]; eta && params["loss"] == "squared" {
		return "the gradient of the squared error is unbounded: try " + key + "=0.01 eta=10"
	}
	if rate, ok := params[key].(float64); ok && rate > 0 {
		return fmt.Sprintf("try %s=%.2g", key, rate/10)
	}
	return "try " + key + "=0.01"
}

// stopped saves the checkpoint of an interrupted run and returns Stopped; other errors it returns as they are.
func (j *Job) stopped(ctx context.Context, run *sim.Run, out *folder, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if err := out.checkpoint(run, j.fingerprint()); err != nil {
		return err
	}
	return &Stopped{Round: run.RoundsRun(), Dir: j.Out}
}

func (j *Job) result(run *sim.Run, split *data.Split) *result.Result {
	res := &result.Result{
		Schema: result.Schema,
		Method: j.Method, Dataset: j.Source.Info().Name, DataHash: j.Source.Info().Hash,
		Protocol: j.Protocol, Leaks: split.Leaks(), Seed: j.Seed, Rounds: j.Rounds, SelectedRound: run.Selected,
		DataSize: result.DataSize{
			Users: j.Source.Users(), Items: j.Source.Items(), Interactions: Rows(j.Source),
			DataSettings: j.dataSettings(),
		},
		Params: param.Values(j.Params), Options: param.Values(&j.Options),
		Cost: result.Cost{
			Seconds: result.Seconds{
				Train: run.Train.Seconds(), Eval: run.Eval.Seconds(), Total: run.Total.Seconds(),
			},
			RoundMSMedian: run.MedianRoundMS(), PeakRSSBytes: peakRSS(),
		},
		Counts: result.Counts{Dropped: run.Dropped, Late: run.Late},
		Origin: result.Origin{Version: j.Version, Commit: j.Commit},
	}
	res.Choice = j.choice
	res.IdleDevices, res.Central, res.LastRoundCounts = run.Idle, run.Plan().Central(), run.UsesLastRound()
	res.TestItemsInTrain, res.FewCandidates = irregularUsers(split)
	if n := j.EvalUsers.Of(split); n < split.Users() {
		res.EvaluatedSample = n
	}
	res.Valid, res.Test = run.Best.Summaries(j.TieRule(), j.Source.Items())
	res.NewUsers = j.newUsers(run, split)
	if c := run.TestBest; c != nil {
		res.BestOnTest = &result.BestOnTest{Round: c.Round, Test: c.Test}
	}
	if t := run.Train.Seconds(); t > 0 {
		res.DevicesPerS, res.SamplesPerS = float64(run.Devices)/t, float64(run.Samples)/t
	}
	if run.Devices > 0 {
		res.Bytes.Up = float64(run.Bytes) / float64(run.Devices)
	}
	res.Bytes.Down = run.BytesDown()
	if p := j.Spec.Preset; p != nil {
		name := p.Name()
		res.Preset = &name
	}
	if pub := j.published(); pub != nil {
		res.Published = &result.Published{
			HR10: pub.HR10, NDCG10: pub.NDCG10, HR20: pub.HR20, Source: pub.Source,
			Protocol: pub.Protocol,
		}
	}
	for _, pub := range methods.PublishedSequences(j.Spec.Data, j.Spec.Protocol) {
		res.Literature = append(res.Literature, result.Published{
			Model: pub.Model, HR10: pub.HR10, NDCG10: pub.NDCG10, Source: pub.Source, Protocol: pub.Protocol,
		})
	}
	return res
}

// irregularUsers counts the users whose test item is also in their training rows, and those with
// fewer candidates than the protocol samples. Data that is generated user by user has none.
func irregularUsers(s *data.Split) (repeats, few int) {
	if _, in := s.Source.(*data.Set); !in {
		return 0, 0
	}
	var p data.Part
	for u := range s.Users() {
		s.User(u, &p)
		if p.Test != data.None && slices.Contains(p.Train, uint32(p.Test)) ||
			slices.ContainsFunc(p.Query, func(i uint32) bool { return slices.Contains(p.Train, i) }) {
			repeats++
		}
		if s.HeldOut() == nil && len(p.Candidates[1]) < s.Sampled {
			few++
		}
	}
	return repeats, few
}

// Rows returns the number of rows of a data set. For data that is generated user by user it is an
// estimate from the first users.
func Rows(src data.Source) int {
	n, users := 0, src.Users()
	if _, in := src.(*data.Set); !in {
		users = min(users, 2000)
	}
	var h data.History
	for u := range users {
		src.History(u, &h)
		n += len(h.Items)
	}
	return int(float64(n) * float64(src.Users()) / float64(max(users, 1)))
}

// finish writes the remaining files of the folder. result.json is last: it marks the run as finished.
func (j *Job) finish(run *sim.Run, split *data.Split, res *result.Result, drawn *result.Figures, out *folder) error {
	if out == nil {
		return nil
	}
	users := perUser(run, split)
	var table, page bytes.Buffer
	if err := result.WriteUsers(&table, users); err != nil {
		return err
	}
	if res.UserScores != nil {
		var scores bytes.Buffer
		if err := result.WriteUserScores(&scores, res.UserScores); err != nil {
			return err
		}
		if err := out.write(perUserReferencesFile, scores.Bytes()); err != nil {
			return err
		}
	}
	points, err := out.points()
	if err != nil {
		return err
	}
	if err := report.HTML(&page, []*result.Run{{
		Dir: filepath.Base(out.dir), Result: res, Points: points, Users: users,
		Figures: drawn,
	}}); err != nil {
		return err
	}
	b, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	if drawn != nil {
		figures, err := drawn.JSON()
		if err != nil {
			return err
		}
		if err := out.write(figuresFile, figures); err != nil {
			return err
		}
	}
	return errors.Join(
		j.keepModel(run, out),
		out.write(perUserFile, table.Bytes()),
		out.write(ReportFile, page.Bytes()),
		out.write(ResultFile, append(b, '\n')),
	)
}
