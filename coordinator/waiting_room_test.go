package coordinator

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// A masked round ends even if a device leaves each of its attempts. That device is excluded for the
// epoch: it assumes that its report counted.
func TestAMaskedRoundDoesNotWaitForDevicesThatLeave(t *testing.T) {
	for _, step := range []int{wire.StepAdvert, wire.StepReveal} {
		s := coming(9, 2, 4, treeDP)
		s.Masked, s.Deadline = true, time.Second
		r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
		d := r.enrolled(9)
		waitFor(t, "the lobby", func() bool { return r.c.Status().Expected == 2 })
		d[0].check()
		d[1].check()
		r.mask(d[:2], -1)
		waitFor(t, "the round", func() bool { return r.c.Status().Round == 1 })

		d[3].leaves, d[3].leavesAt = pb.Kind_TRAIN, step
		end := time.Now().Add(40 * s.Deadline)
		var wg sync.WaitGroup
		for _, h := range []*testDevice{d[0], d[2], d[3]} { // had its turn, stays, leaves
			wg.Go(func() {
				attempt := uint32(0)
				for r.c.Status().Round < 2 && time.Now().Before(end) {
					if task := h.check().GetTask(); task != nil && task.Round == 1 && task.Attempt != attempt {
						attempt = task.Attempt
						h.played(t, task, make([]int32, task.Length), nil)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		if st := r.c.Status(); st.Round != 2 {
			t.Fatalf("with a device that leaves before step %d, %d rounds are over, want 2: %s", step, st.Round,
				st.Message)
		}
		if in := r.counted(1); len(in) != 0 {
			t.Errorf("%v are in a round of one", in)
		}
		if why := d[2].check().GetWait().GetReason(); !strings.Contains(why, "has contributed") {
			t.Errorf("who stayed is told %q", why)
		}
		r.stop()
	}
}

// Who has sent, in these rounds, what is in no sum has had its turn, and a round to which nobody
// else comes ends.
func TestARoundDoesNotWaitForExcludedDevices(t *testing.T) {
	for _, masked := range []bool{false, true} {
		s := coming(6, 2, 3, treeDP)
		s.Masked, s.Deadline = masked, 300*time.Millisecond
		r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
		d := r.enrolled(6)
		waitFor(t, "the round", func() bool { return r.c.Status().Expected == 2 })
		r.c.mu.Lock()
		r.c.collection.Participation.Exclude(3)
		r.c.mu.Unlock()
		for end := time.Now().Add(30 * s.Deadline); r.c.Status().Round < 1 &&
			time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if task := d[3].check().GetTask(); task != nil {
				t.Fatalf("a device that was too late is asked: %v", task)
			}
		}
		if n := r.c.Status().Round; n < 1 {
			t.Errorf("masked=%v: the round waits on", masked)
		}
		r.stop()
	}
}
