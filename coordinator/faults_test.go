package coordinator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/store/disktest"
	"github.com/tacit-rec/tacit/wire"
)

// fillDisk leaves no space, and returns a function that frees it.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	f, err := os.CreateTemp(dir, "filler")
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if f.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Error(err)
		}
	}
}

// The disk fills up in every round, and each time training continues by itself when there is space
// again: operators and devices see the state disk-full, devices are refused and retry, nothing that
// was acknowledged is lost or counted twice, and the model is that of an undisturbed run. With DP
// the ledger has each round once.
func TestTrainingContinuesAfterAFullDisk(t *testing.T) {
	t.Parallel()
	for _, dp := range []string{"none", "epsilon=20,delta=1e-3,clip=0.5"} {
		t.Run(dp, func(t *testing.T) {
			s := withDP(small(5), dp)
			s.Rounds = 3
			want := undisturbed(t, s)
			disk := disktest.Small(t, 16)
			var mu sync.Mutex
			var warned []string
			told := func(text string) func() bool {
				return func() bool {
					mu.Lock()
					defer mu.Unlock()
					return strings.Contains(strings.Join(warned, "\n"), text)
				}
			}
			r := open(t, filepath.Join(disk, "state"), &s, func(o *Options) {
				o.probe = 10 * time.Millisecond
				o.Warn = func(text string) { mu.Lock(); warned = append(warned, text); mu.Unlock() }
			})
			d := r.enrolled(5)
			k := &acks{by: map[[2]uint32]uint64{}}
			for round := range s.Rounds {
				var free func()
				for i, h := range d {
					task := h.task()
					if int(task.Round) != round {
						t.Fatalf("round %d, want %d", task.Round, round)
					}
					if i == 2 {
						free = fillDisk(t, disk)
						r.sawFullDisk(h, task)
						if round == 0 {
							waitFor(t, "a warning", told("disk-full: the coordinator's disk"))
						}
						free()
					}
					waitFor(t, "a report", func() bool {
						fate, err := h.report(task)
						return err == nil && fate == pb.ReportState_COUNTED
					})
					k.by[[2]uint32{task.Round, h.id}] = collection.Digest(wire.HashBlob(h.body(task)).Hash)
				}
				waitFor(t, "the round", func() bool { return r.c.Status().Round == round+1 })
			}
			r.judge(k, s.Rounds, want)
			if r.c.budget != nil {
				n := int64(0)
				for _, e := range r.c.budget.All() {
					n += e.Rounds
				}
				if n != int64(s.Rounds) {
					t.Errorf("the ledger has %d rounds, and %d were released", n, s.Rounds)
				}
			}
			waitFor(t, "the end of a warning", told("disk-full is over after"))
			if told("storage: ")() {
				t.Errorf("the operator was told: %q", warned)
			}
		})
	}
}

// sawFullDisk writes until the disk refuses, and checks what everybody sees.
func (r *harness) sawFullDisk(h *testDevice, task *pb.Task) {
	r.t.Helper()
	waitFor(r.t, "a full disk", func() bool { return r.c.Status().State == DiskFull })
	_, err := h.report(task)
	r.refused(err, rpc.SlowDown)
	if !strings.Contains(err.Error(), "disk-full") {
		r.t.Errorf("the refusal says %v", err)
	}
	if w := h.check().GetWait(); w.GetState() != string(DiskFull) || w.Reason == "" || w.AfterMs < 1000 {
		r.t.Errorf("a device is told %v", w)
	}
	if _, err := r.newDevice("new").enrol(r.token); rpc.Code(err) != rpc.SlowDown {
		r.t.Errorf("a device that enrols gets %v", err)
	}
}

// The disk fills up while the loop writes the outcome of a round: the write waits.
func TestAFullDiskWhileAnOutcomeIsWritten(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), "epsilon=20,delta=1e-3,clip=0.5")
	s.Rounds = 3
	want := undisturbed(t, s)
	disk := disktest.Small(t, 16)
	frees := 0
	r := open(t, filepath.Join(disk, "state"), &s, func(o *Options) {
		o.probe = 10 * time.Millisecond
		o.fault = func(point string) error {
			if point == "summed" && frees < 2 || point == "versioned" && frees == 2 { // before the ledger, the
				free := fillDisk(t, disk) // closed round, the model or released.json are written
				frees++
				time.AfterFunc(50*time.Millisecond, free)
			}
			return nil
		}
	})
	k := &acks{by: map[[2]uint32]uint64{}}
	d := r.enrolled(3)
	r.live(d, s.Rounds, k)
	r.judge(k, s.Rounds, want)
	if frees < 3 {
		t.Errorf("the disk was full %d times", frees)
	}
}

// A coordinator whose disk is full stops when it is told to, and its folder is that of a crash.
func TestAStopDuringAFullDisk(t *testing.T) {
	t.Parallel()
	s := small(3)
	disk := disktest.Small(t, 16)
	dir := filepath.Join(disk, "state")
	var free func()
	filled := make(chan struct{})
	r := open(t, dir, &s, func(o *Options) {
		o.fault = func(point string) error {
			if point == "stepped" && free == nil {
				free = fillDisk(t, disk)
				close(filled)
			}
			return nil
		}
	})
	d := r.enrolled(3)
	for _, h := range d {
		if _, err := h.report(h.task()); err != nil {
			t.Fatal(err)
		}
	}
	<-filled
	waitFor(t, "a full disk", func() bool { return r.c.Status().State == DiskFull })
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	free()
	r = open(t, dir, nil, nil)
	waitFor(t, "the round", func() bool { return r.c.Status().Round == 1 })
}

// If somebody sets the time of day, the clock of rounds and devices advances as before, and the
// operator is told.
func TestClockStepsAreNoticed(t *testing.T) {
	var steps []time.Duration
	offset := time.Duration(0)
	c := newClock(func() time.Time { return time.Now().Round(0).Add(offset) }, func(by time.Duration) {
		steps = append(steps, by.Round(time.Minute))
	})
	before := c.now()
	for _, set := range []time.Duration{0, time.Second, time.Hour, time.Hour, -time.Hour} {
		offset = set
		if now := c.now(); now.Before(before) || now.Sub(before) > 10*time.Minute {
			t.Errorf("with a clock that was set by %v, the time went from %v to %v", set, before, now)
		}
	}
	if fmt.Sprint(steps) != "[1h0m0s -2h0m0s]" {
		t.Errorf("the steps are %v", steps)
	}
}

// A step may be noticed by whoever asks for the time with a lock held.
func TestAClockStepDuringAChangeOfState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	t.Setenv(ClockVariable, file)
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	if err := os.WriteFile(file, []byte("36h"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.c.progress.set(Paused, "with the lock of the state held")
	waitFor(t, "the step", func() bool { return r.c.progress.counted("clock_steps") == 1 })
	r.play(r.enrolled(2), 2)
}
