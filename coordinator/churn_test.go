package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
)

// 8 of 12 devices are gone and 3 new ones have enrolled. Rounds used to wait for ever for the 12 devices that the
// run began with, and later devices never trained.
func TestTrainingContinuesWhenDevicesComeAndGo(t *testing.T) {
	t.Parallel()
	s := small(12)
	s.Rounds, s.Deadline = 6, 300*time.Millisecond
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(12)
	r.play(d, 1)
	present := slices.Clone(d[:4])
	for i := range 3 {
		h := r.newDevice(fmt.Sprint("new ", i))
		if a, err := h.enrol(r.token); err != nil || a.DeviceId != uint32(12+i) {
			t.Fatalf("%v, %v", a, err)
		}
		present = append(present, h)
	}
	r.play(present, 6)
	waitFor(t, "the end", func() bool { return r.c.Status().State == Finished })
	if got := r.counted(5); !slices.Equal(got, []uint32{0, 1, 2, 3, 12, 13, 14}) {
		t.Errorf("the last round has %v, expected the devices that are active, later ones too", got)
	}
}

// A round with a deadline of minutes ends when all devices have reported that are not gone: neither the
// one that was revoked nor the one that was in the last cohort and did not come is waited for.
func TestRoundsDoNotWaitForDevicesThatAreGone(t *testing.T) {
	t.Parallel()
	s := small(12)
	s.Rounds = 3
	timers := make(chan chan time.Time, 9)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.timer = func(time.Duration) (<-chan time.Time, func() bool) {
			ends := make(chan time.Time, 1)
			timers <- ends
			return ends, func() bool { return true }
		}
	})
	d := r.enrolled(12)
	present := append(slices.Clone(d[1:5]), d[6:]...) // 0 is revoked during the round, 5 is forgotten
	for _, h := range present {
		if fate, err := h.report(h.task()); err != nil || fate != pb.ReportState_COUNTED {
			t.Fatalf("%v, %v", fate, err)
		}
	}
	if _, err := r.admin.Revoke(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	(<-timers) <- time.Now() // the deadline: device 5 was not heard of
	waitFor(t, "the first round", func() bool { return r.c.Status().Round == 1 })
	r.play(present, 3) // no deadline passes any more
	if got := len(r.counted(2)); got != 10 {
		t.Errorf("the last round has %d devices, expected 10", got)
	}
	waitFor(t, "the end", func() bool { return r.c.Status().State == Finished })
	if _, err := d[5].CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := r.c.devices.Active(r.c.now()); len(got) != 11 {
		t.Errorf("active devices: %v, expected all but the revoked one", got)
	}
}

