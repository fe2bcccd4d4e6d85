package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/coordinator/internal/catalogue"
	"github.com/tacit-rec/tacit/coordinator/internal/schedule"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// A federation has successive runs of the same devices. A run begins on demand or by a schedule, and
// only when the one before is over: all its rounds are done, its budget is spent, or an operator
// ended it. It starts from the last model, and its rounds count from 0 again.

// current is the newest run. It is not changed once it is visible.
type current struct {
	id        []byte
	number    int      // of the run in the federation, from 1
	settings  Settings // with which it trains
	given     Settings // as the operator wrote them
	continues bool     // it started from the model of the run before
	former    []string // IDs that it had before a restored folder gave it a higher number
	begun     time.Time
	earlier   []RunInfo // the oldest first
}

// has reports whether an ID is, or was, that of the run.
func (r *current) has(id string) bool {
	return id == fmt.Sprintf("%x", r.id) || slices.Contains(r.former, id)
}

// settings are those of the newest run. They must not be changed.
func (c *Coordinator) settings() *Settings { return &c.latest.Load().settings }

// runID is the ID of the newest run; nil before the first.
func (c *Coordinator) runID() []byte { return c.latest.Load().id }

// runHex is the ID of the newest run, as the ledger and versions name it.
func (c *Coordinator) runHex() string { return fmt.Sprintf("%x", c.runID()) }

// runNumber is the number of the newest run, from 1; 0 before the first.
func (c *Coordinator) runNumber() int { return c.latest.Load().number }

// beginInLoop begins another run, which only the loop may do. The loop does it while it is idle; if it does not run,
// the caller does it. While the machine keeps the coordinator from writing, the caller is told so at once.
func (c *Coordinator) beginInLoop(s *Settings, items []*pb.Item) error {
	do := func() error { return c.beginNext(s, items) }
	if c.running.TryLock() {
		defer c.running.Unlock()
		return do()
	}
	if state, _ := c.progress.get(); state == Training || state == Evaluating {
		return c.notOver()
	}
	done, next := make(chan error, 1), c.runNumber()+1
	commands := c.commands
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		if why := c.cannotWrite(); why != "" && commands == nil {
			return rpc.Refuse(rpc.Delayed, connect.CodeUnavailable, "run %d begins when this is over: %s", next, why)
		}
		if err := c.refuseWrites(); err != nil && commands != nil {
			return err
		}
		select {
		case commands <- func() error { err := do(); done <- err; return fatal(err) }:
			commands = nil
			limit.Stop()
		case err := <-done:
			return err
		case <-c.life.Done():
			return errors.New("the coordinator is stopping")
		case <-limit.C:
			return c.notOver()
		case <-poll.C:
		}
	}
}

// fatal is the error with which the loop must end; nil if it can continue after the error.
func fatal(err error) error {
	if errors.As(err, new(*beginError)) {
		return err
	}
	return nil
}

// notOver says why no run can begin.
func (c *Coordinator) notOver() error {
	return fmt.Errorf("%w (run %d, round %d of %d)", ErrBegun, c.runNumber(), c.models.Round()+1, c.settings().Rounds)
}

// beginNext begins another run. Only the loop calls it.
func (c *Coordinator) beginNext(given *Settings, items []*pb.Item) error {
	now := c.latest.Load()
	state, why := c.idle()
	switch {
	case state == Training && given != nil:
		return fmt.Errorf("%w: %s", c.notOver(), now.given.differs(given))
	case state == Training:
		return c.notOver()
	case state == Outdated:
		return errors.New(why)
	}
	s := now.given
	if given != nil {
		s = *given
		if err := s.Check(); err != nil {
			return err
		}
	}
	if err := c.checkPeriod(&s); err != nil {
		return err
	}
	b, pending, err := c.nextStart(s, items)
	if err != nil {
		return err
	}
	if err := c.writeStart(b); err != nil {
		return err
	}
	err = c.startRun(b)
	if err == nil {
		err = c.catalogue.Remove(pending)
	}
	if err != nil {
		return &beginError{err}
	}
	c.requests.notify()
	return nil
}

