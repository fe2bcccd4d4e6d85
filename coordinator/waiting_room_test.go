package coordinator

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// A masked round ends even if a device leaves each of its attempts. That device is excluded for the
// epoch: it assumes that its report counted.
func TestAMaskedRoundDoesNotWaitForDevicesThatLeave(t *testing.T) {
	t.Parallel()
	for _, step := range []int{wire.StepAdvert, wire.StepReveal} {
		const count, stay = privacy.MinMaskedGroup, 7
		s := coming(4*count, count, 4, treeDP)
		s.Masked, s.Deadline = true, time.Second
		r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
		d := r.enrolled(4 * count)
		waitFor(t, "the waiting room", func() bool { d[0].check(); return r.c.Status().Expected == count })
		for _, h := range d[:count] {
			h.check()
		}
		r.mask(d[:count], -1)
		waitFor(t, "the round", func() bool { return r.c.Status().Round == 1 })

		for _, h := range d[count+stay : 2*count] {
			h.leaves, h.leavesAt = pb.Kind_TRAIN, step
		}
		end := time.Now().Add(patience)
		var wg sync.WaitGroup
		for _, h := range append(d[:1:1], d[count:2*count]...) { // had its turn; stay and leave
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
			t.Errorf("%v are in a round of few", in)
		}
		if why := d[count].check().GetWait().GetReason(); !strings.Contains(why, "has contributed") {
			t.Errorf("who stayed is told %q", why)
		}
		r.stop()
	}
}

// Who has sent, in these rounds, what is in no sum has had its turn, and a round to which nobody
// else comes ends.
func TestARoundDoesNotWaitForExcludedDevices(t *testing.T) {
	t.Parallel()
	for _, masked := range []bool{false, true} {
		count := 2
		if masked {
			count = privacy.MinMaskedGroup
		}
		s := coming(3*count, count, 3, treeDP)
		s.Masked, s.Deadline = masked, 300*time.Millisecond
		r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
		d := r.enrolled(3 * count)
		waitFor(t, "the round", func() bool { d[0].check(); return r.c.Status().Expected == count })
		r.c.mu.Lock()
		r.c.collection.Participation.Exclude(3)
		r.c.mu.Unlock()
		for end := time.Now().Add(patience); r.c.Status().Round < 1 &&
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
