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

// Count is the number of devices, which is fixed for the run.
func (n *network) Count() int { return n.settings().Devices }

// Round opens a round, until enough devices have reported or its time is up.
func (n *network) Round(ctx context.Context, t round.Task) (round.Aggregate, round.Report, error) {
	cohort := slices.Clone(t.Cohort) // late requests still read it when the next one is drawn
	collect := n.plainRound
	if n.settings().Masked {
		collect = n.maskedRound
	}
	defer n.collection.Enter(nil)
	out, err := collect(ctx, t.Round, cohort, *t.Bound)
	n.closing = out.closed // the engine returns only the report
	return round.Aggregate{Integers: out.sum}, out.report, err
}

// collected is the outcome of a round.
type collected struct {
	sum    []int64
	report round.Report
	closed collection.Closed
}

// plainRound adds up reports that are not masked.
func (n *network) plainRound(ctx context.Context, t int, cohort []uint32, b privacy.Bound) (out collected, err error) {
	if err := n.waitForCheckIn(ctx, t); err != nil {
		return out, err
	}
	task := n.newTask(pb.Kind_TRAIN, t, n.plan.UpdateLength(t)+1, wire.EncodeBound(b, 0, 0, maxInteger(b)))
	expected, limit := len(cohort), 0
	if n.settings().Cohort.ByCheckIn() {
		limit = n.settings().Cohort.Count
		expected = min(expected, limit)
	}
	r, err := collection.OpenRound(collection.RoundConfig{
		Store: n.st, Log: n.logOf(task), Task: task, Cohort: cohort, Goal: n.goal(expected), Limit: limit,
		Hold: n.settings().Deadline / 2, Ends: n.now().Add(n.settings().Deadline),
	})
	if err != nil {
		return out, err
	}
	if err := n.collect(ctx, r, task, expected); err != nil {
		return out, err
	}
	sum, idle, closed := r.Result()
	closed.Rollbacks = n.rollbacks.count
	counted := len(closed.Devices)
	report := round.Report{Devices: counted - idle, Idle: idle, Dropped: expected - counted}
	return collected{sum, report, closed}, nil
}

// collect waits until an open round has its reports, and closes it.
func (n *network) collect(ctx context.Context, r *collection.Round, task *pb.Task, expected int) error {
	n.collection.Enter(r)
	defer n.collection.Uploads.Clear()
	defer r.Close()
	if n.goal(expected) == 0 {
		return nil
	}
	minimum := n.minimum(expected)
	deadline := time.NewTimer(n.settings().Deadline)
	defer deadline.Stop()
	for {
		select {
		case <-ctx.Done():
			n.collection.Enter(nil)
			return ctx.Err()
		case <-r.Full():
			return nil
		case <-deadline.C:
		}
		if r.Count() >= minimum || r.Exhausted() {
			return nil
		}
		n.progress.set(Training, n.tooFew(task, r.Count(), expected, minimum))
		r.Extend(n.now(), n.settings().Deadline)
		deadline.Reset(n.settings().Deadline)
	}
}

// waitForCheckIn waits until a device has checked in since the last round began. With independent
// draws a round without reports costs budget too, and which devices of a cohort are present is
// secret, so nothing else may be waited for. Which devices check in is not drawn.
func (n *network) waitForCheckIn(ctx context.Context, t int) error {
	if g := n.engine.Stack; g == nil || g.RequiredDevices() > 0 {
		return nil
	}
	poll := time.NewTicker(min(n.settings().Deadline/4, time.Second))
	defer poll.Stop()
	for {
		if checkIns := n.progress.counted(checkInCounter); checkIns > n.checkIns {
			n.checkIns = checkIns
			n.sayTraining(t)
			return nil
		}
		n.progress.set(Training, fmt.Sprintf("round %d: waiting for a device to check in", t+1))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
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
	if c.settings().DP.On() || expected == 0 {
		return expected
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

// eligible appends the devices that may still contribute in this epoch.
func (c *Coordinator) eligible(_ int, dst []uint32) []uint32 {
	return c.collection.Participation.Eligible(dst, c.settings().Devices)
}
