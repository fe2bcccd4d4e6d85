package coordinator

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// A colluding device flips a bit, all devices reveal their shares, and no sum comes out. Another
// attempt without one device would reveal the update of that device. So the round is discarded and
// paid for, and training continues with the next one.
func TestUnmaskedOnce(t *testing.T) {
	t.Parallel()
	const n, colluder = 21, 2
	for name, dp := range map[string]string{
		"central":     "epsilon=50,delta=1e-3,clip=0.5,min-devices=14",
		"distributed": "epsilon=50,delta=1e-3,clip=0.5,trust=distributed,min-devices=14",
		"no DP":       "",
	} {
		t.Run(name, func(t *testing.T) {
			s := bareSmall(n)
			if dp != "" {
				s = withDP(small(n), dp)
			}
			s.Masked, s.Rounds = true, 2
			r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
			d := r.enrolled(n)
			r.mask(d, colluder)
			waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
			status := r.c.Status()
			if in := r.counted(0); len(in) > 0 || status.Counts["rounds_discarded"] != 1 {
				t.Errorf("devices %v are in the sum of round 1; counts %v", in, status.Counts)
			}
			if dp != "" && len(r.c.budget.All()) != 1 {
				t.Errorf("the ledger has %d lines after a discarded round, expected 1", len(r.c.budget.All()))
			}
			rest := append(d[:colluder:colluder], d[colluder+1:]...)
			for _, h := range rest { // nobody is asked for round 1 again
				if task := h.task(); task.Round != 1 {
					t.Fatalf("device %d is asked for round %d again", h.id, task.Round+1)
				}
			}
			r.mask(rest, -1)
			waitFor(t, "the next round ends", func() bool { return r.c.Status().Round == 2 })
			if in := r.counted(1); len(in) != n-1 {
				t.Errorf("devices %v are in the sum of round 2", in)
			}
		})
	}
}

// A coordinator that is killed after devices were asked to reveal their shares does not ask for the
// same round again.
func TestKilledWhileDevicesReveal(t *testing.T) {
	t.Parallel()
	const n = 20
	s := withDP(small(n), "epsilon=50,delta=1e-3,clip=0.5,min-devices=14")
	s.Masked, s.Rounds = true, 2
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, cutAt("unmasking"))
	d := r.enrolled(n)
	r.mask(d, -1)
	<-r.ended
	r.stop()
	r = open(t, dir, nil, nil)
	waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
	if in := r.counted(0); len(in) > 0 {
		t.Errorf("devices %v are in the sum", in)
	}
}

// Devices add the noise and reveal their shares; the coordinator stops before the sum is published, and an
// operator has asked for another model or another run, so that the sum is dropped. The ledger counts it.
func TestASumThatIsDroppedIsPaidFor(t *testing.T) {
	const n = 20
	for _, point := range []string{"unmasking", "summed", "stepped"} {
		for _, request := range []string{"end", "rollback"} {
			t.Run(point+" "+request, func(t *testing.T) {
				s := withDP(small(n), "epsilon=50,delta=1e-3,clip=0.5,trust=distributed,min-devices=14")
				s.Masked, s.Rounds, s.Runs = true, 2, 3
				dir := filepath.Join(t.TempDir(), "state")
				r := open(t, dir, &s, cutAt(point))
				d := r.enrolled(n)
				d[0].task()
				ask := r.c.EndRun
				if request == "rollback" {
					ask = func() error { return r.c.Rollback(1) }
				}
				if err := ask(); err != nil {
					t.Fatal(err)
				}
				r.mask(d, -1)
				<-r.ended
				r.stop()
				r = open(t, dir, nil, nil)
				if request == "rollback" {
					waitFor(t, "the roll back", func() bool { m, _ := r.model(); return m.RolledBack })
				} else {
					waitFor(t, "the end", func() bool { return r.c.Status().State.Over() })
					if err := r.c.BeginNext(); err != nil {
						t.Fatal(err)
					}
				}
				r.mask(r.enrolled(n), -1)
				waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
				paid := int64(0)
				for _, e := range r.c.budget.All() {
					paid += e.Rounds
				}
				if paid != 2 {
					t.Errorf("devices revealed 2 sums, and the ledger counts %d", paid)
				}
			})
		}
	}
}

