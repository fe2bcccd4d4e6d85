package device

import (
	"context"
	mrand "math/rand/v2"
	"time"
)

// look is how often a paused device looks whether its owner has resumed it.
const look = 2 * time.Second

// Run steps until the context ends or nothing helps. tell hears of every step but the last
// one, whose error is returned: after any other it tries again. It may be nil.
func (d *Device) Run(ctx context.Context, tell func(Told, error)) error {
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
		if err := d.await(ctx, wait+mrand.N(wait/8+1)); err != nil {
			return err
		}
	}
}

// await sleeps until the next step: of a paused device no longer than until it is resumed,
// by whatever process. Nobody else is asked.
func (d *Device) await(ctx context.Context, wait time.Duration) error {
	for d.rec != nil && d.rec.Paused && wait > look {
		if err := d.opt.Sleep(ctx, look); err != nil {
			return err
		}
		if wait -= look; d.refresh() != nil || !d.rec.Paused {
			return nil // the next step says what is wrong with the record
		}
	}
	return d.opt.Sleep(ctx, wait)
}
