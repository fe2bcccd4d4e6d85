// Package sweep runs many jobs: the trials of a search, the cells of a leaderboard, the rows of a
// paper's tables, the seeds of a run. It takes stored results, orders the remaining jobs, runs
// several at a time within a time limit, stores each result as soon as it is known and reports
// progress. It knows nothing about what a job computes, and it never changes a result.
//
// A sweep that was interrupted is resumed by running it again: stored jobs are not repeated.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Status is the state of a job.
type Status int

// The states of a job.
const (
	Waiting    Status = iota // not run yet, or interrupted
	Running                  // being run
	Stored                   // its result was stored by an earlier sweep
	Finished                 // run by this sweep
	Impossible               // Job.Skip says why
	NotStarted               // its estimated time exceeds what is left of the limit
	TimedOut                 // the limit ended while it ran
	Failed                   // Job.Err says why
)

// Job is one unit of work with a result of type R. The caller fills the first group of fields,
// the sweep the second.
type Job[R any] struct {
	Name   string  // unique, for people
	Group  string  // jobs of a group take equally long: the first one corrects the others' Cost
	Cost   float64 // estimated seconds on one core
	Weight float64 // jobs with a small Cost*Weight run first; equal ones run in the order of the list
	Skip   string  // why the job cannot be run; empty if it can

	Load  func() (result R, found bool, err error) // returns the stored result; nil if nothing is stored
	Run   func(ctx context.Context, cores int) (R, error)
	Store func(R) error // nil if Run stores its result itself, or nothing is stored

	Status Status
	Result R
	Err    error

	measured bool // Cost is the time that a job of the group took
	saved    bool // Store has succeeded
}

// Done reports whether the job has a result.
func (j *Job[R]) Done() bool { return j.Status == Stored || j.Status == Finished }

// Reason says why a job has no result; it is empty for one that has.
func (j *Job[R]) Reason() string {
	switch {
	case j.Done():
		return ""
	case j.Skip != "":
		return j.Skip
	case j.Status == NotStarted:
		return "not started: its estimated time exceeds the time left"
	case j.Status == TimedOut:
		return "did not finish within the time limit"
	case j.Err != nil:
		return j.Err.Error()
	}
	return "not run"
}

// Ended is the event of a job that ended: it is stored, finished, timed out, failed or interrupted.
type Ended[R any] struct {
	Job       *Job[R]
	Done      int // jobs with a result
	Left      int // jobs without one that are not running
	Took      time.Duration
	Elapsed   time.Duration // since the sweep started
	Remaining time.Duration // estimate, from the mean time of the jobs that this sweep ran
}

// Config says how jobs are run.
type Config[R any] struct {
	Parallel int           // jobs at a time; at least 1
	Cores    int           // goroutines of one job; at least 1
	Limit    time.Duration // of the whole sweep; 0 for none
	InOrder  bool          // store results in the order of the list, whichever job ends first
	// Typical reports whether the time of a result predicts that of its group; nil for all results.
	Typical func(R) bool
	// OnEnd receives an event for each stored job in New, and for each job that ends in Run, one
	// call at a time; nil for no events.
	OnEnd func(Ended[R])
}

// Sweep is a list of jobs and their progress.
type Sweep[R any] struct {
	Config[R]
	Jobs []*Job[R]

	mu    sync.Mutex
	begin time.Time
	ran   int // jobs that this sweep finished
	err   error
	// Estimates and times of jobs that were the first of their group: their ratio says how much
	// slower this machine is than the estimates assume.
	estimated, took float64
}

// New loads the stored results of the jobs, in the order of the list.
func New[R any](jobs []*Job[R], c Config[R]) (*Sweep[R], error) {
	c.Parallel, c.Cores = max(c.Parallel, 1), max(c.Cores, 1)
	if c.OnEnd == nil {
		c.OnEnd = func(Ended[R]) {}
	}
	s := &Sweep[R]{Config: c, Jobs: jobs, begin: time.Now()}
	for _, j := range jobs {
		if j.Skip != "" {
			j.Status = Impossible
		}
		if j.Load == nil {
			continue
		}
		result, found, err := j.Load()
		if err != nil {
			return nil, err
		}
		if found {
			j.Result, j.Status, j.saved = result, Stored, true
			s.OnEnd(s.ended(j, 0))
		}
	}
	return s, nil
}

// Left lists the jobs that have no result and are not running, in the order in which they run.
func (s *Sweep[R]) Left() []*Job[R] {
	var out []*Job[R]
	for _, j := range s.Jobs {
		if !j.Done() && j.Status != Running {
			out = append(out, j)
		}
	}
	slices.SortStableFunc(out, func(a, b *Job[R]) int { return cmp.Compare(a.Cost*a.Weight, b.Cost*b.Weight) })
	return out
}

