package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// network is the devices, as the round engine sees them.
type network struct{ *Coordinator }

var _ round.Devices = (*network)(nil)

// Count is the number of devices that the run was planned for: the fixed denominator of the accounting.
// Rounds draw from the devices that are active.
func (n *network) Count() int { return n.settings().Devices }

// Round opens a round, until enough devices have reported or its time is up.
func (n *network) Round(ctx context.Context, t round.Task) (round.Aggregate, round.Report, error) {
	defer n.collection.Enter(nil)
	cohort, err := n.keepCohort(t)
	if err != nil {
		return round.Aggregate{}, round.Report{}, err
	}
	collect := n.plainRound
	if n.settings().Masked {
		collect = n.maskedRound
	}
	began := n.now()
	if n.settings().Masked && n.sampled() { // devices that wait learn nothing of whether an attempt began
		n.collection.Enter(noTask{})
	}
	out, err := collect(ctx, t.Round, cohort, *t.Bound)
	if err == nil && n.settings().Masked {
		err = n.waitForDeadline(ctx, began)
	}
	n.closing = out.closed // the engine returns only the report
	return round.Aggregate{Integers: out.sum}, out.report, err
}

// keepCohort writes the cohort of a round to disk, or returns the one that a kill interrupted.
func (n *network) keepCohort(t round.Task) ([]uint32, error) {
	if n.settings().Cohort.ByCheckIn() { // it is not drawn
		return slices.Clone(t.Cohort), nil
	}
	log := n.logOf(n.newTask(pb.Kind_TRAIN, t.Round, 0, nil))
	cohort, begun, err := n.collection.LoadCohort(log)
	if begun || err != nil {
		return cohort, err
	}
	return slices.Clone(t.Cohort), n.collection.SaveCohort(log, t.Cohort)
}

// waitForDeadline delays the end of a round with a sample to a multiple of the deadline: when the drawn
// devices were ready would reveal which devices were drawn.
func (n *network) waitForDeadline(ctx context.Context, began time.Time) error {
	if !n.sampled() {
		return nil
	}
	deadline := n.settings().Deadline
	ends, stop := n.timer(deadline - n.now().Sub(began)%deadline)
	defer stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ends:
		return nil
	}
}

// noTask is a round in which no device has anything to do.
type noTask struct{}

func (noTask) Task(uint32, time.Time) *pb.Task { return nil }
func (noTask) Progress() (done, expected int)  { return 0, 0 }

// collected is the outcome of a round.
type collected struct {
	sum    []int64
	report round.Report
	closed collection.Closed
}

// plainRound adds up reports that are not masked.
func (n *network) plainRound(ctx context.Context, t int, cohort []uint32, b privacy.Bound) (out collected, err error) {
	task := n.newTask(pb.Kind_TRAIN, t, n.plan.UpdateLength(t)+1, wire.EncodeBound(b, 0, 0, maxInteger(b)))
	limit := 0
	if n.settings().Cohort.ByCheckIn() {
		limit = n.settings().Cohort.Count
	}
	r, err := collection.OpenRound(collection.RoundConfig{
		Store: n.st, Log: n.logOf(task), Task: task, Cohort: cohort, Limit: limit,
		Hold: n.settings().Deadline / 2, Ends: n.now().Add(n.settings().Deadline),
	})
	if err != nil {
		return out, err
	}
	discarded, err := n.collect(ctx, r, task)
	if err != nil {
		return out, err
	}
	sum, idle, closed := r.Result()
	closed.Rollbacks = n.rollbacks.count
	counted := len(closed.Devices)
	_, expected := r.Progress()
	report := round.Report{
		Devices: counted - idle, Idle: idle, Dropped: max(0, expected-counted), Discarded: discarded,
	}
	return collected{sum, report, closed}, nil
}

// maxDeadlines is how often a round may wait for more reports than it has. Then it is discarded.
const maxDeadlines = 3

// collect waits until an open round has its reports, and closes it. discarded reports that it has too few.
func (n *network) collect(ctx context.Context, r *collection.Round, task *pb.Task) (discarded bool, err error) {
	n.collection.Enter(r)
	defer n.collection.Uploads.Clear()
	defer r.Close()
	if len(r.Cohort()) == 0 && !n.sampled() { // that a sample is empty is secret too
		return false, nil
	}
	wait := &collecting{network: n, round: r, task: task, expected: len(r.Cohort()), began: n.now()}
	for {
		ended, err := wait.untilDeadline(ctx)
		if err != nil {
			n.collection.Enter(nil)
			return false, err
		}
		if ended || n.sampled() { // a sample is neither replaced nor waited for: its end would reveal it
			return false, nil
		}
		if closed, discarded := wait.decide(); closed {
			return discarded, nil
		}
		if wait.abandoned() {
			n.collection.Enter(nil)
			return false, errAbandoned
		}
	}
}

// collecting waits for the reports of a round.
type collecting struct {
	*network
	round    *collection.Round
	task     *pb.Task
	expected int       // devices of the cohort when the round began
	began    time.Time // when devices were first asked
	passed   int       // deadlines with active devices and too few reports
	active   []uint32  // when the goal was last set
	declined int       // devices that had declined the task then
}

// untilDeadline waits until the round has all reports that can come, or until its deadline. If sampling is
// claimed it always waits for the deadline.
func (w *collecting) untilDeadline(ctx context.Context) (ended bool, err error) {
	deadline, stop := w.timer(w.settings().Deadline)
	defer stop()
	full := w.round.Full()
	poll := time.NewTicker(min(w.settings().Deadline/8, time.Second/4))
	defer poll.Stop()
	if w.sampled() {
		full = nil
		poll.Stop()
	} else {
		w.setGoal()
	}
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-full:
			return true, nil
		case <-deadline:
			return false, nil
		case <-poll.C:
			if w.setGoal(); w.abandoned() {
				return false, errAbandoned
			}
		}
	}
}