// A kill in the middle of a roll back leaves a sum under the number of the roll backs before. The line that pays for it
// pays for no other sum.
func TestASumOfAnInterruptedRollBackIsPaidFor(t *testing.T) {
	const n = 20
	s := withDP(small(n), "epsilon=50,delta=1e-3,clip=0.5,trust=distributed,min-devices=14")
	s.Masked, s.Rounds = true, 2
	dir := filepath.Join(t.TempDir(), "state")
	killed := func(o *Options) {
		o.fault = func(at string) error {
			if at == "unmasking" {
				return errCut
			}
			return nil
		}
	}
	r := open(t, dir, &s, killed)
	r.mask(r.enrolled(n), -1)
	<-r.ended
	if err := r.c.countRollback(); err != nil {
		t.Fatal(err)
	}
	if len(r.c.budget.All()) != 0 {
		t.Fatal("the sum is paid for already")
	}
	r.stop()
	for range 2 { // once
		r = open(t, dir, nil, nil)
		if all := r.c.budget.All(); len(all) != 1 || all[0].Rounds != 1 {
			t.Errorf("the ledger has %v, expected one release", all)
		}
		r.stop()
	}
	r = open(t, dir, nil, killed) // while devices reveal the sum of the round that replaces it
	r.mask(r.enrolled(n), -1)
	<-r.ended
	r.stop()
	r = open(t, dir, nil, nil)
	waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
	if all := r.c.budget.All(); len(all) != 1 || all[0].Rounds != 2 {
		t.Errorf("devices revealed 2 sums, and the ledger has %v", all)
	}
}

// An attempt that ends before devices reveal anything is retried.
func TestAnAttemptBeforeRevealIsRetried(t *testing.T) {
	t.Parallel()
	const n = 20
	s := withDP(small(n), "epsilon=50,delta=1e-3,clip=0.5,min-devices=14")
	s.Masked, s.Rounds, s.Deadline = true, 1, time.Second
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(n)
	for _, h := range d[:10] {
		h.leaves, h.leavesAt = pb.Kind_TRAIN, wire.StepUpload
	}
	first := r.mask(d, -1)
	waitFor(t, "the attempt ends", func() bool { return r.c.Status().Counts["attempts_ended"] == 1 })
	for _, h := range d {
		h.leaves = 0
	}
	if again := r.mask(d, -1); again == first {
		t.Errorf("attempt %d comes twice", again)
	}
	waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
	if in := r.counted(0); len(in) != n {
		t.Errorf("devices %v are in the sum, expected all", in)
	}
}

// Half of the devices are gone: the first attempt fails for lack of devices, the next one is among those
// that are there.
func TestAnotherAttemptIsAmongThoseThatAreThere(t *testing.T) {
	t.Parallel()
	const n, here = 24, 12
	s := bareSmall(n)
	s.Rounds, s.Deadline = 1, time.Second
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(n)
	r.playMasked(d[:here], 1)
	if in := r.counted(0); len(in) != here {
		t.Errorf("devices %v are in the sum, expected %d", in, here)
	}
	if ended := r.c.Status().Counts["attempts_ended"]; ended == 0 {
		t.Error("the first attempt did not fail")
	}
}

// A ledger line that was written before a device enrolled may pay for a release after it: the device's
// epsilon counts it.
func TestAReclaimedLineCountsForNewDevices(t *testing.T) {
	s := withDP(small(3), runsDP)
	s.Rounds = 2
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, func(o *Options) {
		o.fault = func(at string) error {
			if at == "stepped" {
				return errCut
			}
			return nil
		}
	})
	for _, h := range r.enrolled(3) {
		h.report(h.task())
	}
	<-r.ended
	r.stop()
	r = open(t, dir, nil, nil)
	if _, err := r.newDevice("late").enrol(r.token, 3); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
	first, _ := r.c.DeviceEpsilon(0)
	if late, ok := r.c.DeviceEpsilon(3); !ok || first == 0 || late != first {
		t.Errorf("the late device's epsilon is %v, expected %v", late, first)
	}
}
