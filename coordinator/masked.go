package coordinator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/coordinator/internal/masked"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// attemptsInARow may fail; then the round waits for a deadline, and other active devices take the places of
// those that are gone. A round that has waited for three deadlines with enough active devices is discarded. If
// too few are active it waits, since a round that is discarded still costs budget.
const attemptsInARow = 3

// holdCalls is how long a call of a masked round waits for what a device needs next. It is below the
// time that servers, clients and proxies commonly allow for a call.
const holdCalls = 20 * time.Second

// maskedRound attempts a masked sum until one succeeds, or until devices have revealed shares and no
// sum came out. Such a round is discarded: devices join no other attempt at it, because two sums
// over different devices would reveal one device's update.
func (n *network) maskedRound(ctx context.Context, t int, cohort []uint32, b privacy.Bound) (collected, error) {
	length := n.plan.UpdateLength(t) + 1
	task := n.newTask(pb.Kind_TRAIN, t, length, n.maskedBound(t, b))
	sum, err := masked.ReadSum(n.st, n.sumLog(task))
	if err != nil {
		return collected{}, err
	}
	if sum == nil {
		sum, cohort, err = n.attempts(ctx, task, cohort, b)
		if err != nil {
			return collected{}, err
		}
	}
	discarded := sum.Revealing
	if discarded {
		sum = &masked.Sum{Values: make([]int32, task.Length)}
	}
	out := n.closeMasked(task, cohort, sum)
	out.report.Discarded = out.report.Discarded || discarded
	return out, nil
}

// attempts returns a masked sum and the devices of the attempt that made it. The sum is empty if
// too few devices can take part, and Revealing if devices revealed shares without a sum.
func (n *network) attempts(ctx context.Context, task *pb.Task, cohort []uint32, b privacy.Bound) (
	*masked.Sum, []uint32, error,
) {
	empty := &masked.Sum{Values: make([]int32, task.Length)}
	byCheckIn := n.settings().Cohort.ByCheckIn()
	attendance := masked.NewAttendance()
	for tried, waited := 1, 0; ; tried++ {
		devices := n.admitted(cohort)
		if len(devices) < n.minDevices(pb.Kind_TRAIN) {
			return empty, cohort, nil
		}
		if here := n.activeOf(devices); tried > 1 && len(here) >= n.minDevices(pb.Kind_TRAIN) {
			devices = here // the sum needs a fraction of those that are invited
		}
		if byCheckIn {
			var err error
			devices, err = n.gather(ctx, devices, attendance)
			if err != nil {
				return nil, nil, err
			}
			if devices == nil {
				n.exclude(attendance, nil)
				return empty, nil, nil
			}
		}
		task.Attempt = n.nextAttempt()
		began := n.now()
		a, sum, err := n.attempt(ctx, task, devices, &b, func(s *masked.Sum) error {
			return s.Write(n.st, n.sumLog(task))
		})
		if !n.sampled() { // that a drawn device is overdue would reveal that it was drawn
			n.devices.Missed(devices, began, n.now())
		}
		if a != nil {
			a.Observe(attendance, masked.Failed(err))
		}
		if !byCheckIn {
			devices = cohort
		}
		if masked.Failed(err) {
			n.progress.count("attempts_ended", 1)
			if a != nil && a.Revealed() {
				n.exclude(attendance, nil)
				return &masked.Sum{Revealing: true}, devices, nil
			}
			if err := n.retry(ctx, int(task.Round), tried); err != nil {
				return nil, nil, err
			}
			if tried%attemptsInARow == 0 { // a deadline has passed
				cohort = n.refillMasked(task, cohort)
				if len(n.activeOf(n.admitted(cohort))) >= n.minDevices(pb.Kind_TRAIN) {
					waited++
				}
			}
			if waited == maxDeadlines {
				n.exclude(attendance, nil)
				return empty, cohort, nil
			}
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		n.collection.StepTime.Succeeded(n.now().Sub(began), n.settings().Deadline/2)
		n.exclude(attendance, sum.Devices)
		return sum, devices, nil
	}
}

// refillMasked gives the places of devices that are not active to others, if the privacy guarantee allows it.
func (n *network) refillMasked(task *pb.Task, cohort []uint32) []uint32 {
	if n.settings().Cohort.ByCheckIn() {
		return cohort
	}
	others := n.substitutes(int(task.Round), cohort, len(cohort)-len(n.activeOf(n.admitted(cohort))))
	if len(others) == 0 {
		return cohort
	}
	larger := slices.Concat(cohort, others)
	slices.Sort(larger)
	if err := n.collection.SaveCohort(n.logOf(task), larger); err != nil {
		n.opt.Warn(fmt.Sprintf("the cohort of round %d stays as it is: %v", task.Round+1, err))
		return cohort
	}
	return larger
}

// gather waits until enough devices for a masked round have checked in; nil if all devices that
// check in have contributed in this epoch.
func (n *network) gather(ctx context.Context, eligible []uint32, attendance *masked.Attendance) ([]uint32, error) {
	room := masked.NewWaitingRoom(eligible, n.settings().Cohort.Count, attendance)
	n.collection.Enter(room)
	enough := min(room.Limit(), n.minDevices(pb.Kind_TRAIN))
	devices, err := room.Gather(ctx, enough, n.settings().Deadline/2)
	if err != nil {
		n.collection.Enter(nil)
	}
	return devices, err
}

// exclude excludes devices that began a masked round and are not in its sum, for this epoch.
func (n *network) exclude(attendance *masked.Attendance, counted []uint32) {
	if !n.settings().Cohort.ByCheckIn() {
		return
	}
	for _, id := range attendance.Uncounted(counted) {
		n.collection.Participation.Exclude(id)
	}
}

// retry prepares another attempt. Devices read the message too: it does not say how many of them
// are present.
func (n *network) retry(ctx context.Context, t, tried int) error {
	n.collection.StepTime.Failed()
	if n.stopRequested() { // nothing was revealed
		return errAbandoned
	}
	if tried%attemptsInARow > 0 {
		n.progress.set(Training, fmt.Sprintf("round %d: too few devices for a masked sum; trying again", t+1))
		return ctx.Err()
	}
	n.progress.set(Training, fmt.Sprintf("round %d: too few devices for a masked sum in %d attempts; waiting before "+
		"the next", t+1, tried))
	timeout, stop := n.timer(n.settings().Deadline)
	defer stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout:
		return nil
	}
}

