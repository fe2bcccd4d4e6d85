package coordinator

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// unpaid checks that no round has ended, that nothing was spent, and that the state has
// no numbers but those of rounds and attempts, which everybody knows.
func (r *harness) unpaid(state string) {
	r.t.Helper()
	st := r.c.Status()
	if st.Round != 0 || r.paid() != 0 || *st.Epsilon != 0 {
		r.t.Errorf("with nobody there, %d rounds are over and %d are paid for: epsilon %g", st.Round, r.paid(),
			*st.Epsilon)
	}
	if !strings.Contains(state, "round 1: ") || strings.Contains(state, "of 6") {
		r.t.Errorf("the state is %q", state)
	}
}

// absent waits for a state.
func (r *harness) absent(text string) {
	r.t.Helper()
	state := ""
	waitFor(r.t, text, func() bool { state = r.c.Status().Message; return strings.Contains(state, text) })
	r.unpaid(state)
}

// A sum of too few is thrown away and would be paid for: a round waits for enough.
func TestAbsentDevicesSpendNoBudget(t *testing.T) {
	t.Parallel()
	s := withDP(small(6), "epsilon=20,delta=1e-3,clip=0.5,min-devices=2")
	s.Rounds, s.Deadline, s.Minimum = 1, 100*time.Millisecond, 0.01
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.onlyEnrolled(6)
	r.absent("waiting for devices to check in")
	for i, h := range d[:2] {
		if i == 1 {
			r.c.progress.set(Training, "")
			r.absent("too few devices are active") // one is not enough
		}
		if fate, err := h.report(h.task()); err != nil || fate != pb.ReportState_COUNTED {
			t.Fatalf("%v, %v", fate, err)
		}
	}
	waitFor(t, "the end", func() bool { return r.c.Status().Round == 1 })
	if n := len(r.counted(0)); n != 2 || r.paid() != 1 {
		t.Errorf("%d are in the sum and %d rounds are paid for, want 2 and 1", n, r.paid())
	}
}

// A masked round that repeatedly has too few devices spends nothing either, and continues when they come.
func TestAbsentDevicesOfMaskedRoundsSpendNoBudget(t *testing.T) {
	t.Parallel()
	s := withDP(small(14), "epsilon=50,delta=1e-3,clip=0.5,min-devices=3")
	s.Masked, s.Rounds = true, 1
	up := make(chan time.Time)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.timer = func(time.Duration) (<-chan time.Time, func() bool) { return up, func() bool { return true } }
	})
	d := r.enrolled(14)
	for _, h := range d {
		h.check()
	}
	for tried := 1; tried <= attemptsInARow; tried++ {
		up <- time.Now() // nobody came
		if tried == 1 {
			r.absent("trying again")
		}
	}
	r.absent("waiting before the next")
	if n := r.c.Status().Counts["attempts_ended"]; n != attemptsInARow {
		t.Errorf("%d attempts have ended, want %d", n, attemptsInARow)
	}
	for _, h := range d { // on a slow machine they may be overdue by now
		h.check()
	}
	up <- time.Now()
	r.mask(d, -1)
	waitFor(t, "the end", func() bool { return r.c.Status().Round == 1 })
	if n := len(r.counted(0)); n != 14 {
		t.Errorf("%d are in the sum, want 14", n)
	}
}

// With independent draws a round must end with whoever came, also nobody: it does not
// begin while nobody comes at all.
func TestARoundOfIndependentDrawsWaitsForACheckIn(t *testing.T) {
	t.Parallel()
	s := withDP(small(6), "epsilon=50,delta=1e-3,clip=0.5")
	s.Cohort.Kind, s.Cohort.Share = "poisson", 0.5
	s.Rounds, s.Deadline, s.Minimum = 3, 100*time.Millisecond, 0.01
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.onlyEnrolled(6)
	for n := range 3 {
		r.waitState(WaitingForCheckIns)
		if st := r.c.Status(); st.Round != n || r.paid() != n {
			t.Fatalf("%d rounds are over and %d are paid for, want %d", st.Round, r.paid(), n)
		}
		d[n].check()
		waitFor(t, "the round", func() bool { return r.c.Status().Round == n+1 })
	}
}

// That a masked sum had enough devices tells of the draws.
func TestMasksWithPoissonCohortsAreRefused(t *testing.T) {
	s := withDP(small(14), "epsilon=50,delta=1e-3,clip=0.5")
	s.Masked = true
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	s.Cohort.Kind, s.Cohort.Share = "poisson", 0.5
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "--cohort 100") {
		t.Errorf("masks with independent draws: %v", err)
	}
}

// paid is how many lines of the ledger pay for releases of the run.
func (r *harness) paid() int { return len(r.c.budget.Paid(r.c.runHex())) }

func TestACohortLargerThanTheRunIsRefused(t *testing.T) {
	s := small(12)
	s.Cohort = round.Cohort{Kind: "cycle", Count: 13}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "must be at most devices = 12") {
		t.Errorf("13 of 12 devices: %v", err)
	}
	if s.Cohort.Count--; s.Check() != nil {
		t.Errorf("12 of 12 devices: %v", s.Check())
	}
}

