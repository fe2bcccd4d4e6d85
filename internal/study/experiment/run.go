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
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/sim"
)

// Job is an experiment and how to run it.
type Job struct {
	*Spec
	Source       data.Source
	Jobs         int
	Out          string // the run folder; empty for none
	Force        bool
	Resume       bool
	NoReferences bool
	Figures      bool // compute the figures of the report; only with a folder
	Version      string
	Commit       string

	OnEvent func(Event) // receives progress events, one call at a time; may be nil

	References *reference.Cache // shared by the reference rows of several runs; may be nil

	choice *result.Choice // set by ChooseSettings; nil if it did not choose
}

// Stopped is the error of a run that was interrupted. Dir is where it can be
// resumed, or empty.
type Stopped struct {
	Round int
	Dir   string
	Hint  string // how to go on, where that is not tacit run --resume
}

func (s *Stopped) Error() string {
	if s.Dir == "" {
		return fmt.Sprintf("stopped after round %d; nothing was kept", s.Round)
	}
	return fmt.Sprintf("stopped after round %d", s.Round)
}

// IdleError says that the protocol leaves most devices nothing to do, as the first round
// shows.
func (s *Spec) IdleError(ev sim.Event) error {
	if ev.Round != 1 || !s.Cohort.All() || ev.Idle <= ev.Devices+ev.Late+ev.Dropped {
		return nil
	}
	return AsInput(fmt.Errorf("under protocol %s %d devices have nothing to learn from and %d have: no train rows, or "+
		"no item left to draw as a negative", s.Protocol, ev.Idle, ev.Devices),
		"try --protocol deployed, which holds out one row of each user and hides nothing")
}

// Split prepares data for the experiment.
func (s *Spec) Split(src data.Source) (*data.Split, error) {
	protocol, err := data.ProtocolNamed(s.Protocol)
	if err != nil {
		return nil, AsInput(err, "")
	}
	protocol.Apart = s.NewUsers
	split, err := data.NewSplit(src, protocol, s.Seed)
	return split, AsInput(err, "")
}

// saveEvery is how often a run with a folder writes a checkpoint.
const saveEvery = 30 * time.Second

