package coordinator

import (
	"context"
	"encoding"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// played is a device that plays a masked round by hand, with whatever numbers. bend
// changes its upload unless it is nil.
//
//lint:size the steps of the protocol are read in their order
func (h *testDevice) played(t testing.TB, task *pb.Task, values []int32, bend func(*secagg.Upload)) {
	t.Helper()
	round, id, err := wire.DecodeMasking(task.Masking)
	if err != nil {
		t.Error(err)
		return
	}
	c, err := secagg.NewClient(round, uint32(id), nil)
	if err != nil {
		t.Error(err)
		return
	}
	call := func(step uint32, m encoding.BinaryMarshaler) *pb.MaskResponse {
		var b []byte
		if m != nil {
			if b, err = m.MarshalBinary(); err != nil {
				t.Error(err)
			}
		}
		q := &pb.MaskRequest{
			Run: task.Run, Round: task.Round, Attempt: task.Attempt, Step: step, Message: b,
			Bytes: uint64(len(b)),
		}
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			a, err := h.Mask(context.Background(), q)
			if err != nil {
				if h.lie == nil {
					t.Errorf("step %d: %v", step, err)
				}
				return nil
			}
			if a.State != pb.MaskResponse_NOT_YET {
				return a
			}
		}
		t.Errorf("step %d does not come", step)
		return nil
	}
	ask := func(step uint32, m encoding.BinaryUnmarshaler) bool {
		a := call(step, nil)
		return a != nil && a.State == pb.MaskResponse_ANSWER && m.UnmarshalBinary(a.Message) == nil
	}
	left := func(step int) bool { return task.Kind == h.leaves && h.leavesAt == step }
	if left(wire.StepAdvert) {
		return
	}
	call(wire.StepAdvert, c.Advert())
	var roster secagg.Roster
	if left(wire.StepShareKeys) || !ask(wire.StepShareKeys, &roster) {
		return
	}
	mail, err := c.ShareKeys(&roster)
	if err != nil {
		t.Error(err)
		return
	}
	h.lie.deals(mail)
	call(wire.StepShareKeys, mail)
	var inbox secagg.ShareBundle
	if left(wire.StepUpload) || !ask(wire.StepUpload, &inbox) {
		return
	}
	up, err := c.Upload(&inbox, values)
	if err != nil {
		t.Error(err)
		return
	}
	if bend != nil {
		bend(up)
	}
	h.lie.uploads(up)
	call(wire.StepUpload, up)
	var lists secagg.Lists
	if left(wire.StepReveal) || !ask(wire.StepReveal, &lists) {
		return
	}
	open, err := c.Reveal(&lists, nil)
	if err != nil {
		if h.lie == nil {
			t.Error(err)
		}
		return
	}
	h.lie.reveals(open)
	call(wire.StepReveal, open)
}

// Nobody sees a masked update. The sum of a group shows that a device lied, and the coordinator
// discards that group only.
func TestALyingDeviceUnderMasksCostsOnlyItsGroup(t *testing.T) {
	t.Parallel()
	const n, size = 42, 14
	s := withDP(small(n), "epsilon=50,delta=1e-3,clip=0.5")
	s.Masked, s.GroupSize, s.Rounds, s.Params = true, size, 1, map[string]string{"dim": "32"}
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(n)
	const liar = 5
	var wg sync.WaitGroup
	for i := range d {
		task := d[i].task()
		if task.Masking == nil || task.Masking.Devices != size {
			t.Fatalf("device %d masks among %d, want %d", i, task.Masking.GetDevices(), size)
		}
		wg.Go(func() {
			values := make([]int32, task.Length)
			if values[0] = 3; i == liar {
				for k := range values {
					values[k] = int32(task.Bound.Levels) // each is within its range, all together are not
				}
			}
			d[i].played(t, task, values, nil)
		})
	}
	wg.Wait()
	waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
	if in := r.counted(0); len(in) != n-size || slices.Contains(in, d[liar].id) {
		t.Errorf("%v are in the sum, want two groups without device %d", in, d[liar].id)
	}
	if c := r.c.Status().Counts["groups_over_bound"]; c != 1 {
		t.Errorf("%d groups were thrown away, want 1", c)
	}
}

