package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/sweep"
)

const (
	keepOne   = 3 // one of this many trials advances to the next rung
	finalists = 3 // at least this many trials run all rounds, with every seed
)

// rungs returns the numbers of rounds after which trials are compared; the last one is all rounds.
// Each is an evaluated round.
func rungs(search string, trials, rounds, every int) []int {
	out := []int{rounds}
	if search == "random" {
		return out
	}
	for share := keepOne; trials/share >= finalists; share *= keepOne {
		at := (rounds + share - 1) / share
		at = (at + every - 1) / every * every
		if at >= out[0] {
			break
		}
		out = slices.Insert(out, 0, at)
	}
	return out
}

// task is one trial and the round that it has to reach.
type task struct {
	trial  int
	seed   uint64
	from   int // rounds that earlier rungs ran
	rounds int
	spec   *experiment.Spec // nil if the settings are invalid
	err    error
}

func (s *Search) task(trial int, seed uint64, from, rounds int) task {
	it := task{trial: trial, seed: seed, from: from, rounds: rounds}
	var given []experiment.Setting
	for i, v := range s.points[trial] {
		given = append(given, experiment.Setting{Key: s.Axes[i].Key, Value: v, From: fmt.Sprintf("trial %d", trial)})
	}
	given = append(given, experiment.Pairs("", fmt.Sprint("seed=", seed), "seeds=1")...)
	it.spec, it.err = s.Base.With(given)
	return it
}

// newTrial returns the log entry of a task that has not run yet.
func (s *Search) newTrial(it task) Trial {
	t := Trial{Trial: it.trial, Seed: it.seed, Rounds: it.rounds, Params: map[string]any{}}
	if it.spec == nil {
		t.Status, t.Reason = refused, it.err.Error()
		for i, a := range s.Axes {
			t.Params[a.Key] = s.points[it.trial][i]
		}
		return t
	}
	t.Params = valuesOf(it.spec, s.Axes)
	t.Run = it.spec.Fingerprint(s.Source.Info().Hash)[:16]
	return t
}

// Run runs the search, or resumes it. When ctx is done, the trials in progress finish their round
// and save a checkpoint, and the error is Stopped.
func (s *Search) Run(ctx context.Context) (*Result, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	defer s.log.close()
	res, err := s.search(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, &Stopped{s.log.done, s.Out}
	}
	if err != nil {
		return nil, err
	}
	return res, errors.Join(s.finish(res), os.RemoveAll(filepath.Join(s.Out, stateDir)))
}

func (s *Search) search(ctx context.Context) (*Result, error) {
	steps := rungs(s.Search, len(s.points), s.Base.Rounds, s.Base.EvalEvery)
	s.meter = meter{report: s.OnProgress, at: Progress{Rungs: len(steps)}}
	if s.Base.Seeds > 1 {
		s.meter.at.Rungs++
	}
	res := s.result()
	alive := make([]int, len(s.points))
	for i := range alive {
		alive[i] = i
	}
	from := 0
	for k, rounds := range steps {
		var tasks []task
		for _, trial := range alive {
			tasks = append(tasks, s.task(trial, s.Base.Seed, from, rounds))
		}
		got, err := s.rung(ctx, tasks, s.planned(steps[k:], len(alive), from))
		if err != nil {
			return nil, err
		}
		res.add(got)
		if k < len(steps)-1 {
			alive = s.survivors(got, (len(alive)+keepOne-1)/keepOne)
		}
		from = rounds
	}
	last := res.last()
	if s.Base.Seeds > 1 {
		var tasks []task
		for _, trial := range s.survivors(last, finalists) {
			for i := range uint64(s.Base.Seeds - 1) {
				tasks = append(tasks, s.task(trial, s.Base.Seed+1+i, 0, s.Base.Rounds))
			}
		}
		more, err := s.rung(ctx, tasks, len(tasks)*s.Base.Rounds)
		if err != nil {
			return nil, err
		}
		res.repeat(more)
	}
	return res, s.judge(res)
}

// planned returns the number of rounds that n trials run on the remaining rungs if none diverges.
func (s *Search) planned(steps []int, n, from int) int {
	all := 0
	for _, r := range steps {
		all += n * (r - from)
		n, from = min((n+keepOne-1)/keepOne+1, n), r
	}
	return all + min(finalists+1, len(s.points))*(s.Base.Seeds-1)*s.Base.Rounds
}

