package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/sim"
)

func (s *Search) statePath(trial int, seed uint64) string {
	return filepath.Join(s.Out, stateDir, fmt.Sprintf("%d-%d.state", trial, seed))
}

// try runs one trial up to the round of its task and measures it on validation items. The run is
// created with all rounds of the search, so that schedules are those of a complete run.
func (s *Search) try(ctx context.Context, it task, jobs int) (Trial, error) {
	t := s.newTrial(it)
	if it.spec == nil {
		s.meter.skipped(it.rounds - it.from)
		return t, nil
	}
	split, err := s.split(it.seed)
	if err != nil {
		return t, err
	}
	start := time.Now()
	run, err := s.load(it, split, jobs)
	if err != nil {
		t.Status, t.Reason = refused, err.Error()
		s.meter.skipped(it.rounds - it.from)
		return t, nil
	}
	s.meter.skipped(run.RoundsRun() - it.from)
	for run.RoundsRun() < it.rounds {
		if ctx.Err() != nil {
			return t, errors.Join(context.Cause(ctx), s.save(it, run))
		}
		ev, err := run.Step(context.WithoutCancel(ctx))
		switch {
		case errors.Is(err, sim.ErrDiverged):
			t.Status, t.Reason = diverged, fmt.Sprintf("in round %d", ev.Round)
			t.Seconds = time.Since(start).Seconds()
			s.meter.skipped(it.rounds - run.RoundsRun() + 1)
			return t, nil
		case err != nil:
			return t, err
		}
		if err := it.spec.IdleError(ev); err != nil {
			return t, err
		}
		s.meter.round(it.trial)
	}
	if it.rounds < s.Base.Rounds { // it may advance to the next rung
		if err := s.save(it, run); err != nil {
			return t, err
		}
	}
	if s.watch != nil {
		s.watch(it, run)
	}
	valid, _ := run.Best.Summaries(it.spec.TieRule(), s.Source.Items()) // the second summary is of test items
	value := valid.Sampled[s.Objective]
	if s.Metric == "full" {
		value = valid.Full[s.Objective]
	}
	t.Status, t.Valid, t.Value, t.BestRound = ok, &valid, &value, run.Selected
	t.Seconds = time.Since(start).Seconds()
	return t, nil
}

// load creates a trial's run, from its checkpoint if there is a valid one. A checkpoint only saves
// time: without it, the rounds are run again with the same result.
func (s *Search) load(it task, split *data.Split, jobs int) (*sim.Run, error) {
	fresh := func() (*sim.Run, error) {
		return sim.New(it.spec.Params, split, it.spec.Options, it.seed, jobs)
	}
	run, err := fresh()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(s.statePath(it.trial, it.seed))
	if err != nil {
		return run, nil
	}
	defer f.Close()
	if err := run.Load(f, s.fingerprint(it.spec)); err != nil || run.RoundsRun() > it.rounds {
		return fresh()
	}
	return run, nil
}

func (s *Search) save(it task, run *sim.Run) error {
	return atomicfile.WriteTo(s.statePath(it.trial, it.seed),
		func(w io.Writer) error { return run.Save(w, s.fingerprint(it.spec)) })
}

func (s *Search) fingerprint(spec *experiment.Spec) string {
	return spec.Fingerprint(s.Source.Info().Hash)
}
