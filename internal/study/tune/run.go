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
)

const (
	keepOne   = 3 // of so many trials one goes on to the next rung
	finalists = 3 // so many at least run to the end, and with every seed
)

// rungs are the numbers of rounds at which trials are compared, the last one being
// all of them. They lie on evaluated rounds.
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

// item is one trial that has to come to a round.
type item struct {
	trial  int
	seed   uint64
	from   int // rounds that it has had
	rounds int
	spec   *experiment.Spec // nil where the settings do not fit together
	err    error
}

func (s *Search) item(trial int, seed uint64, from, rounds int) item {
	it := item{trial: trial, seed: seed, from: from, rounds: rounds}
	var given []experiment.Setting
	for i, v := range s.points[trial] {
		given = append(given, experiment.Setting{Key: s.Axes[i].Key, Value: v, From: fmt.Sprintf("trial %d", trial)})
	}
	given = append(given, experiment.Setting{Key: "seed", Value: fmt.Sprint(seed)}, experiment.Setting{
		Key:   "seeds",
		Value: "1",
	})
	it.spec, it.err = s.Base.With(given)
	return it
}

// draft is the log's line for an item before it has run.
func (s *Search) draft(it item) Trial {
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

// Run searches to the end, or until ctx is done: then the rounds in progress are
// finished and saved, and the error is Stopped.
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
	s.splits = map[uint64]*data.Split{}
	steps := rungs(s.Search, len(s.points), s.Base.Rounds, s.Base.EvalEvery)
	s.meter = meter{tell: s.Tell, at: Progress{Rungs: len(steps)}}
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
		var items []item
		for _, trial := range alive {
			items = append(items, s.item(trial, s.Base.Seed, from, rounds))
		}
		got, err := s.rung(ctx, items, s.planned(steps[k:], len(alive), from))
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
		var items []item
		for _, trial := range s.survivors(last, finalists) {
			for i := range uint64(s.Base.Seeds - 1) {
				items = append(items, s.item(trial, s.Base.Seed+1+i, 0, s.Base.Rounds))
			}
		}
		more, err := s.rung(ctx, items, len(items)*s.Base.Rounds)
		if err != nil {
			return nil, err
		}
		res.repeat(more)
	}
	return res, s.judge(res)
}

// planned is how many rounds n trials will run on the rungs ahead if none diverges.
func (s *Search) planned(steps []int, n, from int) int {
	all := 0
	for _, r := range steps {
		all += n * (r - from)
		n, from = min((n+keepOne-1)/keepOne+1, n), r
	}
	return all + min(finalists+1, len(s.points))*(s.Base.Seeds-1)*s.Base.Rounds
}

// best sorts trials by value, of equals the first.
func best(ts []Trial) []Trial {
	out := slices.Clone(ts)
	slices.SortStableFunc(out, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(b.value(), a.value()), cmp.Compare(a.Trial, b.Trial))
	})
	return out
}

// survivors are the n best trials, and trial 0, by which the gain is told; those
// without a value never go on.
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

// rung brings items to their rounds, as many at a time as there are jobs. Lines are
// logged in the order of the items.
func (s *Search) rung(ctx context.Context, items []item, planned int) ([]Trial, error) {
	out := make([]Trial, len(items))
	s.meter.rung(len(items), planned)
	logged, err := s.replay(items, out)
	if err != nil {
		return nil, err
	}
	left := len(items) - logged
	workers := min(s.Jobs, left)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ready, next := make([]bool, len(items)), logged
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1
	}
	for range workers {
		wg.Go(func() {
			for i := take(); i < len(items) && ctx.Err() == nil; i = take() {
				t, err := s.try(ctx, items[i], max(1, s.Jobs/left))
				mu.Lock()
				if err == nil {
					out[i], ready[i] = t, true
					s.meter.ended(items[i], t)
				}
				for ; err == nil && logged < len(items) && ready[logged]; logged++ {
					err = s.log.append(out[logged])
				}
				mu.Unlock()
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return out, context.Cause(ctx)
}

// replay takes the items that are logged from the log, readies the splits of the
// others, and returns how many were logged.
func (s *Search) replay(items []item, out []Trial) (int, error) {
	n := 0
	for ; n < len(items); n++ {
		old, err := s.log.replay(s.draft(items[n]))
		if err != nil {
			return n, err
		}
		if old == nil {
			break
		}
		out[n] = *old
		s.meter.replayed(items[n], *old)
	}
	for _, it := range items[n:] {
		if err := s.split(it.seed); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (s *Search) split(seed uint64) error {
	if s.splits[seed] != nil {
		return nil
	}
	p, err := data.ProtocolNamed(s.Base.Protocol)
	if err != nil {
		return err
	}
	p.Apart = s.Base.NewUsers
	split, err := data.NewSplit(s.Source, p, seed)
	if err != nil {
		return &experiment.Input{Err: err}
	}
	s.splits[seed] = split
	return nil
}

// meter keeps the progress; its calls may come from several trials at a time.
type meter struct {
	mu   sync.Mutex
	tell func(Progress)
	at   Progress
}

func (m *meter) do(f func(p *Progress)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.at)
	m.at.Rounds = min(m.at.Rounds, m.at.All)
	if m.tell != nil {
		m.tell(m.at)
	}
}

func (m *meter) rung(of, planned int) {
	m.do(func(p *Progress) { p.Rung, p.Done, p.Of, p.All, p.Best = p.Rung+1, 0, of, p.Rounds+planned, nil })
}

func (m *meter) round(trial int) {
	m.do(func(p *Progress) { p.Rounds, p.Trial = p.Rounds+1, trial })
}

// skipped counts rounds that were not run: of a checkpoint, or after the end.
func (m *meter) skipped(n int) { m.do(func(p *Progress) { p.Rounds += n }) }

func (m *meter) ended(it item, t Trial) {
	m.do(func(p *Progress) {
		p.Done, p.Trial = p.Done+1, it.trial
		if t.Status == ok && t.value() > bestOf(p.Best) {
			p.Best = &t
		}
	})
}

func (m *meter) replayed(it item, t Trial) {
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
