package board

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/lab"
)

// Told is a cell that is done, or that was refused or stopped.
type Told struct {
	Cell          *Cell
	Err           error // nil where it is kept
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
			c.Reason, c.late = "not begun when the time was up", true
		}
	}
	if ctx.Err() != nil {
		return &lab.Stopped{Dir: a.Folder, Hint: "give the same command again to go on: cells that are done are kept"}
	}
	return r.err
}

// runner hands out cells; its calls come from several goroutines.
type runner struct {
	mu     sync.Mutex
	a      *Agenda
	begin  time.Time
	budget time.Duration // 0 is without a limit
	done   int
	err    error
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
		if left := r.budget - time.Since(r.begin); r.budget > 0 && wall > left {
			c.Reason, c.late = "not begun, since it would not have fitted into the time that was left", true
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
		c.Reason, c.late = fmt.Sprintf("stopped after %s, when the time was up", rough(took)), true
	case err != nil && r.err == nil && !errors.Is(err, context.Canceled):
		r.err = fmt.Errorf("%s: %w", c.Name(), err)
	case err == nil:
		c.Kept = k
		r.done++
		for _, other := range r.a.Cells { // what one seed took is a better guess for the next
			if other.row() == c.row() && c.Kept.Refused == "" {
				other.Guess = took.Seconds() * float64(r.a.Jobs)
			}
		}
	}
	r.a.Tell(Told{c, err, r.done, len(r.a.Left()), took, time.Since(r.begin)})
}

func rough(d time.Duration) string {
	if d < 100*time.Second {
		return fmt.Sprintf("%.0f s", max(d.Seconds(), 0))
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
