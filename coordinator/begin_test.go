package coordinator

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/store"
)

// failing lets one write of a store fail for good, or all of them while the disk is full.
type failing struct {
	at   atomic.Int64 // the number of writes until then; below 1 for never
	full atomic.Bool
}

func (f *failing) refuse() error {
	if f.full.Load() {
		return syscall.ENOSPC
	}
	if f.at.Add(-1) == 0 {
		return &store.Damage{Where: "the test", What: "this write fails"}
	}
	return nil
}

// view is what must not change if a run does not begin.
func (r *harness) view() []any {
	s := r.c.Status()
	s.Counts, s.Synced, s.Changes = nil, store.Stats{}, 0
	return []any{
		s, r.c.latest.Load(), r.c.engine, r.c.plan, r.c.catalogue.Current(), r.c.catalogue.Pending(), r.c.budget,
		r.c.budget.Lines(), r.c.evaluations.Results(), r.c.models.Newest(),
	}
}

// Whichever write of a start fails, the run has not begun and nothing has changed, or it is on disk and the
// coordinator stops: the next start of the program begins it, once.
func TestAFailedStartChangesNothing(t *testing.T) {
	s := withDP(small(2), "epsilon=20,delta=1e-3,clip=0.5")
	s.Rounds, s.Runs = 1, 2
	finished := filepath.Join(t.TempDir(), "finished")
	r := open(t, finished, &s, nil)
	r.play(r.enrolled(2), 1)
	r.waitState(Finished)
	r.stop()
	var before, after int
	step := int64(1)
	if testing.Short() {
		step = 4
	}
	for n := int64(1); ; n += step {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(dir, os.DirFS(finished)); err != nil {
			t.Fatal(err)
		}
		var writes failing
		r := open(t, dir, nil, func(o *Options) { o.refuse = writes.refuse })
		r.waitState(Finished)
		was := r.view()
		writes.at.Store(n)
		err := r.c.BeginRun(nil, []*pb.Item{{Id: "given"}})
		if writes.at.Store(-1); err == nil {
			if r.c.runNumber() != 2 || before == 0 || after == 0 {
				t.Errorf("run %d; %d writes before the run is on disk, %d after", r.c.runNumber(), before, after)
			}
			return
		}
		if !strings.Contains(err.Error(), "this write fails") {
			t.Fatal(err)
		}
		began := fatal(err) != nil
		if !began {
			before++
			if now := r.view(); !reflect.DeepEqual(now, was) {
				t.Errorf("write %d failed and changed\n%+v to\n%+v", n, was, now)
			}
		} else if after++; fatal(<-r.ended) == nil {
			t.Errorf("write %d failed after the run was on disk, and the loop has not ended", n)
		}
		r.stop()
		r = open(t, dir, nil, nil)
		if !began {
			r.waitState(Finished)
			if err := r.c.BeginNext(); err != nil {
				t.Fatal(err)
			}
		}
		r.waitState(WaitingForCheckIns)
		if _, runs := r.c.budget.Period(); r.c.runNumber() != 2 || runs != 2 {
			t.Errorf("write %d: run %d, %d in the period", n, r.c.runNumber(), runs)
		}
		if has := len(r.c.catalogue.Current().Items) == 11; has != began {
			t.Errorf("write %d: begun %t, with its items %t", n, began, has)
		}
		r.stop()
	}
}

// A model that cannot be read keeps a run from beginning, and changes nothing.
func TestARunDoesNotBeginFromAnUnreadableModel(t *testing.T) {
	s := small(2)
	s.Rounds = 1
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.play(r.enrolled(2), 1)
	r.waitState(Finished)
	v := r.c.models.Newest()
	good := v.Values[0]
	v.Values[0] = strings.Repeat("0", len(good))
	was := r.view()
	if err := r.c.BeginNext(); err == nil || fatal(err) != nil {
		t.Fatalf("a run began without its model: %v", err)
	}
	if now := r.view(); !reflect.DeepEqual(now, was) {
		t.Errorf("the failed start changed\n%+v to\n%+v", was, now)
	}
	v.Values[0] = good
	if err := r.c.BeginNext(); err != nil || r.c.runNumber() != 2 {
		t.Errorf("run %d, %v", r.c.runNumber(), err)
	}
}

