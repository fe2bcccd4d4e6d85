package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/engine/round"
)

// Run waits for a run and for its devices, and trains until all rounds are run; then it
// waits for an operator. It returns when ctx is done, or at Close.
func (c *Coordinator) Run(ctx context.Context) error {
	c.running.Lock()
	defer c.running.Unlock()
	if c.life.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	select {
	case <-ctx.Done():
		return nil
	case <-c.ready:
	}
	if err := c.gather(ctx); err != nil {
		return quiet(err)
	}
	for {
		if err := c.between(ctx); err != nil {
			return quiet(err)
		}
		why := c.idle()
		if why == "" {
			err := c.oneRound(ctx)
			if c.spent = errors.Is(err, round.ErrBudgetSpent); err != nil && !c.spent {
				return quiet(err)
			}
			continue
		}
		c.say(why)
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
	}
}

// done is the state of a run that has had all of its rounds, and its last readout.
const done = "done"

// idle is why no round is run; empty where one is.
func (c *Coordinator) idle() string {
	switch {
	case c.barred != "":
		return c.barred
	case c.engine.Next >= c.settings.Rounds:
		return done
	case c.spent:
		return "the privacy budget is spent"
	}
	return ""
}

func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// gather waits until N devices are enrolled.
func (c *Coordinator) gather(ctx context.Context) error {
	for {
		n, changed := c.devices.Count()
		if n >= c.settings.Devices || c.engine.Next > 0 {
			return ctx.Err()
		}
		c.say(fmt.Sprintf("waiting for devices: %d of %d", n, c.settings.Devices))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// between does what may only be done between rounds: an operator's wishes.
func (c *Coordinator) between(ctx context.Context) error {
	for {
		if err := c.rollback(); err != nil {
			return err
		}
		if err := c.takeItems(); err != nil {
			return err
		}
		c.mu.Lock()
		paused := c.paused
		c.mu.Unlock()
		if !paused {
			return ctx.Err()
		}
		c.say("paused")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		}
	}
}

// oneRound runs a round, and has its outcome on disk before anybody hears of it.
func (c *Coordinator) oneRound(ctx context.Context) error {
	t := c.engine.Next
	start := c.now()
	c.mu.Lock()
	c.opened = start
	c.mu.Unlock()
	c.say(fmt.Sprintf("round %d of %d", t+1, c.settings.Rounds))
	c.freshKey()
	rep, err := c.engine.Step(ctx)
	if err != nil {
		return err
	}
	if err := c.point("stepped"); err != nil {
		return err
	}
	took := c.now().Sub(start)
	outcome := models.Outcome{
		Counted: rep.Devices + rep.Idle, Idle: rep.Idle, Cohort: rep.Devices + rep.Idle + rep.Dropped,
		Discarded: rep.Discarded, Seconds: took.Seconds(),
	}
	if err := c.keep(c.ending); err != nil {
		return err
	}
	c.took(t)
	r := c.settings.Readout
	reads := r > 0 && ((t+1)%r == 0 || t+1 == c.settings.Rounds)
	if reads { // with the round, so that none is forgotten
		if err := c.put("reading", t+1); err != nil {
			return err
		}
	}
	if err := c.save(outcome, false); err != nil {
		return err
	}
	if err := c.dropGroups(); err != nil {
		return err
	}
	c.mu.Lock()
	if c.pace == 0 {
		c.pace = took
	}
	c.pace = (3*c.pace + took) / 4
	c.mu.Unlock()
	ev := Event{
		Round: t + 1, Rounds: c.settings.Rounds, Version: c.models.Last(), Counted: outcome.Counted,
		Asked: outcome.Cohort,
		Kept:  outcome.Discarded, Seconds: took.Seconds(), Epsilon: c.epsilon(),
	}
	if reads {
		if ev.Readout, ev.Missed, err = c.readout(ctx, t); err == nil {
			err = c.put("reading", 0)
		}
		if err != nil {
			return err
		}
	}
	if c.opt.Event != nil {
		c.opt.Event(ev)
	}
	return nil
}

// point is where a test may have something go wrong.
func (c *Coordinator) point(name string) error {
	if c.opt.fault == nil {
		return nil
	}
	return c.opt.fault(name)
}

func (c *Coordinator) say(state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
}

// stir wakes the loop.
func (c *Coordinator) stir() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