// closeMasked is the outcome of a round that has its masked sum.
func (n *network) closeMasked(task *pb.Task, cohort []uint32, sum *masked.Sum) collected {
	values := make([]int64, task.Length)
	for i, x := range sum.Values {
		values[i] = int64(x)
	}
	report := round.Report{
		Devices: len(sum.Devices), Dropped: len(cohort) - len(sum.Devices), Discarded: len(sum.Devices) == 0,
	}
	if n.settings().maskedOnly() { // the last number counts the devices with training data
		report.Devices = int(sum.Values[task.Length-1])
		report.Idle = len(sum.Devices) - report.Devices
	}
	return collected{values, report, n.closedBy(task, sum)}
}

func (c *Coordinator) closedBy(task *pb.Task, sum *masked.Sum) collection.Closed {
	return collection.Closed{
		Round: task.Round, Rollbacks: c.rollbacks.count, Attempt: sum.Attempt, Devices: sum.Devices,
		Digests: make([]uint64, len(sum.Devices)),
	}
}

// maskedBound is the bound of a masked round's task. Without a privacy guarantee devices add no
// noise, and the bound is the range of each slot.
func (n *network) maskedBound(t int, b privacy.Bound) *pb.Bound {
	g := n.engine.Stack
	if g == nil {
		return wire.EncodeBound(b, 0, 0, b.MaxInteger)
	}
	noise, countNoise := int64(0), int64(0)
	if g.Drawn {
		noise = g.NoiseShare(t)
		if g.Adaptive != "off" {
			countNoise = g.CountNoiseShare(t)
		}
	}
	return wire.EncodeBound(b, noise, countNoise, g.MaxInteger(t))
}

const sumSuffix = ".sum"

func (c *Coordinator) sumLog(task *pb.Task) string { return c.logOf(task) + sumSuffix }

// nextAttempt is a number that no attempt at a round had before, after a restart neither: a start of the
// coordinator begins 65,536 numbers after the one before.
func (c *Coordinator) nextAttempt() uint32 {
	c.attempts++
	return uint32(c.st.Epoch())<<16 + c.attempts
}