// beginError says that a run is on disk and could not start. It starts when the folder is opened again.
type beginError struct{ error }

func (e *beginError) Unwrap() error { return e.error }

// nextStart is what the next run starts with: the newest model, and a catalogue with all items that
// wait or are given.
func (c *Coordinator) nextStart(s Settings, items []*pb.Item) (b *start, pending int, err error) {
	pending = c.catalogue.Pending()
	all, features, err := c.catalogue.Next(pending)
	if err != nil {
		return nil, 0, err
	}
	if len(items) > 0 {
		merged, err := catalogue.Merge(all, items)
		if err != nil {
			return nil, 0, err
		}
		if all = merged.Catalogue; merged.Added > 0 && features != nil {
			features = nil // it has no values of the new items
		}
	}
	if features, err = s.nextFeatures(features, c.opt.Features, len(all.Items)); err != nil {
		return nil, 0, err
	}
	s.Features = nil
	run := c.newRun(c.runNumber()+1, s)
	run.earlier = c.withNewest()
	if !s.DP.On() { // a privacy guarantee is for a fixed number of devices
		run.settings.Devices = max(s.Devices, len(c.devices.Active(c.now())))
	}
	return &start{current: run, items: all, features: features, base: c.models.Newest()}, pending, nil
}

// nextFeatures are the features of a run: those that it is given, or otherwise those of the run before.
func (s *Settings) nextFeatures(before, opened *rows.Features, items int) (*rows.Features, error) {
	for _, f := range []*rows.Features{s.Features, before, opened} {
		if f == nil {
			continue
		}
		if out, err := s.publicFeatures(f, items); err == nil {
			return out, nil
		} else if f == s.Features {
			return nil, fmt.Errorf("features must cover the %d items of the catalogue in their order; add items with "+
				"tacit admin items: %w", items, err)
		}
	}
	return nil, nil
}

// EndRun ends the newest run after the round in progress. Another run can then begin.
func (c *Coordinator) EndRun() error {
	if !c.begun() {
		return errNoRun
	}
	if state, _ := c.progress.get(); state.Over() {
		return refusal(connect.CodeFailedPrecondition,
			fmt.Errorf("run %d is over already: tacit admin begin begins another one", c.runNumber()))
	}
	return c.requests.setEnd(c.runHex())
}

// CheckSchedule reports why a text cannot be Options.Schedule.
func CheckSchedule(text string) error {
	_, err := schedule.Parse(text)
	return err
}

// keepSchedule begins a run when the schedule says so. A start that is not possible is skipped.
func (c *Coordinator) keepSchedule() error {
	if !c.schedule.On() {
		return nil
	}
	due, upTo := c.schedule.Due(c.handled, c.timeOfDay())
	if due {
		err := c.beginNext(nil, nil)
		if fatal(err) != nil {
			return err
		}
		if err != nil {
			c.opt.Warn(fmt.Sprintf("the start scheduled for %s is skipped: %v", utc(upTo), err))
		}
	}
	if upTo.Equal(c.handled) {
		return nil
	}
	c.handled = upTo
	return c.st.PutJSON(handledKey, upTo)
}

// untilStart is how long the loop may sleep before it looks at the schedule again: the clock may be
// set at any time.
func (c *Coordinator) untilStart() time.Duration {
	const most = time.Minute
	if !c.schedule.On() {
		return most
	}
	return min(most, max(time.Second, c.schedule.Next(c.timeOfDay()).Sub(c.timeOfDay())))
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// afterRun is the state of a coordinator whose run is over.
func (c *Coordinator) afterRun(why string) (State, string) {
	if !c.schedule.On() {
		return Finished, why
	}
	return BetweenRuns, fmt.Sprintf("%s; run %d starts at %s", why, c.runNumber()+1,
		utc(c.schedule.Next(c.timeOfDay())))
}
