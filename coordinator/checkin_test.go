package coordinator

import (
	"context"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy"
)

// coming returns settings of a run whose devices choose when to check in: a number of devices per
// round, each at most once per epoch.
func coming(devices, count, every int, dp string) Settings {
	s := withDP(small(devices), dp)
	s.Cohort.Kind, s.Cohort.Count, s.Cohort.Every = "checkin", count, every
	s.Rounds, s.Minimum = 3*every, 0.01
	return s
}

const treeDP = "epsilon=100,delta=1e-3,clip=0.5,mechanism=tree"

// once checks that no device is in two sums of an epoch, and that no sum has more than its
// count; it is how many there are in each round.
func (r *harness) once(rounds, every, most int) (sizes []int) {
	r.t.Helper()
	last := map[uint32]int{}
	for round := range rounds {
		ids := r.counted(uint32(round))
		if sizes = append(sizes, len(ids)); len(ids) > most {
			r.t.Errorf("round %d has %d devices, want %d at most", round+1, len(ids), most)
		}
		for _, id := range ids {
			if before, again := last[id]; again && before/every == round/every {
				r.t.Errorf("device %d is in rounds %d and %d of one epoch", id, before+1, round+1)
			}
			last[id] = round
		}
	}
	return sizes
}

// The first who come are in a round; the others are told that it is full, and are in the
// next one.
func TestTheFirstDevicesToCheckInAreInTheRound(t *testing.T) {
	t.Parallel()
	s := coming(6, 2, 2, treeDP)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(6)
	a, b := d[4].task(), d[1].task()
	for _, h := range []*testDevice{d[0], d[2]} {
		if w := h.check().GetWait(); w == nil || !strings.Contains(w.Reason,
			"has enough devices; check in again later") {
			t.Errorf("a third device is told %v", w)
		}
	}
	if again := d[4].task(); again.Round != a.Round {
		t.Errorf("who has a place is given %v when it comes again", again)
	}
	for i, task := range map[int]*pb.Task{4: a, 1: b} {
		if fate, err := d[i].report(task); err != nil || fate != pb.ReportState_COUNTED {
			t.Fatalf("device %d: %v, %v", i, fate, err)
		}
	}
	waitFor(t, "the round", func() bool { return r.c.Status().Round == 1 })
	if got := r.counted(0); !slices.Equal(got, []uint32{1, 4}) {
		t.Errorf("the round has %v", got)
	}
	waitFor(t, "the next", func() bool {
		return strings.Contains(d[4].check().GetWait().GetReason(), "has contributed; its next round is 3 or later")
	})
	task := d[0].task()
	if _, err := d[1].report(task); err == nil { // it was not asked, and sends all the same
		t.Error("a device is counted twice in an epoch")
	} else {
		r.refused(err, "not_in_cohort")
	}
	r.play(d, s.Rounds)
	for round, n := range r.once(s.Rounds, 2, 2) {
		if n != 2 {
			t.Errorf("round %d has %d devices", round+1, n)
		}
	}
}

