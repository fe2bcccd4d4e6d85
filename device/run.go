package device

import (
	"context"
	mrand "math/rand/v2"
	"time"
)

// pausePoll is how often a paused device checks whether its owner has resumed it.
const pausePoll = 2 * time.Second

// Run steps until the context ends or an error occurs that no later step can fix. onStep, if not
// nil, is called after every other step, with its error; Run retries after such errors.
func (d *Device) Run(ctx context.Context, onStep func(StepResult, error)) error {
	pause := time.Second
	for {
		out, err := d.Step(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && fatal(err) {
			return err
		}
		if onStep != nil {
			onStep(out, err)
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

// sleepUntil sleeps until the next step, or until a paused device is resumed by any process.
func (d *Device) sleepUntil(ctx context.Context, wait time.Duration) error {
	for d.record != nil && d.record.Paused && wait > pausePoll {
		if err := d.opt.Sleep(ctx, pausePoll); err != nil {
			return err
		}
		wait -= pausePoll
		if d.refresh() != nil || !d.record.Paused {
			return nil // the next step returns the error
		}
	}
	return d.opt.Sleep(ctx, wait)
}