// Run runs the job to its end, or until ctx is done: then the round in progress is
// finished and saved, its evaluation is left to whoever resumes, and the error is Stopped.
func (j *Job) Run(ctx context.Context) (*result.Result, error) {
	if j.OnEvent == nil {
		j.OnEvent = func(Event) {}
	}
	if j.Resume && exists(filepath.Join(j.Out, ResultFile)) {
		done, err := result.Load(j.Out) // there is nothing to go on with
		if err != nil {
			return nil, AsInput(err, "")
		}
		return done.Result, j.same(done.Result)
	}
	start := time.Now()
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
	start = start.Add(-run.Total) // earlier sittings count
	j.OnEvent(Started{j, run, split})
	if j.Resume {
		j.OnEvent(Resumed{run.Measured()})
	}
	figures := j.figures(run, split)
	start = start.Add(figures.seen())
	if err := j.allRounds(ctx, run, out, figures, &start); err != nil {
		return nil, err
	}
	run.Total = time.Since(start)
	res := j.result(run, split)
	if res.Privacy, err = privacyOf(run); err != nil {
		return nil, err
	}
	if !j.NoReferences {
		if err := j.refer(ctx, run, res, split); err != nil {
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
	return f, f.resume(run, j.fingerprint())
}

// allRounds is rounds, and tells where a budget has ended them.
func (j *Job) allRounds(ctx context.Context, run *sim.Run, out *folder, figures *figures, start *time.Time) error {
	err := j.rounds(ctx, run, out, figures, start)
	if err == nil && run.Broke > 0 {
		j.OnEvent(BudgetSpent{run.Broke})
	}
	return err
}

// rounds runs what is left of the rounds. The time that figures take in between is
// taken out of the run's by moving its start.
func (j *Job) rounds(ctx context.Context, run *sim.Run, out *folder, figures *figures, start *time.Time) error {
	saved := time.Now()
	for !run.Done() {
		if ctx.Err() != nil {
			return j.stopped(ctx, run, out, ctx.Err())
		}
		ev, err := run.Step(ctx)
		run.Total = time.Since(*start)
		switch {
		case run.Pending != nil: // stopped while it was measured
			return j.stopped(ctx, run, out, err)
		case errors.Is(err, round.ErrSpent) && run.Selected > 0:
			return nil // a crash has cost what this round would have: what was measured last is reported
		case errors.Is(err, round.ErrSpent):
			return AsInput(err, "no round was evaluated: begin another run, with --force, more noise or a smaller "+
				"eval-every")
		case errors.Is(err, privacy.ErrClip):
			return AsInput(err, "without --as-printed, or with adaptive=geometric, the bound stays above zero")
		case errors.Is(err, sim.ErrDiverged):
			return AsInput(fmt.Errorf("round %d: %w", ev.Round, err), slower(param.Values(j.Params)))
		case err != nil:
			return err
		}
		before := figures.seen()
		if err := out.event(line{ev, figures.spectra(ev.Round)}); err != nil {
			return err
		}
		*start = start.Add(figures.seen() - before)
		j.OnEvent(RoundEnded{ev})
		if err := j.IdleError(ev); err != nil {
			return err
		}
		// a lost round costs
		if time.Since(saved) > saveEvery || run.Engine.Guard != nil && time.Since(saved) > saveEvery/10 {
			if err := out.checkpoint(run, j.fingerprint()); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
	return nil
}

// slower is a word to type against divergence.
func slower(params map[string]any) string {
	if _, eta := params["eta"]; eta && params["loss"] == "squared" {
		return "squared error has no bound on its gradient: for example lr=0.01 eta=10"
	}
	if lr, ok := params["lr"].(float64); ok && lr > 0 {
		return fmt.Sprintf("for example lr=%.2g", lr/10)
	}
	return "for example lr=0.01"
}

// stopped saves an interrupted run.
func (j *Job) stopped(ctx context.Context, run *sim.Run, out *folder, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if err := out.checkpoint(run, j.fingerprint()); err != nil {
		return err
	}
	return &Stopped{Round: run.Engine.Next, Dir: j.Out}
}

func (j *Job) result(run *sim.Run, split *data.Split) *result.Result {
	res := &result.Result{
		Method: j.Method, Dataset: j.Source.Info().Name, DataHash: j.Source.Info().Hash,
		Protocol: j.Protocol, Leaks: split.Leaks(), Seed: j.Seed, Rounds: j.Rounds, SelectedRound: run.Selected,
		DataSize: result.DataSize{
			Users: j.Source.Users(), Items: j.Source.Items(), Interactions: Rows(j.Source),
		},
		Params: param.Values(j.Params), Options: param.Values(&j.Options),
		Cost: result.Cost{
			Seconds: result.Seconds{
				Train: run.Train.Seconds(), Eval: run.Eval.Seconds(), Total: run.Total.Seconds(),
			},
			RoundMSMedian: run.MedianRoundMS(), PeakRSSBytes: peakRSS(),
		},
		Counts:  result.Counts{Dropped: run.Dropped, Late: run.Late},
		Version: j.Version, Commit: j.Commit,
	}
	res.Choice = j.choice
	res.IdleDevices, res.Central, res.LastRoundCounts = run.Idle, run.Fleet.Plan.Central(), run.Settled()
	res.TestItemsInTrain, res.FewCandidates = oddities(split)
	res.Valid, res.Test = run.Best.Summaries(j.TieRule(), j.Source.Items())
	res.NewUsers = j.newUsers(run, split)
	if c := run.OnTest; c != nil {
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
	return res
}

// oddities counts the users whose test item is also in their train rows, and those
// that are ranked against too few items. Of data that is generated user by user it
// counts none: there a user has no item twice.
func oddities(s *data.Split) (repeats, few int) {
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
		if s.Out() == nil && len(p.Against[1]) < s.Sampled {
			few++
		}
	}
	return repeats, few
}

// Rows is the number of rows of a data set; of one that is generated user by user
// an estimate from its first users.
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

// finish writes the folder's remaining files; result.json last, as the sign that
// the run is whole.
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
		var beside bytes.Buffer
		if err := result.WriteUserScores(&beside, res.UserScores); err != nil {
			return err
		}
		if err := out.write(perUserReferencesFile, beside.Bytes()); err != nil {
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
	var figures []byte
	if drawn != nil {
		if figures, err = drawn.JSON(); err != nil {
			return err
		}
		if err := out.write(figuresFile, figures); err != nil {
			return err
		}
	}
	return errors.Join(
		out.checkpoint(run, j.fingerprint()),
		out.write(perUserFile, table.Bytes()),
		out.write(ReportFile, page.Bytes()),
		out.write(ResultFile, append(b, '\n')),
	)
}