// A device that leaves during a round is not waited for.
func TestARoundEndsWithoutADeviceThatLeaves(t *testing.T) {
	t.Parallel()
	s := small(4)
	s.Rounds = 1
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(4)
	for _, h := range d[:3] {
		if fate, err := h.report(h.task()); err != nil || fate != pb.ReportState_COUNTED {
			t.Fatalf("%v, %v", fate, err)
		}
	}
	if _, err := d[3].Leave(context.Background(), &pb.LeaveRequest{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end", func() bool { return r.c.Status().State == Finished })
	if got := r.counted(0); !slices.Equal(got, []uint32{0, 1, 2}) {
		t.Errorf("the round has %v", got)
	}
}

// A device that declines the task of a round gets no other in that round, and the round does not wait for it.
func TestARoundEndsWithoutADeviceThatDeclines(t *testing.T) {
	s := small(4)
	s.Rounds, s.Deadline = 1, time.Hour
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(4)
	for _, h := range d[:3] {
		if fate, err := h.report(h.task()); err != nil || fate != pb.ReportState_COUNTED {
			t.Fatalf("%v, %v", fate, err)
		}
	}
	task := d[3].task()
	decline := func(run []byte, round uint32) *pb.CheckInResponse {
		t.Helper()
		out, err := d[3].CheckIn(context.Background(), &pb.CheckInRequest{
			ModelVersion: task.ModelVersion, Declined: &pb.Declined{Kind: task.Kind, Run: run, Round: round},
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if decline(task.Run, 7).GetTask() == nil || decline([]byte("another run....."), 0).GetTask() == nil {
		t.Error("a task that is not that of the round was declined, and the round has no task for the device")
	}
	if out := decline(task.Run, task.Round); out.GetWait() == nil {
		t.Errorf("the device that declined is offered %v", out)
	}
	waitFor(t, "the end", func() bool { return r.c.Status().State == Finished })
	if got := r.counted(0); !slices.Equal(got, []uint32{0, 1, 2}) {
		t.Errorf("the round has %v", got)
	}
}

// A round whose devices check in but do not report is discarded after three deadlines. Others take their
// places before.
func TestARoundThatDevicesDoNotAnswerIsDiscarded(t *testing.T) {
	t.Parallel()
	s := small(4)
	s.Rounds, s.Deadline, s.Minimum, s.Cohort = 1, 100*time.Millisecond, 1, round.Cohort{Kind: "count", Count: 2}
	var events []Event
	var mu sync.Mutex
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.Event = func(e Event) { mu.Lock(); defer mu.Unlock(); events = append(events, e) }
	})
	d := r.enrolled(4)
	_, before := r.model()
	asked := map[uint32]bool{}
	waitFor(t, "the decision", func() bool {
		for _, h := range d {
			if h.check().GetTask() != nil {
				asked[h.id] = true
			}
		}
		return r.c.Status().Round == 1
	})
	waitFor(t, "the event", func() bool { mu.Lock(); defer mu.Unlock(); return len(events) == 1 })
	if _, after := r.model(); len(asked) != 4 || !events[0].Discarded || after != before {
		t.Errorf("%d devices were asked, expected 4; discarded: %v; the model is the same: %v", len(asked),
			events[0].Discarded, after == before)
	}
	if n := r.c.Status().Counts["rounds_discarded"]; n != 1 {
		t.Errorf("status counts %d discarded rounds, expected 1", n)
	}
}

// If no device is active, the coordinator says so and consumes no round.
func TestWithoutActiveDevicesNoRoundBegins(t *testing.T) {
	t.Parallel()
	s := small(2)
	s.Rounds = 2
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(2)
	r.play(d, 1)
	for _, h := range d { // the second round is open; both leave
		if _, err := h.Leave(context.Background(), &pb.LeaveRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
	r = open(t, r.dir, nil, nil)
	waitFor(t, "the state", func() bool { return r.c.Status().State == NoDevices })
	if n := r.c.Status().Round; n != 1 {
		t.Errorf("%d rounds are over, expected 1", n)
	}
	h := r.newDevice("another")
	if _, err := h.enrol(r.token); err != nil {
		t.Fatal(err)
	}
	r.play([]*testDevice{h}, 2)
}

// A round that no active device can end is abandoned when an operator pauses or ends its run.
func TestARoundWithoutDevicesIsAbandoned(t *testing.T) {
	t.Parallel()
	s := small(2)
	s.Rounds, s.Deadline = 3, 100*time.Millisecond
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(2)
	r.play(d, 1)
	waitFor(t, "the second round", func() bool { return r.c.collection.Open() != nil })
	for _, h := range d {
		if _, err := h.Leave(context.Background(), &pb.LeaveRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	r.waitState(NoDevices)
	if err := r.c.Pause(true); err != nil {
		t.Fatal(err)
	}
	r.waitState(Paused)
	if err := r.c.Pause(false); err != nil {
		t.Fatal(err)
	}
	r.waitState(NoDevices)
	if err := r.c.EndRun(); err != nil {
		t.Fatal(err)
	}
	r.waitState(Finished)
	if err := r.c.BeginNext(); err != nil || r.c.Status().RunNumber != 2 {
		t.Errorf("another run: %v", err)
	}
}

// With DP and a cohort of a fixed size, the accountant assumes that one of Devices devices is drawn with
// probability count/Devices: a round does not begin with fewer.
func TestAFixedSampleRequiresThePlannedPopulation(t *testing.T) {
	t.Parallel()
	s := withDP(small(6), "epsilon=50,delta=1e-3,clip=0.5")
	s.Rounds, s.Deadline, s.Cohort = 3, 200*time.Millisecond, round.Cohort{Kind: "count", Count: 3}
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(6)
	r.play(d, 1)
	if _, err := d[0].Leave(context.Background(), &pb.LeaveRequest{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the state", func() bool { return r.c.Status().State == WaitingForDevices })
	done := r.c.Status().Round // the second round may have begun before
	if text := r.c.Status().Message; text != "waiting for devices: 5 of 6" || r.paid() != done {
		t.Errorf("the message is %q; %d rounds are paid for, %d done", text, r.paid(), done)
	}
	h := r.newDevice("another")
	if _, err := h.enrol(r.token); err != nil {
		t.Fatal(err)
	}
	r.play(append(d[1:], h), 3)
	for t := range uint32(3) {
		if n := len(r.counted(t)); n > 3 {
			r.t.Errorf("round %d has %d devices", t+1, n)
		}
	}
}

// A device that leaves during an epoch and enrols again with another key takes part in the next epoch: the
// limit of participation that mechanism=tree assumes cannot be evaded. With its old key it is the same device.
func TestAReturningDeviceKeepsItsParticipationLimit(t *testing.T) {
	t.Parallel()
	s := coming(6, 2, 3, treeDP)
	s.Rounds, s.Deadline = 6, 300*time.Millisecond
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(6)
	r.play(d[:2], 1)
	for _, h := range d[:2] {
		if _, err := h.Leave(context.Background(), &pb.LeaveRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	again, other := r.newDevice(0), r.newDevice("device 1 with a new key")
	for _, h := range []*testDevice{again, other} {
		if _, err := h.enrol(r.token); err != nil {
			t.Fatal(err)
		}
	}
	if again.id != 0 || other.id != 6 {
		t.Fatalf("the devices return as %d and %d", again.id, other.id)
	}
	returned := []*testDevice{again, other}
	r.play(append(slices.Clone(d[2:]), returned...), 3)
	r.play(append(returned, d[2:]...), 6)
	for t := range uint32(3) {
		if in := r.counted(t); t > 0 && (slices.Contains(in, 0) || slices.Contains(in, 6)) {
			r.t.Errorf("round %d of the first epoch has %v", t+1, in)
		}
	}
	later := slices.Concat(r.counted(3), r.counted(4), r.counted(5))
	if !slices.Contains(later, 0) || !slices.Contains(later, 6) {
		t.Errorf("the second epoch has %v, expected devices 0 and 6 too", later)
	}
}

// A masked round whose devices check in but do not take part is discarded after three deadlines.
func TestAMaskedRoundThatDevicesDoNotAnswerIsDiscarded(t *testing.T) {
	t.Parallel()
	s := bareSmall(20)
	s.Masked, s.Rounds = true, 1
	up := make(chan time.Time)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.timer = func(time.Duration) (<-chan time.Time, func() bool) { return up, func() bool { return true } }
	})
	d := r.enrolled(20)
	_, before := r.model()
	waitFor(t, "the decision", func() bool {
		for _, h := range d {
			h.check()
		}
		select {
		case up <- time.Now():
		case <-time.After(10 * time.Millisecond):
		}
		return r.c.Status().Round == 1
	})
	if _, after := r.model(); after != before || r.c.Status().Counts["rounds_discarded"] != 1 {
		t.Errorf("the model is the same: %v; counts %v", after == before, r.c.Status().Counts)
	}
	if n := r.c.Status().Counts["attempts_ended"]; n != maxDeadlines*attemptsInARow {
		t.Errorf("%d attempts, expected %d", n, maxDeadlines*attemptsInARow)
	}
}

// Devices may go between the count of the active devices and the draw. A device is then still drawn with at
// most the rate that the guarantee claims.
func TestFewerDevicesAreNotDrawnMoreOften(t *testing.T) {
	s := withDP(small(8), "epsilon=50,delta=1e-3,clip=0.5")
	s.Cohort = round.Cohort{Kind: "count", Count: 4}
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.enrolled(4)
	const draws = 500
	drawn := map[uint32]int{}
	for i := range draws {
		for _, id := range r.c.draw(i, nil) {
			drawn[id]++
		}
	}
	for id, n := range drawn { // expected 250, with a standard deviation of 11
		if n < 180 || n > 320 {
			t.Errorf("device %d is in %d of %d cohorts, expected half", id, n, draws)
		}
	}
	if len(drawn) != 4 {
		t.Errorf("%d devices are drawn, expected 4", len(drawn))
	}
}
