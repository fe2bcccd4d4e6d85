package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/store"
)

// Run waits for a run and its devices, and trains until all rounds are done; then it waits for an
// operator. It returns when ctx is done or Close is called.
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
	ended := make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(ctx, func() { c.releaseWrites(ended) })()
	var beside sync.WaitGroup
	var failed error
	beside.Go(func() { c.saveSeen(ctx) })
	beside.Go(func() {
		if failed = c.watch(ctx); failed != nil {
			cancel()
		}
	})
	err := c.loop(ctx)
	interrupted := ctx.Err() != nil && errors.Is(err, store.ErrInterrupted)
	cancel()
	beside.Wait()
	if failed != nil {
		c.noteEnd(failed)
		return failed
	}
	if errors.Is(err, context.Canceled) || interrupted {
		return nil
	}
	c.noteEnd(err)
	return err
}

// saveSeen writes when devices were last seen, from time to time and at the end. A failure does no harm.
func (c *Coordinator) saveSeen(ctx context.Context) {
	tick := time.NewTicker(10 * time.Minute)
	defer tick.Stop()
	for stops := false; !stops; {
		select {
		case <-ctx.Done():
			stops = true
		case <-tick.C:
		}
		if err := c.devices.SaveSeen(c.now(), stops); err != nil {
			c.opt.Warn(fmt.Sprintf("cannot save when devices were last seen: %v", err))
		}
	}
}

func (c *Coordinator) loop(ctx context.Context) error {
	for {
		if err := c.betweenRounds(ctx); err != nil {
			return err
		}
		state, message := c.idle()
		var changed <-chan struct{}
		if state == Training {
			state, message, changed = c.lacksDevices()
		}
		if state == Training {
			state, message = c.lacksCheckIns()
		}
		if state != Training {
			if err := c.rest(ctx, state, message, changed); err != nil {
				return err
			}
			continue
		}
		if err := c.oneRound(ctx); err != nil {
			return err
		}
	}
}

// rest sets a state in which no round can begin, and waits for something to do.
func (c *Coordinator) rest(ctx context.Context, state State, message string, changed <-chan struct{}) error {
	limit := c.untilStart()
	if state == WaitingForCheckIns { // counting a million devices takes 20 ms
		limit = max(20*time.Millisecond, time.Duration(c.devices.ActiveCount())*time.Microsecond)
	} else {
		c.awaited = time.Time{}
	}
	c.progress.set(state, message)
	return c.sleep(ctx, changed, limit)
}

// sleep waits for something to do: a request, a change, or the end of a time.
func (c *Coordinator) sleep(ctx context.Context, changed <-chan struct{}, limit time.Duration) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.requests.wake:
	case <-changed:
	case <-t.C:
	case do := <-c.commands:
		return do()
	}
	return nil
}

// idle is Training if another round can begin, and otherwise why not.
func (c *Coordinator) idle() (State, string) {
	if c.outdated() {
		return Outdated, c.outdatedMessage()
	}
	if c.engine.Next >= c.settings().Rounds {
		return c.afterRun("all rounds are done")
	}
	if c.requests.ends(c.runHex()) {
		return c.afterRun(fmt.Sprintf("an operator ended run %d after round %d", c.runNumber(), c.engine.Next))
	}
	if c.stopped != "" {
		return Stopped, c.stopped
	}
	if state, message := c.budgetState(); state != "" {
		return state, message
	}
	return Training, ""
}

// betweenRounds does what an operator asked for and what may only be done between rounds.
func (c *Coordinator) betweenRounds(ctx context.Context) error {
	for {
		for _, do := range []func() error{c.takeProof, c.takeReset, c.rollBack, c.keepSchedule, c.takeItems} {
			if err := do(); err != nil {
				return err
			}
		}
		if state, _ := c.idle(); state != Training || !c.requests.paused() {
			return ctx.Err()
		}
		if err := c.rest(ctx, Paused, "paused", nil); err != nil {
			return err
		}
	}
}

// oneRound runs a round, unless its budget is spent. It returns nil if the round is interrupted.
func (c *Coordinator) oneRound(ctx context.Context) error {
	this, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.setInterrupt(cancel)
	defer c.setInterrupt(nil)
	err := c.runRound(this)
	if c.spent = errors.Is(err, round.ErrBudgetSpent); c.spent {
		c.opt.Warn(fmt.Sprintf("the privacy budget is spent after round %d of %d; %s", c.engine.Next,
			c.settings().Rounds, resetHint))
		return nil
	}
	if err != nil && ctx.Err() == nil && (errors.Is(context.Cause(this), errInterrupted) ||
		errors.Is(err, errAbandoned)) {
		return nil
	}
	return err
}

// errAbandoned ends a round that waits for devices although an operator ended or paused its run.
var errAbandoned = errors.New("an operator ended or paused the run")

// stopRequested reports whether an operator ended or paused the run.
func (c *Coordinator) stopRequested() bool { return c.requests.paused() || c.requests.ends(c.runHex()) }