// More reports than a round takes are never in its sum, however they come.
func TestReportsBeyondTheLimitAreLate(t *testing.T) {
	t.Parallel()
	s := coming(12, 3, 2, treeDP)
	s.Deadline = 400 * time.Millisecond // a place is held for half of it
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(12)
	var tasks [12]*pb.Task
	for i := range 9 { // three, and three more when those have held their places for too long
		tasks[i] = d[i].task()
	}
	var wg sync.WaitGroup
	var fates [12]pb.ReportState
	for i := range 9 {
		wg.Go(func() {
			for range 1000 { // while the outcome is written nobody can say
				if fates[i], _ = d[i].report(tasks[i]); fates[i] != 0 {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	first := map[pb.ReportState]int{}
	for i := range 9 {
		if tasks[i].Round == 0 {
			first[fates[i]]++
		}
	}
	waitFor(t, "the round", func() bool { return r.c.Status().Round >= 1 })
	if n := len(r.counted(0)); n != first[pb.ReportState_COUNTED] || n > 3 || first[pb.ReportState_CLOSED] == 0 {
		t.Errorf("%d are in the sum; their fates were %v", n, first)
	}
	for i := range 9 { // a report that is in no sum was sent all the same: there is no second
		if tasks[i].Round == 0 && fates[i] == pb.ReportState_CLOSED && r.c.Status().Round < 2 {
			if task := d[i].check().GetTask(); task != nil && task.Round < 2 {
				t.Errorf("device %d is asked again in the epoch: %v", i, task)
			}
		}
	}
}

// A round that fewer come to ends at its deadline, and its sum is divided by the count all
// the same: the model moves by what they sent over N.
func TestAbsentDevicesCountAsZero(t *testing.T) {
	t.Parallel()
	values := func(n int) []float32 {
		s := coming(8, 4, 2, "noise=1e-9,delta=1e-3,clip=100,mechanism=tree")
		s.Rounds, s.Deadline = 1, 300*time.Millisecond
		r := open(t, filepath.Join(t.TempDir(), fmt.Sprint(n)), &s, nil)
		start := slices.Clone(r.c.engine.Value[0])
		for _, h := range r.enrolled(8)[:n] {
			task := h.task()
			task.Round = 0
			if fate, err := h.report(task); err != nil || fate != pb.ReportState_COUNTED {
				t.Fatalf("%v, %v", fate, err)
			}
		}
		waitFor(t, "the end", func() bool { return r.c.Status().Round == 1 })
		unit := float32(r.c.engine.Stack.Unit(0))
		for i, x := range r.c.engine.Value[0] {
			start[i] = (x - start[i]) / unit
		}
		return start
	}
	for _, n := range []int{1, 4} {
		got := values(n)
		sum := make([]float64, 21)
		for id := range uint32(n) {
			for i, x := range vector(id, 0, 21) {
				sum[i] += float64(x)
			}
		}
		for item := range 10 {
			for k := range 2 {
				want := sum[2*item+k] / 4
				// the noise has a deviation of 1 at least, over 4
				if x := float64(got[item*8+k]); x < want-6 || x > want+6 {
					t.Errorf("%d of 4 came: number %d of item %d moved by %.1f, want %.1f", n, k, item, x, want)
				}
			}
		}
	}
}

// A coordinator that is cut off at any point knows who had a turn: in no epoch is a device
// counted twice, and what was acknowledged is in a sum.
func TestParticipationSurvivesARestart(t *testing.T) {
	t.Parallel()
	s := coming(6, 2, 3, treeDP)
	s.Rounds, s.Deadline = 6, 300*time.Millisecond
	dir := filepath.Join(t.TempDir(), "state")
	k := &acks{by: map[[2]uint32]uint64{}}
	begin := &s
	for round := range s.Rounds {
		for _, point := range points {
			r := open(t, dir, begin, cutAt(point))
			begin = nil
			if r.c.Status().Round <= round && !r.live(r.enrolled(6), s.Rounds, k) {
				t.Fatalf("round %d was not cut off at %q", round+1, point)
			}
			r.stop()
		}
	}
	r := open(t, dir, nil, nil)
	r.live(r.enrolled(6), s.Rounds, k)
	r.once(s.Rounds, 3, 2)
	_, bits := r.model()
	r.judge(k, s.Rounds, bits)
	if r.paid() != 2 {
		t.Errorf("%d trees are paid for, want 2", r.paid())
	}
}

// Masks want to know who is there: the first who come wait for each other.
func TestTheFirstDevicesToCheckInMaskTheirSum(t *testing.T) {
	t.Parallel()
	const count = privacy.MinMaskedGroup
	s := coming(2*count+1, count, 2, treeDP)
	s.Masked, s.Rounds, s.Deadline = true, 2, 4*time.Second
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(s.Devices)
	for round, in := range [][]*testDevice{d[count : 2*count], d[:count]} {
		waitFor(t, "the waiting room", func() bool {
			return r.c.Status().Round == round && r.c.Status().Expected == count
		})
		for _, h := range append(slices.Clone(in), d[2*count]) { // the last comes too late
			if task := h.check().GetTask(); task != nil {
				t.Errorf("device %d is asked before all are there", h.id)
			}
		}
		r.mask(in, -1)
		waitFor(t, "the round", func() bool { return r.c.Status().Round == round+1 })
	}
	for round, n := range r.once(s.Rounds, 2, count) {
		if n != count {
			t.Errorf("round %d has %d devices", round+1, n)
		}
	}
}

// If all devices that check in have contributed in the epoch, a round ends with the reports that it has: it was
// paid for with its tree.
func TestARoundDoesNotWaitForDevicesThatNeverCheckIn(t *testing.T) {
	t.Parallel()
	for _, masked := range []bool{false, true} {
		count, deadline := 2, 300*time.Millisecond
		if masked {
			count, deadline = privacy.MinMaskedGroup, time.Second
		}
		s := coming(3*count, count, 3, treeDP)
		s.Masked, s.Rounds, s.Deadline = masked, 4, deadline
		r := open(t, filepath.Join(t.TempDir(), fmt.Sprint(masked)), &s, nil)
		d := r.enrolled(3 * count)
		for round := range 2 {
			in := d[count*round : count*round+count]
			if masked {
				waitFor(t, "the lobby", func() bool {
					in[0].check()
					return r.c.Status().Round == round &&
						r.c.Status().Expected == count
				})
				for _, h := range in {
					h.check()
				}
				r.mask(in, -1)
			} else {
				for _, h := range in {
					if fate, err := h.report(h.task()); err != nil || fate != pb.ReportState_COUNTED {
						t.Fatalf("%v, %v", fate, err)
					}
				}
			}
			waitFor(t, "the round", func() bool { return r.c.Status().Round == round+1 })
		}
		paid := r.paid()
		waitFor(t, "the end of the epoch", func() bool { d[0].check(); return r.c.Status().Round > 2 })
		if in := r.counted(2); len(in) != 0 || r.paid() != paid {
			t.Errorf("%v are in the last round, and %d trees are paid for instead of %d", in, r.paid(), paid)
		}
		if task := d[0].check().GetTask(); !masked && task == nil {
			waitFor(t, "the next epoch", func() bool { return d[0].check().GetTask() != nil })
		}
		r.stop()
	}
}

// Devices never answer an older round than their last: where they choose themselves, a run that
// went back would be declined by all of them, and nobody goes back.
func TestARunByCheckInIsNotRolledBack(t *testing.T) {
	t.Parallel()
	s := coming(6, 2, 2, "none")
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.play(r.enrolled(6), 3)
	_, err := r.admin.Rollback(context.Background(), 2)
	if err == nil || !strings.Contains(err.Error(), "tacit admin begin") {
		t.Errorf("going back: %v", err)
	}
	r.refused(err, "not_now")
}

// A version without its participants is incomplete. The versions that remain are older than the
// published one, and a run with mechanism=tree cannot be rolled back.
func TestLostParticipationEndsATree(t *testing.T) {
	t.Parallel()
	s := coming(6, 2, 3, treeDP)
	s.Deterministic = false
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.play(r.enrolled(6), 2)
	r.stop()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var lost store.Hash
	if _, err := hex.Decode(lost[:], []byte(r.c.models.Newest().Participants)); err != nil {
		t.Fatal(err)
	}
	if err := st.DropBlob(lost); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir, nil, nil)
	waitFor(t, "the end", func() bool { return strings.Contains(r.c.Status().Message, "tacit admin begin") })
}

// Nor does it wait for those who come and send nothing: a device that declines, fails or lies is
// given the task again and again. It may keep a round open for a deadline, and no longer.
func TestARoundDoesNotWaitForDevicesThatNeverReport(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} { // also where nobody else comes
		s := coming(6, 2, 3, treeDP)
		s.Rounds, s.Deadline = 4, 200*time.Millisecond
		r := open(t, filepath.Join(t.TempDir(), fmt.Sprint(all)), &s, nil)
		d := r.enrolled(6)
		r.play(d[:4], 2)
		come := d[4:]
		if all {
			come = d
		}
		var had int
		for end := time.Now().Add(patience); r.c.Status().Round < 3 &&
			time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			for _, h := range come {
				if h.check().GetTask() != nil {
					had++
				}
			}
		}
		if n := r.c.Status().Round; n < 3 || had == 0 {
			t.Fatalf("%d rounds are over, want 3; the task was given %d times", n, had)
		}
		if in := r.counted(2); len(in) != 0 {
			t.Errorf("%v are in a round to which nobody sent", in)
		}
		r.stop()
	}
}