// Done counts the jobs that have a result.
func (s *Sweep[R]) Done() int {
	n := 0
	for _, j := range s.Jobs {
		if j.Done() {
			n++
		}
	}
	return n
}

// Run runs the remaining jobs until all are done, the limit ends, a job fails or ctx is done. A
// failure cancels the jobs that are running; Run returns the first one. Jobs that do not fit into
// the limit are no failure: their Status says so.
func (s *Sweep[R]) Run(ctx context.Context) error {
	s.begin = time.Now()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if s.Limit > 0 {
		limited, stop := context.WithTimeout(inner, s.Limit)
		defer stop()
		inner = limited
	}
	var wg sync.WaitGroup
	for range s.Parallel {
		wg.Go(func() {
			for j := s.next(inner); j != nil; j = s.next(inner) {
				start := time.Now()
				result, err := j.Run(inner, s.Cores)
				if err := s.end(inner, j, result, err, time.Since(start)); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if s.err != nil {
		return s.err
	}
	if ctx.Err() == nil && inner.Err() != nil {
		for _, j := range s.Left() {
			if j.Status == Waiting {
				j.Status = NotStarted
			}
		}
	}
	return ctx.Err()
}

// next returns the first job that fits into the time that is left, or nil.
func (s *Sweep[R]) next(ctx context.Context) *Job[R] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.err != nil {
		return nil
	}
	for _, j := range s.Left() {
		if j.Status != Waiting || j.Err != nil {
			continue
		}
		if s.Limit > 0 && s.wall(j) > s.Limit-time.Since(s.begin) {
			j.Status = NotStarted
			continue
		}
		j.Status = Running
		return j
	}
	return nil
}

// wall estimates how long a job takes on this machine.
func (s *Sweep[R]) wall(j *Job[R]) time.Duration {
	seconds := j.Cost / float64(s.Cores)
	if !j.measured && s.estimated >= 1 { // estimates of next to nothing predict nothing
		seconds *= max(1, s.took/s.estimated)
	}
	return time.Duration(seconds * float64(time.Second))
}

// end records what came of a job, stores it and reports it. It returns the error that ends the sweep.
func (s *Sweep[R]) end(ctx context.Context, j *Job[R], result R, err error, took time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		j.Result, j.Status = result, Finished
		s.ran++
		s.learn(j, took.Seconds()*float64(s.Cores))
		err = s.store(j)
	} else {
		j.Err = err
	}
	expired := errors.Is(context.Cause(ctx), context.DeadlineExceeded)
	switch {
	case err == nil:
	case j.Status == Finished: // its result could not be stored
		j.Status, j.Err = Failed, err
	case s.Limit > 0 && expired && errors.Is(err, context.DeadlineExceeded):
		j.Status, err = TimedOut, nil
	case ctx.Err() != nil:
		j.Status = Waiting
	default:
		j.Status = Failed
	}
	if err != nil && s.err == nil {
		s.err = err
	}
	s.OnEnd(s.ended(j, took))
	return err
}

// store stores the job's result; in order, if the sweep asks for it.
func (s *Sweep[R]) store(j *Job[R]) error {
	save := func(j *Job[R]) error {
		j.saved = true
		if j.Store == nil {
			return nil
		}
		return j.Store(j.Result)
	}
	if !s.InOrder {
		return save(j)
	}
	for _, j := range s.Jobs {
		if !j.Done() {
			return nil
		}
		if j.saved {
			continue
		}
		if err := save(j); err != nil {
			return err
		}
	}
	return nil
}

// learn takes the time of a job as the estimate for the others of its group.
func (s *Sweep[R]) learn(j *Job[R], seconds float64) {
	if s.Typical != nil && !s.Typical(j.Result) {
		return
	}
	if !j.measured {
		s.estimated += j.Cost
		s.took += seconds
	}
	for _, other := range s.Jobs {
		if other == j || j.Group != "" && other.Group == j.Group {
			other.Cost, other.measured = seconds, true
		}
	}
}

func (s *Sweep[R]) ended(j *Job[R], took time.Duration) Ended[R] {
	e := Ended[R]{Job: j, Done: s.Done(), Left: len(s.Left()), Took: took, Elapsed: time.Since(s.begin)}
	if s.ran > 0 {
		e.Remaining = e.Elapsed / time.Duration(s.ran) * time.Duration(e.Left)
	}
	return e
}
