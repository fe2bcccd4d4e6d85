package device

import (
	"context"
	mrand "math/rand/v2"
	"time"
)

// pausePoll is how often a paused device looks whether its owner has resumed it.
const pausePoll = 2 * time.Second

// Run steps until the context ends or nothing helps. tell hears of every step but the last
// one, whose error is returned: after any other it tries again. It may be nil.
func (d *Device) Run(ctx context.Context, tell func(StepResult, error)) error {
	pause := time.Second
	for {
		out, err := d.Step(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && fatal(err) {
			return err
		}
		if tell != nil {
			tell(out, err)
		}
		wait := out.After
		if err == nil {
			pause = time.Second
		} else {
			wait = max(wait, pause)
			pause = min(2*pause, 5*time.Minute)
		}
		if err := d.sleepUntil(ctx, wait+mrand.N(wait/8+1)); err != nil {
			return err
		}
	}
}

// sleepUntil sleeps until the next step: of a paused device no longer than until it is resumed,
// by whatever process. Nobody else is asked.
func (d *Device) sleepUntil(ctx context.Context, wait time.Duration) error {
	for d.record != nil && d.record.Paused && wait > pausePoll {
		if err := d.opt.Sleep(ctx, pausePoll); err != nil {
			return err
		}
		if wait -= pausePoll; d.refresh() != nil || !d.record.Paused {
			return nil // the next step says what is wrong with the record
		}
	}
	return d.opt.Sleep(ctx, wait)
}