// After a roll back, a round whose devices are absent draws another cohort.
func TestARoundOfAbsentDevicesIsDrawnAgainAfterARollback(t *testing.T) {
	s := small(8)
	s.Cohort = round.Cohort{Kind: "cycle", Count: 2}
	s.Deadline, s.Minimum, s.Deterministic = 100*time.Millisecond, 1, false
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(8)
	drawn := func() (in []uint32) {
		waitFor(t, "the round", func() bool { return r.c.Status().Expected == 2 })
		for _, h := range d {
			if h.check().GetTask() != nil {
				in = append(in, h.id)
			}
		}
		return in
	}
	first := drawn()
	for range 20 { // the same two of eight are drawn with a chance of 1 in 28: at most 1e-28 for all
		if _, err := r.admin.Rollback(context.Background(),
			r.c.Status().Version); err != nil {
			t.Fatal(err)
		}
		r.stop()
		r = open(t, dir, nil, nil)
		d = r.enrolled(8)
		if next := drawn(); !slices.Equal(first, next) {
			return
		}
	}
	t.Errorf("%v are drawn each time", first)
}

// Devices sleep while nothing is to do. A run that begins meanwhile spends no budget before half of those that are
// active have checked in, or are overdue, and nobody waits longer than half a deadline. The same holds after a
// pause and after a reset of the budget.
func TestARunWaitsForDevicesThatSleep(t *testing.T) {
	for _, cohort := range []round.Cohort{{Kind: "all"}, {Kind: "poisson", Share: 0.9}} {
		s := withDP(small(6), "epsilon=50,delta=1e-3,clip=0.5")
		s.Cohort, s.Rounds, s.Runs, s.Deadline = cohort, 1, 3, time.Minute
		clock := &fakeClock{now: time.Now()}
		ends := make(chan time.Time)
		r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
			o.Now = clock.get
			o.timer = func(time.Duration) (<-chan time.Time, func() bool) { return ends, func() bool { return true } }
		})
		enrolDirectly(t, r, 6)
		checkIn := func(ids ...uint32) {
			for _, id := range ids {
				r.c.devices.Seen(id, r.c.now(), r.c.after(r.c.now()))
			}
			r.c.requests.notify()
		}
		sleep := func() { // devices that were told to come in an hour
			for id := range uint32(6) {
				r.c.devices.Seen(id, r.c.now(), time.Hour)
			}
			clock.mu.Lock()
			clock.now = clock.now.Add(time.Minute)
			clock.mu.Unlock()
		}
		end := func() {
			t.Helper()
			waitFor(t, "the round", func() bool { return r.c.collection.OpenRound() != nil })
			if cohort.Kind != "all" {
				ends <- time.Now()
			} else {
				open := r.c.collection.OpenRound()
				for id := range uint32(6) {
					update := wire.AppendUpdate(nil, vector(id, 0, uint64(r.c.plan.UpdateLength(0)+1)))
					_ = open.Add(id, uint64(id)+1, update) // some are not in the cohort
				}
			}
			r.waitState(Finished)
		}
		waits := func() {
			t.Helper()
			r.waitState(WaitingForCheckIns)
			if after := r.c.after(r.c.now()); after > s.Deadline*5/8 {
				t.Errorf("%s: a device waits %v", cohort.Kind, after)
			}
			checkIn(0, 1)
			waitFor(t, "the message", func() bool { return strings.Contains(r.c.Status().Message, "2 of 3") })
			if r.c.collection.OpenRound() != nil || r.paid() != 0 {
				t.Errorf("%s: a round began without devices, or %d releases of the run are paid for", cohort.Kind,
					r.paid())
			}
		}
		r.waitState(WaitingForCheckIns) // all have enrolled, and nobody has checked in
		checkIn(0, 1, 2, 3, 4, 5)
		end()
		sleep()
		if err := r.c.BeginNext(); err != nil {
			t.Fatal(err)
		}
		waits()
		checkIn(4)
		end()
		sleep()
		if err := errors.Join(r.c.Pause(true), r.c.BeginNext()); err != nil {
			t.Fatal(err)
		}
		r.waitState(Paused)
		if err := r.c.Pause(false); err != nil {
			t.Fatal(err)
		}
		waits()
		clock.mu.Lock()
		clock.now = clock.now.Add(2 * time.Hour) // the others are overdue, and so are the two
		clock.mu.Unlock()
		waitFor(t, "another state", func() bool { checkIn(2, 3, 5); return r.c.Status().State == Training })
		end()
		r.stop()
	}
}

// Saved times of check-ins do not tell who is there: after a start, with a clock that was ahead or with a long
// deadline, a round waits for check-ins. Enrolments without a check-in do not delay those who are there.
func TestOnlyCheckInsSinceTheStartCount(t *testing.T) {
	t.Parallel()
	s := withDP(small(6), "epsilon=50,delta=1e-3,clip=0.5")
	s.Rounds, s.Minimum, s.Deadline = 3, 0.5, 20*time.Minute
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, func(o *Options) {
		o.Now = func() time.Time { return time.Now().Add(24 * time.Hour) }
	})
	r.play(r.enrolled(6), 1)
	if err := r.c.devices.SaveSeen(r.c.now(), true); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = open(t, dir, nil, nil)
	r.waitState(WaitingForCheckIns)
	if r.paid() != 1 || r.c.collection.OpenRound() != nil {
		t.Errorf("%d rounds are paid for, want 1; nobody is there", r.paid())
	}
	for i := range 10 {
		if _, err := r.newDevice(1000 + i).enrol(r.token); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range r.onlyEnrolled(6)[:3] {
		h.check()
	}
	waitFor(t, "the round", func() bool { return r.c.collection.OpenRound() != nil })
}