// While masks are taken off, devices check in and ask: nobody waits for the sum.
func TestDevicesDoNotWaitForUnmasking(t *testing.T) {
	t.Parallel()
	const n = 14
	s := withDP(small(n), "epsilon=50,delta=1e-3,clip=0.5,min-devices=3")
	s.Masked, s.Rounds = true, 1
	reached, goOn := make(chan struct{}), make(chan struct{})
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.fault = func(point string) error {
			if point == "unmasking" {
				close(reached)
				<-goOn
			}
			return nil
		}
	})
	d := r.enrolled(n)
	attempt := r.mask(d, -1)
	<-reached
	if r.c.Status().Round != 0 {
		t.Error("the round is over before its sum is there")
	}
	d[0].check() // with the vault locked, this and the next would never return
	q := &pb.MaskRequest{Run: r.c.runID(), Attempt: attempt, Step: wire.StepReveal}
	if a, err := d[0].Mask(context.Background(), q); err != nil || a.State != pb.MaskResponse_NOT_YET {
		t.Errorf("who asks for the sum gets %v, %v", a, err)
	}
	q.Step, q.Message, q.Bytes = wire.StepReveal+1, []byte{1}, 1
	_, err := d[0].Mask(context.Background(), q)
	r.refused(err, rpc.Malformed)
	close(goOn)
	waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
	if ids := r.counted(0); len(ids) != n {
		t.Errorf("%v are in the sum, want all", ids)
	}
}

// A step of a masked round may take half a deadline, there are four, and they may be extended by one
// deadline: devices are told to stay for all of them.
func TestDevicesStayForAllSteps(t *testing.T) {
	t.Parallel()
	s := withDP(small(14), "epsilon=50,delta=1e-3,clip=0.5,min-devices=3")
	s.Masked, s.Deadline = true, 100*time.Second
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	task := r.enrolled(14)[0].task()
	left := time.Duration(task.RemainingMs) * time.Millisecond
	if left < 5*s.Deadline/2 || left > 3*s.Deadline {
		t.Errorf("devices stay for %v, want three times the deadline of %v", left, s.Deadline)
	}
}

// flipped changes one bit of an upload.
func flipped(u *secagg.Upload) { u.Data[0] ^= 1 }

// A bit that differs from what a device signed with its mask costs its group only.
func TestAFlippedBitCostsOnlyItsGroup(t *testing.T) {
	t.Parallel()
	const n, size, liar = 42, 14, 5
	s := withDP(small(n), "epsilon=50,delta=1e-3,clip=0.5")
	s.Masked, s.GroupSize, s.Rounds = true, size, 1
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(n)
	r.mask(d, liar)
	waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
	if ids := r.counted(0); len(ids) != n-size || slices.Contains(ids, d[liar].id) {
		t.Errorf("%v are in the sum, want two groups without device %d", ids, d[liar].id)
	}
	if c := r.c.Status().Counts["groups_without_sum"]; c != 1 {
		t.Errorf("%d groups had no sum, want 1", c)
	}
}

// mask has all devices play an attempt, one of them with a bit flipped.
func (r *harness) mask(d []*testDevice, liar int) (attempt uint32) {
	r.t.Helper()
	for _, h := range d { // with a privacy guarantee a round waits for them
		h.check()
	}
	var wg sync.WaitGroup
	for i := range d {
		task := d[i].task()
		attempt = task.Attempt
		bend := flipped
		if i != liar {
			bend = nil
		}
		wg.Go(func() { d[i].played(r.t, task, make([]int32, task.Length), bend) })
	}
	wg.Wait()
	return attempt
}

func TestGroupsThatCannotBeMaskedAreRefused(t *testing.T) {
	s := withDP(small(12), "epsilon=50,delta=1e-3,clip=0.5")
	if s.GroupSize = 4; s.Check() == nil {
		t.Error("groups without masks pass")
	}
}
