package coordinator

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
)

// Devices are paced: the more there are, the later each checks in again, and never all at once.
func TestCheckInsArePaced(t *testing.T) {
	t.Parallel()
	s := small(100)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) { o.CheckIns.Rate = 10 })
	for i := range 60 {
		if _, err := r.newDevice(i).enrol(r.token); err != nil {
			t.Fatal(err)
		}
	}
	h := r.newDevice(0)
	waitFor(t, "the count", func() bool { return r.c.devices.ActiveCount() == 60 })
	// 60 devices at 10 a second: 6 s, and a quarter more or less.
	lo, hi := uint32(1<<31), uint32(0)
	for range 40 {
		w := h.check().GetWait()
		lo, hi = min(lo, w.AfterMs), max(hi, w.AfterMs)
		if w.State != string(WaitingForDevices) {
			t.Fatalf("the state is %q", w.State)
		}
	}
	if lo < 4400 || hi > 7600 || hi-lo < 300 {
		t.Errorf("60 devices at 10 a second are told to come again in %d to %d ms", lo, hi)
	}
}

// checkInsPerSecond is how often a device that does what it is told checks in, over a time from when a state
// began.
func checkInsPerSecond(t *testing.T, state State, over time.Duration) float64 {
	t.Helper()
	s := small(12)
	s.Deterministic = false
	start := time.Now()
	now := start
	c, err := Open(Options{Dir: filepath.Join(t.TempDir(), "state"), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Begin(s, stock(10)); err != nil {
		t.Fatal(err)
	}
	c.progress.set(state, "")
	n := 0
	for ; now.Before(start.Add(over)); n++ {
		after := c.after(now)
		if most := c.opt.CheckIns.MaxInterval * 5 / 4; after > most {
			t.Fatalf("a device is told to check in after %v, the most is %v", after, most)
		}
		now = now.Add(after)
	}
	return float64(n) / over.Seconds()
}

// 11 of 12 devices waited for the last one and checked in 19 times a second each; when all rounds were done,
// every 2 s. Now a coordinator that waits hears of each device a few times in the first minute and less and
// less often afterwards, and an idle one every few minutes at most.
func TestIdleDevicesCheckInRarely(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		state State
		over  time.Duration
		most  float64
	}{
		{WaitingForDevices, time.Minute, 0.2},
		{WaitingForDevices, 24 * time.Hour, 0.0005},
		{Paused, time.Minute, 0.2},
		{Finished, time.Hour, 1.0 / 200},
		{BudgetSpent, 24 * time.Hour, 1.0 / 2000},
	} {
		if got := checkInsPerSecond(t, x.state, x.over); got > x.most {
			t.Errorf("%s for %v: %.5f check-ins per device and second, expected %.5f at most", x.state, x.over, got,
				x.most)
		}
	}
}

// openScheduled opens a coordinator with a run and the schedule daily@03:00, at a time that stands still.
func openScheduled(t *testing.T, now time.Time) *Coordinator {
	t.Helper()
	c, err := Open(Options{
		Dir: filepath.Join(t.TempDir(), "state"), Schedule: "daily@03:00", Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Begin(small(2), stock(10)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Between runs devices check in just after the next scheduled start.
func TestDevicesCheckInAfterAScheduledStart(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 2, 30, 0, 0, time.UTC)
	c := openScheduled(t, now)
	c.progress.set(BetweenRuns, "")
	for range 100 {
		if after := c.after(now); after < 30*time.Minute || after > 31*time.Minute {
			t.Fatalf("half an hour before the start a device is told to come after %v", after)
		}
	}
	now = now.Add(2 * time.Hour)
	if after := c.after(now); after > c.opt.CheckIns.MaxInterval*5/4 {
		t.Errorf("after the start a device is told to come after %v", after)
	}
}

// If sampling is claimed, round ends, events and answers to devices do not reveal the sample: a round ends when its
// deadline passes and not before, whichever devices are drawn, report, are slow or stay away.
func TestTimeRevealsNothingOfTheSample(t *testing.T) {
	t.Parallel()
	for name, cohort := range map[string]round.Cohort{
		"poisson":    {Kind: "poisson", Share: 0.5},
		"nobody":     {Kind: "poisson", Share: 0.02}, // often no device is drawn
		"fixed size": {Kind: "count", Count: 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := withDP(small(8), "epsilon=50,delta=1e-3,clip=0.5")
			s.Cohort, s.Rounds = cohort, 2
			timers, events := make(chan chan time.Time, 9), make(chan Event, 9)
			r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
				o.Event = func(e Event) { events <- e }
				o.timer = func(d time.Duration) (<-chan time.Time, func() bool) {
					if d != s.Deadline {
						t.Errorf("a round waits for %v, expected the deadline", d)
					}
					ends := make(chan time.Time, 1)
					timers <- ends
					return ends, func() bool { return true }
				}
			})
			d := r.enrolled(8)
			for n := range 2 {
				d[0].check() // without any check-in a round of independent draws does not begin
				deadline := <-timers
				waitFor(t, "the round", func() bool { return r.c.collection.OpenRound() != nil })
				reasons := map[string]bool{}
				waits := func(w *pb.Wait) {
					t.Helper()
					if reasons[w.GetReason()] = true; time.Duration(w.GetAfterMs())*time.Millisecond < s.Deadline/2 {
						t.Errorf("a device waits %d ms, expected about until the deadline", w.GetAfterMs())
					}
				}
				for i, h := range d {
					a := h.check()
					task := a.GetTask()
					if task == nil {
						waits(a.GetWait())
						continue
					}
					if n%2 == 1 && i%2 == 0 { // it stays away, or in other rounds all report
						continue
					}
					fate, err := h.report(task)
					if err != nil || fate != pb.ReportState_COUNTED {
						t.Fatalf("%v, %v", fate, err)
					}
					waits(h.check().GetWait())
				}
				if len(reasons) != 1 {
					t.Errorf("devices that are drawn, have reported or are not drawn are told %v", reasons)
				}
				time.Sleep(20 * time.Millisecond)
				if r.c.Status().Round != n {
					t.Fatalf("round %d has ended before its deadline", n+1)
				}
				deadline <- time.Now()
				if e := <-events; e.Round != n+1 || !e.Sampled || e.Counted != 0 || e.Cohort != 0 {
					t.Errorf("the event of round %d shows the sample: %+v", n+1, e)
				}
			}
		})
	}
}

// A masked round of a sample ends at its deadline too, when the sum has long been there.
func TestTimeRevealsNothingOfAMaskedSample(t *testing.T) {
	const n, count = 20, 15
	s := withDP(small(n), "epsilon=50,delta=1e-3,clip=0.5,min-devices=12")
	s.Masked, s.Cohort, s.Rounds = true, round.Cohort{Kind: "count", Count: count}, 1
	deadline := make(chan chan time.Time, 1)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.timer = func(d time.Duration) (<-chan time.Time, func() bool) {
			if d <= s.Deadline/2 { // a step of an attempt
				timer := time.NewTimer(d)
				return timer.C, timer.Stop
			}
			ends := make(chan time.Time, 1)
			deadline <- ends
			return ends, func() bool { return true }
		}
	})
	d := r.enrolled(n)
	waitFor(t, "the attempt", func() bool { return r.c.collection.LastAttempt() != nil })
	var drawn, others []*testDevice
	for _, h := range d {
		if h.check().GetTask() == nil {
			others = append(others, h)
		} else {
			drawn = append(drawn, h)
		}
	}
	if len(drawn) != count {
		t.Fatalf("%d devices have a task", len(drawn))
	}
	r.mask(drawn, -1)
	end := <-deadline
	for _, h := range others {
		w := h.check().GetWait()
		if time.Duration(w.GetAfterMs())*time.Millisecond < s.Deadline/2 {
			t.Errorf("device %d waits %d ms, expected about until the deadline", h.id, w.GetAfterMs())
		}
	}
	if r.c.Status().Round != 0 {
		t.Error("the round has ended before its deadline")
	}
	end <- time.Now()
	waitFor(t, "the end", func() bool { return r.c.Status().Round == 1 })
}