// abandoned reports whether an operator ended or paused the run, and the active devices are too few to end the
// round. Its reports stay on disk until the run resumes or another one begins.
func (w *collecting) abandoned() bool {
	return w.stopRequested() && w.round.Count()+w.round.Awaited(w.devices.Active(w.now())) < w.least()
}

// setGoal lets the round end without the devices that are gone or have declined its task.
func (w *collecting) setGoal() {
	active := w.devices.Active(w.now())
	declined := w.round.DeclinedCount()
	if w.active != nil && declined == w.declined && len(active) == len(w.active) &&
		(len(active) == 0 || &active[0] == &w.active[0]) {
		return
	}
	w.active, w.declined = active, declined
	if w.round.Awaited(active) == 0 && w.round.Count() < w.least() { // nobody can come
		w.refill()
	}
	expected := w.round.Count() + w.round.Awaited(active)
	if limit := w.settings().Cohort.Count; w.settings().Cohort.ByCheckIn() {
		expected = min(expected, limit)
	}
	w.round.SetGoal(max(w.goal(expected), w.least()))
}

// least is the number of reports without which the round is discarded.
func (w *collecting) least() int {
	if s := w.settings(); s.Cohort.ByCheckIn() {
		return max(1, w.minimum(min(w.expected, s.Cohort.Count)))
	}
	return max(1, w.minimum(w.expected))
}

// refill gives the places of devices that have not reported to other active devices, if the privacy
// guarantee allows it.
func (w *collecting) refill() {
	others := w.substitutes(int(w.task.Round), w.round.Cohort(), len(w.round.Silent()))
	if len(others) == 0 {
		return
	}
	if !w.settings().Cohort.ByCheckIn() { // on disk first: after a kill their reports are in the cohort's log
		larger := slices.Concat(w.round.Cohort(), others)
		slices.Sort(larger)
		if err := w.collection.SaveCohort(w.logOf(w.task), larger); err != nil {
			w.opt.Warn(fmt.Sprintf("the cohort of round %d stays as it is: %v", w.task.Round+1, err))
			return
		}
	}
	w.round.Refill(others)
}

// decide ends a round at its deadline, or gives it another one: if it has too few reports, other active
// devices take the places of those that did not come, if the privacy guarantee allows it. A round that has
// waited for three deadlines is discarded. If no device is active the round waits, and so it does if too few
// are for a sum that would be discarded and cost budget all the same.
func (w *collecting) decide() (closed, discarded bool) {
	r := w.round
	expected := w.devices.Missed(r.Silent(), w.began, w.now())
	minimum := w.least()
	if r.Count() >= minimum || r.Exhausted() {
		return true, false
	}
	w.refill()
	active := w.devices.Active(w.now())
	costs := w.settings().DP.On() && !w.isTree()
	switch {
	case len(active) == 0:
		w.progress.set(NoDevices, fmt.Sprintf("round %d: no device is active: waiting for one to check in",
			w.task.Round+1))
	case costs && r.Count()+r.Awaited(active) < minimum:
		w.progress.set(WaitingForDevices, fmt.Sprintf("round %d: too few devices are active: waiting for others to "+
			"check in", w.task.Round+1))
	case w.passed == maxDeadlines-1:
		return true, true
	default:
		if !expected { // devices that were told to come later are waited for
			w.passed++
		}
		w.progress.set(Training, w.tooFew(w.task, r.Count(), w.expected, minimum))
	}
	r.Extend(w.now(), w.settings().Deadline)
	w.active = nil
	return false, false
}

// minimum is the number of reports without which a round does not end at its deadline. With DP a
// sum of fewer would be discarded and still cost budget.
func (c *Coordinator) minimum(expected int) int {
	if c.settings().DP.On() {
		return min(expected, c.engine.Stack.RequiredDevices())
	}
	return int(float64(expected) * c.settings().Minimum)
}

// goal is the number of reports with which a round ends before its deadline. With DP absent
// devices contribute zero, and the round waits for all until the deadline.
func (c *Coordinator) goal(expected int) int {
	if c.settings().DP.On() {
		return max(1, expected)
	}
	return max(1, min(expected, int(float64(expected)*c.settings().Goal+0.999999)))
}

func (c *Coordinator) newTask(kind pb.Kind, t, length int, b *pb.Bound) *pb.Task {
	return &pb.Task{
		Kind: kind, Run: c.runID(), Round: uint32(t), Bound: b, ModelVersion: c.models.Last(), Length: uint64(length),
	}
}

// maxInteger is the largest magnitude of an integer that a bound allows.
func maxInteger(b privacy.Bound) int64 {
	if b.MaxInteger > 0 {
		return b.MaxInteger
	}
	return max(int64(b.Levels)+1, privacy.BitLevels)
}

func (c *Coordinator) logOf(task *pb.Task) string {
	return collection.LogOf(c.runID(), c.rollbacks.count, task)
}

// tooFew says that a round waits for more reports. Devices read it too: under a privacy guarantee
// it does not say how many devices reported.
func (c *Coordinator) tooFew(task *pb.Task, reports, expected, minimum int) string {
	if c.settings().DP.On() {
		return fmt.Sprintf("round %d: too few reports; waiting for more", task.Round+1)
	}
	return fmt.Sprintf("round %d: %d of %d devices reported, at least %d must; waiting for more", task.Round+1,
		reports, expected, minimum)
}