// A first run that could not start begins when the operator repeats the call, and is one run for the budget.
func TestAFirstRunThatFailedCountsOnce(t *testing.T) {
	for _, point := range []string{"versioned", "published"} {
		fails := true
		r := open(t, filepath.Join(t.TempDir(), "state"), nil, func(o *Options) {
			o.fault = func(at string) error {
				if fails && at == point {
					return errCut
				}
				return nil
			}
		})
		s := withDP(small(3), runsDP)
		if err := r.c.BeginRun(&s, stock(10)); err == nil {
			t.Fatal("the run has begun")
		}
		fails = false
		s.Rounds++ // the operator may change the settings
		if err := r.c.BeginRun(&s, stock(11)); err != nil {
			t.Fatal(err)
		}
		r.play(r.enrolled(3), 1)
		if _, runs := r.c.budget.Period(); runs != 1 || r.c.runNumber() != 1 {
			t.Errorf("%s: the ledger counts %d runs, and this is run %d", point, runs, r.c.runNumber())
		}
		r.stop()
		r = open(t, r.dir, nil, nil)
		if is := r.c.Status(); is.Round != 1 || is.Items != 11 {
			t.Errorf("%s: round %d with %d items after a restart", point, is.Round, is.Items)
		}
	}
}

// An operator who begins a run while the disk is full is told so at once. If the disk fills up meanwhile, the
// answer says that the run begins when there is space.
func TestAStartOnAFullDiskIsAnsweredAtOnce(t *testing.T) {
	s := small(2)
	s.Rounds = 1
	var writes failing
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.refuse, o.probe = writes.refuse, 10*time.Millisecond
	})
	r.play(r.enrolled(2), 1)
	r.waitState(Finished)
	writes.full.Store(true)
	err := r.c.BeginNext() // meets the full disk
	if rpc.Code(err) != rpc.Delayed || !strings.Contains(fmt.Sprint(err), "run 2 begins when this is over: disk-full") {
		t.Errorf("the first call: %v", err)
	}
	if err := r.c.BeginNext(); rpc.Code(err) != rpc.SlowDown || !strings.Contains(fmt.Sprint(err), "disk-full") {
		t.Errorf("the second call: %v", err)
	}
	if r.c.runNumber() != 1 {
		t.Errorf("run %d is in memory and not on disk", r.c.runNumber())
	}
	writes.full.Store(false)
	waitFor(t, "run 2", func() bool { return r.c.Status().RunNumber == 2 && r.c.Status().State == Training })
}

// Devices that take free places are on disk before they may report. If that fails, the cohort stays as it is.
func TestSubstitutesAreOnDiskFirst(t *testing.T) {
	s := small(6)
	s.Cohort = round.Cohort{Kind: "count", Count: 2}
	var writes failing
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) { o.refuse = writes.refuse })
	r.enrolled(6)
	waitFor(t, "the round", func() bool { return r.c.collection.OpenRound() != nil })
	task := r.c.newTask(pb.Kind_TRAIN, 0, 0, nil)
	w := &collecting{network: &network{r.c}, round: r.c.collection.OpenRound(), task: task}
	for i, want := range []int{4, 4} {
		w.refill()
		saved, _, err := r.c.collection.LoadCohort(r.c.logOf(task))
		if err != nil || len(saved) != want || !slices.Equal(saved, w.round.Cohort()) {
			t.Errorf("refill %d: %v, on disk %v, %v", i, w.round.Cohort(), saved, err)
		}
		writes.at.Store(1)
	}
}
