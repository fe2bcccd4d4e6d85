package leaderboard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/study/experiment"
)

// Told is a cell that is done, or that was refused or stopped.
type Told struct {
	Cell          *Cell
	Err           error // nil where it is kept; context.Canceled where somebody stopped it
	Done, Left    int
	Took, Elapsed time.Duration
}

// Run measures what has no file, several cells at a time, until all is done or the time
// is up. A cell that would not fit into the time that is left is not begun, one that is
// under way at the end is stopped, and both say so in Reason.
func (a *Agenda) Run(ctx context.Context) error {
	inner, cancel := ctx, context.CancelFunc(func() {})
	r := &runner{a: a, begin: time.Now()}
	if a.Minutes > 0 {
		r.budget = time.Duration(a.Minutes * float64(time.Minute))
		inner, cancel = context.WithTimeout(ctx, r.budget)
	}
	defer cancel()
	var wg sync.WaitGroup
	for range a.Parallel {
		wg.Go(func() {
			for c := r.next(inner); c != nil; c = r.next(inner) {
				begun := time.Now()
				k, err := c.run(inner, a)
				r.end(c, k, err, time.Since(begun))
			}
		})
	}
	wg.Wait()
	for _, c := range a.Left() {
		if c.Reason == "" && inner.Err() != nil {
			c.Reason, c.late = notBegun, true
		}
	}
	if ctx.Err() != nil {
		return &experiment.Stopped{Dir: a.Folder, Hint: "give the same command again to go on: cells that are done " +
			"are kept"}
	}
	return r.err
}

// notInTime is said of a cell that was begun and not finished.
const notInTime = "did not end in the time given"

// notBegun is said of one that would not have fitted into what was left of the time.
const notBegun = "not begun, since it would not have fitted into the time given"

// runner hands out cells; its calls come from several goroutines.
type runner struct {
	mu     sync.Mutex
	a      *Agenda
	begin  time.Time
	budget time.Duration // 0 is without a limit
	done   int
	err    error
	// guessed and took are seconds on one core of cells that were guessed before any
	// cell of their row was run: a slower machine is known by them.
	guessed, took float64
}

// slow is how many times as long as guessed cells take here. What is guessed at next to
// nothing says nothing.
func (r *runner) slow() float64 {
	if r.guessed < 1 {
		return 1
	}
	return max(1, r.took/r.guessed)
}

// next is the cheapest cell that fits, or nil.
func (r *runner) next(ctx context.Context) *Cell {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.a.Left() {
		if ctx.Err() != nil || r.err != nil {
			return nil
		}
		if c.Reason != "" {
			continue
		}
		wall := time.Duration(c.Guess / float64(r.a.Jobs) * float64(time.Second))
		if !c.known {
			wall = time.Duration(float64(wall) * r.slow())
		}
		if left := r.budget - time.Since(r.begin); r.budget > 0 && wall > left {
			c.Reason, c.late = notBegun, true
			continue
		}
		c.busy = true
		return c
	}
	return nil
}

func (r *runner) end(c *Cell, k *Kept, err error, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.busy = false
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		c.Reason, c.late, err = notInTime, true, errors.New(notInTime)
	case err != nil && r.err == nil && !errors.Is(err, context.Canceled):
		r.err = fmt.Errorf("%s: %w", c.Name(), err)
	case err == nil:
		c.Kept = k
		r.done++
		if k.Refused == "" {
			r.learn(c, took.Seconds()*float64(r.a.Jobs))
		}
	}
	r.a.Tell(Told{c, err, r.done, len(r.a.Left()), took, time.Since(r.begin)})
}

// learn takes what one seed took as the guess for the next.
func (r *runner) learn(c *Cell, took float64) {
	if !c.known {
		r.guessed, r.took = r.guessed+c.Guess, r.took+took
	}
	for _, other := range r.a.Cells {
		if other.row() == c.row() {
			other.Guess, other.known = took, true
		}
	}
}
