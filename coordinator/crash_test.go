package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// points are where a round may be cut off, in their order.
var points = []string{"summed", "stepped", "closed", "versioned", "published"}

// cutAt ends a coordinator at a point of a round, as a crash would.
func cutAt(point string) func(*Options) {
	return func(o *Options) {
		o.fault = func(at string) error {
			if at == point {
				return errCut
			}
			return nil
		}
	}
}

// acks are the acknowledged reports, by round and device ID.
type acks struct {
	mu sync.Mutex
	by map[[2]uint32]uint64
}

// live lets devices report until a number of rounds are done or the coordinator has ended, and
// notes what was acknowledged.
func (r *harness) live(devices []*testDevice, rounds int, k *acks) (ended bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, h := range devices {
		wg.Go(func() {
			for ctx.Err() == nil && r.c.Status().Round < rounds {
				a, err := h.CheckIn(ctx, &pb.CheckInRequest{LastReport: h.last})
				if err == nil && a.GetTask() != nil {
					task := a.GetTask()
					if fate, err := h.report(task); err == nil && fate == pb.ReportState_COUNTED {
						k.mu.Lock()
						k.by[[2]uint32{task.Round, h.id}] = collection.Digest(wire.HashBlob(h.body(task)).Hash)
						k.mu.Unlock()
					}
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case err := <-r.ended:
		if !errors.Is(err, errCut) {
			r.t.Fatalf("the coordinator ended: %v", err)
		}
		cancel()
		<-done
		return true
	case <-done:
		return false
	}
}

// A coordinator that is killed at any point of a round, in any round, resumes there. Acknowledged
// reports count once, and the model is that of an undisturbed run. With DP the ledger has each
// round once.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, dp := range []string{"none", "epsilon=20,delta=1e-3,clip=0.5"} {
		t.Run(dp, func(t *testing.T) {
			s := withDP(small(5), dp)
			s.Rounds = 3
			want := undisturbed(t, s)
			dir := filepath.Join(t.TempDir(), "state")
			k := &acks{by: map[[2]uint32]uint64{}}
			begin := &s
			cuts := 0
			for round := range s.Rounds {
				for _, point := range points {
					r := open(t, dir, begin, cutAt(point))
					begin = nil
					if r.c.Status().Round > round { // it was done by the one before
						r.stop()
						continue
					}
					if !r.live(r.enrolled(5), s.Rounds, k) {
						t.Fatalf("round %d was not cut off at %q", round+1, point)
					}
					cuts++
					r.stop()
				}
			}
			r := open(t, dir, nil, nil)
			r.live(r.enrolled(5), s.Rounds, k)
			r.judge(k, s.Rounds, want)
			if cuts < 3*3 {
				t.Errorf("%d cuts", cuts)
			}
			if r.c.budget != nil {
				n := int64(0)
				for _, e := range r.c.budget.All() {
					n += e.Rounds
				}
				if n != int64(s.Rounds) || !r.c.Status().LedgerOK {
					t.Errorf("the ledger has %d rounds, and %d were released", n, s.Rounds)
				}
			}
		})
	}
}

// judge compares what was acknowledged with what is in sums, and the model's bits.
func (r *harness) judge(k *acks, rounds int, want string) {
	r.t.Helper()
	counted := 0
	for round := range uint32(rounds) {
		a, err := r.admin.Counted(context.Background(), round)
		if err != nil || !a.Closed {
			r.t.Fatalf("round %d: closed %v, %v", round+1, a.Closed, err)
		}
		if !slices.IsSorted(a.DeviceIDs) || len(slices.Compact(slices.Clone(a.DeviceIDs))) != len(a.DeviceIDs) {
			r.t.Errorf("round %d has a device twice: %v", round+1, a.DeviceIDs)
		}
		for i, id := range a.DeviceIDs {
			if d, ok := k.by[[2]uint32{round, id}]; ok && d == collection.Digest(a.Digests[i][:]) {
				counted++
			}
		}
	}
	if counted != len(k.by) {
		r.t.Errorf("%d reports were acknowledged, and %d of them are in sums", len(k.by), counted)
	}
	if _, bits := r.model(); bits != want {
		r.t.Error("the model is not that of a run that nothing happened to")
	}
	if st := r.c.Status(); st.Lost != 0 || !st.LedgerOK {
		r.t.Errorf("%+v", st)
	}
}

// The same, stopped at any number of reports: half a round is on disk.
func TestStoppedInTheMiddleOfARound(t *testing.T) {
	s := small(6)
	s.Rounds = 2
	want := undisturbed(t, s)
	for n := range 6 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			r := open(t, dir, &s, nil)
			d := r.enrolled(6)
			k := &acks{by: map[[2]uint32]uint64{}}
			for _, h := range d[:n] {
				task := h.task()
				if fate, err := h.report(task); err != nil || fate != pb.ReportState_COUNTED {
					t.Fatalf("%v, %v", fate, err)
				}
				k.by[[2]uint32{task.Round, h.id}] = collection.Digest(h.last.Digest)
			}
			r.stop() // as after Ctrl-C
			if err := <-r.ended; err != nil {
				t.Fatalf("it ended with %v", err)
			}
			r = open(t, dir, nil, nil)
			again := r.enrolled(6)
			for i, h := range again {
				h.last = d[i].last
			}
			waitFor(t, "the round", func() bool { _, sum := r.sums(); return sum != nil })
			for i, h := range again {
				if task := h.check().GetTask(); (task == nil) != (i < n) {
					t.Errorf("device %d of %d that are counted has the task %v", i, n, task)
				}
			}
			if got, _ := r.sums(); got != n {
				t.Errorf("%d reports are there, and %d were acknowledged", got, n)
			}
			r.live(again, s.Rounds, k)
			r.judge(k, s.Rounds, want)
		})
	}
}