// setInterrupt sets how to end the round in progress.
func (c *Coordinator) setInterrupt(cancel context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupt = cancel; cancel != nil && c.shown != nil { // since takeProof
		cancel(errInterrupted)
	}
}

// runRound runs a round. Its outcome is on disk before anybody sees it.
func (c *Coordinator) runRound(ctx context.Context) error {
	t := c.engine.Next
	start := c.now()
	c.awaited = start
	c.progress.beginRound(start)
	c.admin.rounds.begin(start, c.totals())
	c.sayTraining(t)
	if err := c.beginEpoch(t); err != nil {
		return err
	}
	report, err := c.step(ctx, t)
	if err != nil {
		return err
	}
	if err := c.fault("stepped"); err != nil {
		return err
	}
	c.noteRejected(t, report.Rejected)
	if report.BitsIgnored {
		c.progress.count("clip_bits_ignored", 1)
	}
	took := c.now().Sub(start)
	outcome := models.Outcome{
		Counted: report.Devices + report.Idle, Idle: report.Idle,
		Cohort:    report.Devices + report.Idle + report.Dropped,
		Discarded: report.Discarded, Seconds: took.Seconds(),
	}
	if outcome.Discarded {
		c.progress.count("rounds_discarded", 1)
	}
	evaluates := c.settings().evaluatesAfter(t)
	if err := c.saveRound(t, outcome, evaluates); err != nil {
		return err
	}
	c.progress.endRound(took)
	c.admin.durations.rounds.Observe(took.Seconds())
	c.progress.count("rounds", 1)
	event := Event{
		Round: t + 1, Rounds: c.settings().Rounds, Version: c.models.Last(), Sampled: c.sampled(),
		Discarded: outcome.Discarded, Rejected: report.Rejected, Seconds: took.Seconds(),
		Epsilon: c.releases().epsilon(),
	}
	if !event.Sampled {
		event.Counted, event.Cohort = outcome.Counted, outcome.Cohort
	}
	c.noteRound(&event)
	if evaluates {
		event.Evaluation, event.EvaluationMissed, err = c.evaluate(ctx, t)
		if err == nil {
			err = c.evaluations.End()
		}
		if err != nil {
			return err
		}
	}
	if !evaluates && c.countsAfter(t) {
		why := ""
		if err := c.countItems(ctx, t); err != nil && !isSkipped(err, &why) {
			return err
		}
	}
	if c.opt.Event != nil {
		c.opt.Event(event)
	}
	return nil
}

// step computes the outcome of round t. With a privacy guarantee the ledger has a line of its own for it, so that
// the ledger of a copied folder differs from the first release on.
func (c *Coordinator) step(ctx context.Context, t int) (round.Report, error) {
	c.noise.Renew()
	lines := c.budget.Lines()
	report, err := c.engine.Step(ctx)
	if err != nil || c.engine.Stack == nil {
		return report, err
	}
	if c.isTree() {
		c.noise.NoteTree(c.engine.Stack.NoiseParts(t, 0))
	}
	if c.budget.Lines() == lines { // an earlier line has paid
		err = c.budget.Note()
	}
	return report, err
}

// saveRound writes the outcome of round t, and publishes its model.
func (c *Coordinator) saveRound(t int, outcome models.Outcome, evaluates bool) error {
	if c.settings().Deterministic {
		c.collection.History.Keep(collection.KeepAllLogs)
	}
	if err := c.collection.History.Add(c.closing); err != nil {
		return err
	}
	if err := c.fault("closed"); err != nil {
		return err
	}
	if c.settings().Cohort.ByCheckIn() {
		last := (t+1)%c.settings().Cohort.Every == 0
		c.collection.Participation.Close(c.closing.Devices, last)
	}
	if evaluates { // before the model is published, so that no evaluation is forgotten
		if err := c.evaluations.Begin(t + 1); err != nil {
			return err
		}
	}
	c.rankItems()
	if err := c.save(outcome, false); err != nil {
		return err
	}
	return c.collection.DropReports("")
}

// noteRejected counts a model that the engine rejected, and warns. Training continues.
func (c *Coordinator) noteRejected(t int, reason string) {
	if c.progress.reject(reason != ""); reason == "" {
		return
	}
	c.progress.count("models_rejected", 1)
	c.opt.Warn(fmt.Sprintf("round %d is discarded: %s. A device may be lying, or training diverges; the model of the "+
		"round before stays", t+1, reason))
}

// manyRejected is how many rejected models, one after the other, an operator should look at.
const manyRejected = 3

func (c *Coordinator) sayTraining(t int) {
	text := fmt.Sprintf("round %d of %d", t+1, c.settings().Rounds)
	if n := c.progress.rejectedInARow(); n >= manyRejected {
		text += fmt.Sprintf("; the last %d rounds were discarded because their models were implausible: a device lies "+
			"in every round, or the method diverges with these settings", n)
	}
	c.progress.set(Training, text)
}