// A device waits about as long as a round should still take, and no longer than the round has
// taken so far where it is overdue: however few have come yet.
func TestDevicesWaitNoLongerThanARound(t *testing.T) {
	t.Parallel()
	s := small(4)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.enrolled(4)
	waitFor(t, "the round", func() bool { return r.c.collection.OpenRound() != nil })
	now := time.Now()
	for _, x := range []struct{ pace, took, most time.Duration }{
		{0, time.Second, time.Second},
		{2 * time.Second, 100 * time.Millisecond, 2 * time.Second},
		{2 * time.Second, 20 * time.Second, 20 * time.Second},
	} {
		r.c.progress.mu.Lock()
		r.c.progress.roundTime, r.c.progress.opened = x.pace, now.Add(-x.took)
		r.c.progress.mu.Unlock()
		for range 100 {
			if got := r.c.after(now); got > x.most {
				t.Errorf("%v into a round of %v: %v", x.took, x.pace, got)
			}
		}
	}
}

// If the clock is set, devices and the status follow the time of day, as the schedule does.
func TestDevicesFollowAClockThatIsSet(t *testing.T) {
	now := time.Date(2031, 5, 6, 2, 30, 0, 0, time.UTC)
	c := openScheduled(t, now)
	c.opt.wall = func() time.Time { return now.Add(-20*time.Minute + 24*time.Hour) } // 02:10 of the next day
	c.progress.set(BetweenRuns, "")
	if after := c.after(now); after < 50*time.Minute || after > 51*time.Minute {
		t.Errorf("50 minutes before the start a device is told to come after %v", after)
	}
	if next := c.Status().NextRun; next == nil || !next.Equal(time.Date(2031, 5, 7, 3, 0, 0, 0, time.UTC)) {
		t.Errorf("the next run starts at %v", next)
	}
}