// best sorts trials by value, and equal ones by number.
func best(ts []Trial) []Trial {
	out := slices.Clone(ts)
	slices.SortStableFunc(out, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(b.value(), a.value()), cmp.Compare(a.Trial, b.Trial))
	})
	return out
}

// survivors returns the n best trials, and trial 0, which the others are compared with. Trials
// without a value do not survive. The checkpoints of the others are removed.
func (s *Search) survivors(got []Trial, n int) []int {
	var out []int
	for i, t := range best(got) {
		if t.Status == ok && (i < n || t.Trial == 0) {
			out = append(out, t.Trial)
		}
	}
	slices.Sort(out)
	for _, t := range got {
		if !slices.Contains(out, t.Trial) {
			os.Remove(s.statePath(t.Trial, t.Seed))
		}
	}
	return out
}

// rung brings the tasks to their rounds, s.Jobs at a time. Trials are logged in the order of the
// tasks, and trials that the log already has are not run again.
func (s *Search) rung(ctx context.Context, tasks []task, planned int) ([]Trial, error) {
	s.meter.rung(len(tasks), planned)
	var jobs []*sweep.Job[Trial]
	at := map[*sweep.Job[Trial]]task{}
	for _, it := range tasks {
		j := &sweep.Job[Trial]{
			Name:  fmt.Sprintf("trial %d, seed %d", it.trial, it.seed),
			Load:  func() (Trial, bool, error) { return s.log.replay(s.newTrial(it)) },
			Run:   func(ctx context.Context, cores int) (Trial, error) { return s.try(ctx, it, cores) },
			Store: s.log.append,
		}
		jobs = append(jobs, j)
		at[j] = it
	}
	all, err := sweep.New(jobs, sweep.Config[Trial]{InOrder: true, OnEnd: func(e sweep.Ended[Trial]) {
		switch e.Job.Status {
		case sweep.Stored:
			s.meter.replayed(at[e.Job], e.Job.Result)
		case sweep.Finished:
			s.meter.ended(at[e.Job], e.Job.Result)
		}
	}})
	if err != nil {
		return nil, err
	}
	left := max(len(all.Left()), 1)
	all.Parallel, all.Cores = min(s.Jobs, left), max(1, s.Jobs/left)
	if err := all.Run(ctx); err != nil {
		return nil, err
	}
	var out []Trial
	for _, j := range jobs {
		out = append(out, j.Result)
	}
	return out, nil
}

// split returns the data split of a seed. Trials that run at the same time share it.
func (s *Search) split(seed uint64) (*data.Split, error) {
	s.splitting.Lock()
	defer s.splitting.Unlock()
	if split := s.splits[seed]; split != nil {
		return split, nil
	}
	p, err := s.Base.SplitProtocol()
	if err != nil {
		return nil, err
	}
	split, err := data.NewSplit(s.Source, p, seed)
	if err != nil {
		return nil, &experiment.InputError{Err: err}
	}
	if s.splits == nil {
		s.splits = map[uint64]*data.Split{}
	}
	s.splits[seed] = split
	return split, nil
}

// meter tracks the progress of trials that run at the same time.
type meter struct {
	mu     sync.Mutex
	report func(Progress)
	at     Progress
}

func (m *meter) do(f func(p *Progress)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.at)
	m.at.Rounds = min(m.at.Rounds, m.at.All)
	if m.report != nil {
		m.report(m.at)
	}
}

func (m *meter) rung(of, planned int) {
	m.do(func(p *Progress) { p.Rung, p.Done, p.Of, p.All, p.Best = p.Rung+1, 0, of, p.Rounds+planned, nil })
}

func (m *meter) round(trial int) {
	m.do(func(p *Progress) { p.Rounds, p.Trial = p.Rounds+1, trial })
}

// skipped counts rounds that are not run: those of a checkpoint, and those after a trial failed.
func (m *meter) skipped(n int) { m.do(func(p *Progress) { p.Rounds += n }) }

func (m *meter) ended(it task, t Trial) {
	m.do(func(p *Progress) {
		p.Done, p.Trial = p.Done+1, it.trial
		if t.Status == ok && t.value() > bestOf(p.Best) {
			p.Best = &t
		}
	})
}

func (m *meter) replayed(it task, t Trial) {
	n := it.rounds - it.from
	m.do(func(p *Progress) { p.Rounds, p.Replayed = p.Rounds+n, p.Replayed+n })
	m.ended(it, t)
}

func bestOf(t *Trial) float64 {
	if t == nil {
		return math.Inf(-1)
	}
	return t.value()
}