// A report whose answer was lost is in the sum, and its device is told so when it asks
// again: before, while and after the round's outcome is written, and after a start.
func TestALostAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	s := small(2)
	dir := filepath.Join(t.TempDir(), "state")
	var once sync.Once
	hold, held := make(chan struct{}), make(chan struct{})
	r := open(t, dir, &s, func(o *Options) {
		o.fault = func(at string) error {
			if at == "stepped" {
				once.Do(func() { close(held) })
				<-hold
			}
			return nil
		}
	})
	d := r.enrolled(2)
	task := d[0].task()
	for _, h := range d {
		if _, err := h.report(task); err != nil {
			t.Fatal(err)
		}
	}
	<-held
	_, err := d[0].report(task)
	r.refused(err, "not_now") // and not that it is in no sum
	close(hold)
	waitFor(t, "the round", func() bool { return r.c.Status().Round == 1 })
	if fate, err := d[0].report(task); err != nil || fate != pb.ReportState_COUNTED {
		t.Errorf("%v, %v", fate, err)
	}
	r.stop()
	r = open(t, dir, nil, nil)
	if fate, err := r.enrolled(2)[1].report(task); err != nil || fate != pb.ReportState_COUNTED {
		t.Errorf("after a start: %v, %v", fate, err)
	}
}

// A run that could not begin leaves nothing that a later one stumbles over.
func TestARunThatCouldNotBegin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	c, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := withDP(small(3), "epsilon=20,delta=1e-3,clip=0.5")
	if err := c.Begin(s, []*pb.Item{{Id: "twice"}, {Id: "twice"}}); err == nil {
		t.Fatal("two items with one id")
	}
	bad := s
	bad.Method = "no such method"
	if err := c.Begin(bad, stock(5)); err == nil {
		t.Fatal("a method that there is not")
	}
	if err := c.Begin(s, stock(5)); err != nil {
		t.Fatal(err)
	}
	if err := c.Begin(s, stock(5)); err != nil {
		t.Errorf("the same run again: %v", err)
	}
	other := s
	other.Rounds++
	if err := c.Begin(other, stock(5)); !errors.Is(err, ErrBegun) {
		t.Errorf("another run in the same folder: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err = Open(Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// A run resumes with other bits only if they have no effect.
func TestARunKeepsItsBits(t *testing.T) {
	const dp = "epsilon=20,delta=1e-3,clip=0.5"
	for _, c := range []struct {
		method, dp  string
		begun, asks int
		resumes     bool
	}{
		{"fedmf", dp, 24, 16, true},
		{"ials", "none", 24, 24, true},
		{"ials", "none", 24, 16, false},
		{"ials", "none", 24, 0, false},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		begin := func(bits int) error {
			k, err := Open(Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			s := withDP(small(3), c.dp)
			s.Method, s.Params, s.Bits = c.method, nil, bits
			err = k.Begin(s, stock(5))
			if k.settings().Bits != c.begun {
				t.Errorf("%+v: the run has %d bits", c, k.settings().Bits)
			}
			return err
		}
		if err := begin(c.begun); err != nil {
			t.Fatal(err)
		}
		if err := begin(c.asks); (err == nil) != c.resumes || errors.Is(err, ErrBegun) == c.resumes {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The numbers of attempts do not repeat after 65,536 of them.
func TestAttemptsHaveNumbersOfTheirOwn(t *testing.T) {
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	first := r.c.nextAttempt()
	r.c.attempts = 1 << 16
	if again := r.c.nextAttempt(); again == first {
		t.Errorf("the attempt after 65536 others has the number %d again", again)
	}
}

// A run gets another ID before the first version with it is on disk. A kill between the two loses neither the model
// nor items.
func TestKilledAfterARunGotAnotherID(t *testing.T) {
	s := small(3)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	if _, err := r.c.AddItems([]*pb.Item{{Id: "new", Title: "new"}}); err != nil {
		t.Fatal(err)
	}
	r.play(r.enrolled(3), 2)
	waitFor(t, "the item", func() bool { return r.c.Status().Items == 11 })
	_, bits := r.model()
	r.stop()
	c, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.renumber(5), c.Close()); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir, nil, nil)
	if is := r.c.Status(); is.RunNumber != 5 || is.Round != 2 || is.Items != 11 {
		t.Errorf("run %d continues after round %d with %d items, want run 5, round 2, 11 items", is.RunNumber, is.Round,
			is.Items)
	}
	if _, is := r.model(); is != bits {
		t.Error("the model is lost")
	}
	r.play(r.enrolled(3), 3)
}
