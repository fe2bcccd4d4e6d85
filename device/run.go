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
		if err != nil && d.fatal(err) {
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

// sleepSlice is how long a device sleeps at once. Timers stop while a computer is suspended; between two
// slices the device looks at the clock.
const sleepSlice = time.Minute

// sleepUntil sleeps until the next step, or until a paused device is resumed by any process. A clock that
// was set forward ends it early, which costs one check-in; one that was set back changes nothing.
func (d *Device) sleepUntil(ctx context.Context, wait time.Duration) error {
	start := d.opt.Now().Round(0) // without the monotonic clock
	for slept := time.Duration(0); slept < wait; {
		paused := d.record != nil && d.record.Paused
		slice := min(wait-slept, sleepSlice)
		if paused {
			slice = min(slice, pausePoll)
		}
		if err := d.opt.Sleep(ctx, slice); err != nil {
			return err
		}
		slept = max(slept+slice, d.opt.Now().Round(0).Sub(start))
		if paused && (d.refresh() != nil || !d.record.Paused) {
			return nil // the next step returns the error
		}
	}
	return ctx.Err()
}