// minDevices is how many devices must be in a masked sum: as many as the privacy guarantee requires,
// and never fewer than devices agree to. An evaluation has no noise of devices.
func (c *Coordinator) minDevices(kind pb.Kind) int {
	n := c.settings().DP.MinMasked()
	if kind != pb.Kind_TRAIN {
		n = privacy.MinMaskedSum
	}
	if g := c.engine.Stack; g != nil {
		n = max(n, g.RequiredDevices())
	}
	return n
}

// attempt attempts a masked sum once. b is the bound of a training round. Devices learn that they
// are in the sum when keep has returned. The attempt is nil if it did not begin.
func (c *Coordinator) attempt(ctx context.Context, task *pb.Task, cohort []uint32, b *privacy.Bound,
	keep func(*masked.Sum) error,
) (*masked.Attempt, *masked.Sum, error) {
	sensitivity := 0.0
	if b != nil && !task.Bound.PerSlot {
		sensitivity = b.Sensitivity(int(task.Length) - 1)
	}
	cohort = c.admitted(cohort)
	if least := c.minDevices(task.Kind); len(cohort) < least {
		return nil, nil, fmt.Errorf("%w: %d, at least %d required", secagg.ErrTooFew, len(cohort), least)
	}
	a, err := masked.NewAttempt(masked.AttemptConfig{
		Task: task, Cohort: cohort, Model: sha256.Sum256(c.models.Signed().Body),
		Seed: c.groupSeed(), GroupSize: c.settings().GroupSize, MinDevices: c.minDevices(task.Kind),
		MinBits:     c.settings().Bits,
		Levels:      task.Bound.PerSlot && task.Bound.Max < c.plan.MaxInteger(),
		Sensitivity: sensitivity,
		StepTime:    c.collection.StepTime.Of(c.settings().Deadline / 2), PollEvery: c.pollEvery(len(cohort)),
		Hold: cmp.Or(c.opt.hold, holdCalls),
		Now:  c.now, Timer: c.timer, Count: c.progress.count,
		BeforeReveal: func() error { return c.noteRevealing(task) },
		BitsExceed:   func(s *masked.Sum) bool { return c.bitsExceed(task, s) },
		BeforeSum:    func() error { return c.fault("unmasking") },
	})
	if err != nil {
		return nil, nil, err
	}
	c.collection.EnterAttempt(a)
	defer c.collection.Uploads.Clear()
	sum, err := a.Run(ctx, keep)
	return a, sum, errors.Join(err, c.excludeLiars(task.Round, a.Liars()))
}

// admitted removes excluded devices from a cohort.
func (c *Coordinator) admitted(cohort []uint32) []uint32 {
	return slices.DeleteFunc(slices.Clone(cohort), func(id uint32) bool { return c.devices.Barred(id) != "" })
}

// activeOf removes the devices that are overdue from a cohort.
func (n *network) activeOf(cohort []uint32) []uint32 {
	active := n.devices.Active(n.now())
	return slices.DeleteFunc(slices.Clone(cohort), func(id uint32) bool {
		_, found := slices.BinarySearch(active, id)
		return !found
	})
}

// excludeLiars excludes devices that broke the protocol in a round. The coordinator has seen the proof
// in their own messages.
func (c *Coordinator) excludeLiars(round uint32, liars map[uint32]string) error {
	for id, reason := range liars {
		if err := c.devices.Exclude(id, fmt.Sprintf("in round %d it %s", round+1, reason)); err != nil {
			return err
		}
		c.progress.count("excluded", 1)
	}
	return nil
}

// bitsExceed reports whether the clipping bits of a group's sum are more than its devices can make them.
// Unless devices add noise, the sum is exact.
func (c *Coordinator) bitsExceed(task *pb.Task, s *masked.Sum) bool {
	g := c.engine.Stack
	if g == nil || task.Kind != pb.Kind_TRAIN || g.Adaptive == "off" {
		return false
	}
	return !g.PlausibleBits(int(task.Round), len(s.Devices), int64(s.Values[len(s.Values)-1]))
}

// noteRevealing writes to disk that devices are about to reveal shares.
func (c *Coordinator) noteRevealing(task *pb.Task) error {
	switch task.Kind {
	case pb.Kind_TRAIN:
		return (&masked.Sum{Attempt: task.Attempt, Revealing: true}).Write(c.st, c.sumLog(task))
	case pb.Kind_COUNT:
		return c.evaluations.SetCounted()
	}
	return nil
}
