package coordinator

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// Close to its memory limit, a coordinator takes no reports, and everybody sees why. It heals by itself. If that
// lasts 5 minutes, it ends with an error, so that it is started again.
func TestLowMemory(t *testing.T) {
	s := small(2)
	var used, ahead atomic.Int64
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.watch = time.Millisecond
		o.memory = func() (int64, int64) { return used.Load(), 100 }
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	d := r.enrolled(2)
	task := d[0].task()
	for _, use := range []int64{96, 90} { // it lasts until 85 % are in use
		used.Store(use)
		waitFor(t, "low memory", func() bool { return r.c.Status().State == LowMemory })
		_, err := d[0].report(task)
		r.refused(err, rpc.SlowDown)
		if w := d[1].check().GetWait(); w.GetState() != string(LowMemory) || w.GetReason() == "" {
			t.Errorf("a device is told %v", w)
		}
		if err := r.c.Ready(); err == nil || !strings.Contains(err.Error(), "memory") {
			t.Errorf("ready says %v", err)
		}
		if err := r.c.Healthy(time.Minute); err != nil {
			t.Errorf("healthy says %v", err)
		}
	}
	used.Store(84)
	waitFor(t, "its end", func() bool {
		fate, err := d[0].report(task)
		return err == nil && fate == pb.ReportState_COUNTED
	})

	used.Store(99)
	waitFor(t, "low memory", func() bool { return r.c.progress.counted("faults") == 2 })
	ahead.Store(int64(memoryPatience + time.Minute))
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "low-memory for 6m") {
		t.Errorf("it ended with %v", err)
	}
	if err := r.c.Healthy(time.Minute); err == nil {
		t.Error("a coordinator that ended counts as healthy")
	}
	r.ended <- nil
}

// usedMemory counts what is in use, not the garbage that the runtime will free.
func TestGarbageIsNotMemoryInUse(t *testing.T) {
	before, _ := usedMemory()
	for range 100 {
		garbage = make([]byte, 1<<20)
	}
	after, limit := usedMemory()
	if before <= 0 || after-before > 50<<20 || limit <= 0 {
		t.Errorf("%d bytes in use before, %d after 100 MB of garbage; the limit is %d", before, after, limit)
	}
}

var garbage []byte

// A write that the disk does not finish in time is visible, and nothing is refused. The round continues when it ends.
func TestSlowDisk(t *testing.T) {
	s := small(2)
	s.Rounds = 1
	var blocked atomic.Pointer[chan struct{}]
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.watch, o.slow = time.Millisecond, time.Millisecond
		o.refuse = func() error {
			if c := blocked.Load(); c != nil {
				<-*c
			}
			return nil
		}
	})
	d := r.enrolled(2)
	task := d[0].task()
	c := make(chan struct{})
	blocked.Store(&c)
	reported := make(chan error, 1)
	go func() { _, err := d[0].report(task); reported <- err }()
	waitFor(t, "a slow disk", func() bool { return r.c.Status().State == SlowDisk })
	if _, message := r.c.trouble(); !strings.Contains(message, "has not finished a write") {
		t.Errorf("the message is %q", message)
	}
	if err := r.c.refuseWrites(); err != nil {
		t.Errorf("a slow disk refuses writes: %v", err)
	}
	waitFor(t, "a count", func() bool { return r.c.progress.counted("faults") > 0 })
	blocked.Store(nil)
	close(c)
	if err := <-reported; err != nil {
		t.Error(err)
	}
	if _, err := d[1].report(d[1].task()); err != nil {
		t.Error(err)
	}
	waitFor(t, "the round", func() bool { return r.c.Status().Round == 1 })
	waitFor(t, "the end of it", func() bool { return r.c.Status().State != SlowDisk })
}

// While the disk does not finish a line of the ledger, that is visible, everybody is answered, and devices enrol. The
// round continues when it ends.
func TestASlowLedger(t *testing.T) {
	s := withDP(small(2), runsDP)
	s.Rounds = 2
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) { o.slow = time.Millisecond })
	d := r.enrolled(2)
	r.play(d, 1)
	writing, finish := make(chan bool), make(chan bool)
	begin, end := sync.OnceFunc(func() { close(writing) }), sync.OnceFunc(func() { close(finish) })
	defer end()
	r.c.budget.RetryWith(func(write func() error) error {
		return r.c.st.Retry(func() error {
			begin()
			<-finish
			return write()
		})
	})
	played, answered := make(chan bool), make(chan bool)
	go func() { defer close(played); r.play(d, 2) }()
	<-writing
	go func() {
		defer close(answered)
		time.Sleep(2 * time.Millisecond)
		if b := r.c.Status(); b.State != SlowDisk {
			t.Errorf("the state is %s", b.State)
		}
		r.c.Budget()
		r.c.DeviceEpsilon(0)
		if _, err := r.newDevice(2).enrol(r.token, 2); err != nil {
			t.Error(err)
		}
		d[0].check()
	}()
	select {
	case <-answered:
	case <-time.After(time.Minute):
		t.Fatal("nobody is answered while the ledger is written")
	}
	if err := r.c.Healthy(time.Minute); err != nil {
		t.Errorf("healthy says %v", err)
	}
	end()
	<-played
	waitFor(t, "the end of it", func() bool { return r.c.Status().State != SlowDisk })
}
