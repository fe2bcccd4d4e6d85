package coordinator

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/wire"
)

// counted is who is in a round's sum.
func (r *harness) counted(round uint32) []uint32 {
	r.t.Helper()
	a, err := r.admin.Counted(context.Background(), round)
	if err != nil || !a.Closed {
		r.t.Fatalf("round %d: closed %v, %v", round+1, a.Closed, err)
	}
	return a.DeviceIDs
}

// A round ends at its goal, and not before.
func TestARoundEndsAtItsGoal(t *testing.T) {
	s := small(8)
	s.Goal, s.Minimum, s.Rounds = 0.5, 0.25, 1
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(8)
	task := d[0].task()
	for i := range 4 {
		if r.c.Status().Round != 0 {
			t.Fatalf("the round is over with %d reports", i)
		}
		if fate, err := d[i].report(task); err != nil || fate != pb.ReportState_COUNTED {
			t.Fatalf("%v, %v", fate, err)
		}
	}
	waitFor(t, "the end", func() bool { return r.c.Status().Round == 1 })
	if n := len(r.counted(0)); n != 4 {
		t.Errorf("%d are in the sum, want 4", n)
	}
	if fate, err := d[5].report(task); err != nil || fate != pb.ReportState_CLOSED {
		t.Errorf("who is late is told %v, %v", fate, err)
	}
}

// A round with fewer reports than the minimum continues after its deadline; otherwise it ends there.
func TestARoundWaitsForItsMinimum(t *testing.T) {
	t.Parallel()
	s := small(4)
	s.Rounds, s.Deadline = 1, 150*time.Millisecond
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(4)
	task := d[0].task()
	if _, err := d[0].report(task); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the deadline", func() bool { return strings.Contains(r.c.Status().Message, "waiting for more") })
	if r.c.Status().Round != 0 {
		t.Fatal("the round ended with one of four devices")
	}
	if again := d[1].task(); again.RemainingMs == 0 || again.Round != 0 {
		t.Errorf("after its deadline the task is %v", again)
	}
	if fate, err := d[1].report(task); err != nil || fate != pb.ReportState_COUNTED {
		t.Fatalf("%v, %v", fate, err)
	}
	waitFor(t, "the end", func() bool { return r.c.Status().Round == 1 })
	if n := len(r.counted(0)); n != 2 {
		t.Errorf("%d are in the sum, want 2", n)
	}
}

// With DP a round ends at its deadline; absent devices contribute zero.
func TestUnderDPTheDeadlineEndsARound(t *testing.T) {
	t.Parallel()
	s := withDP(small(4), "epsilon=20,delta=1e-3,clip=0.5")
	s.Rounds, s.Deadline, s.Minimum = 1, 200*time.Millisecond, 0.01
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	h := r.enrolled(4)[2]
	if fate, err := h.report(h.task()); err != nil || fate != pb.ReportState_COUNTED {
		t.Fatalf("%v, %v", fate, err)
	}
	waitFor(t, "the end", func() bool { return r.c.Status().Round == 1 })
	st := r.c.Status()
	if len(r.counted(0)) != 1 || !st.LedgerOK || st.Epsilon == nil || *st.Epsilon <= 0 {
		t.Errorf("%+v", st)
	}
}

func TestPauseAndResume(t *testing.T) {
	ctx := context.Background()
	s := small(2)
	s.Rounds = 2
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(2)
	task := d[0].task()
	pause := func(on bool) {
		t.Helper()
		if _, err := r.admin.Pause(ctx, on); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	if a := d[0].check(); a.GetTask() != nil {
		t.Error("a paused coordinator gives tasks")
	}
	// Who had a task may finish it.
	for _, h := range d {
		if fate, err := h.report(task); err != nil || fate != pb.ReportState_COUNTED {
			t.Fatalf("%v, %v", fate, err)
		}
	}
	waitFor(t, "the pause", func() bool { return r.c.Status().State == Paused && r.c.Status().Round == 1 })
	r.stop()
	r = open(t, dir, nil, nil)
	d = r.enrolled(2)
	waitFor(t, "the pause after a start", func() bool { return r.c.Status().State == Paused })
	pause(false)
	r.play(d, 2)
}

// Going back makes a new version of an old model; rounds come again, with other cohorts and
// other noise, and nobody's report of before counts.
func TestRollback(t *testing.T) {
	ctx := context.Background()
	s := withDP(small(6), "epsilon=50,delta=1e-3,clip=0.5")
	s.Deterministic, s.Rounds, s.Deadline = false, 3, 200*time.Millisecond
	s.Cohort.Kind, s.Cohort.Share = "poisson", 0.5
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(6)
	r.play(d, 3)
	if got := r.c.Status().State; got != Finished {
		waitFor(t, "the end", func() bool { return r.c.Status().State == Finished })
	}
	before, _ := r.model()
	seed, spent := r.c.groupSeed(), *r.c.Status().Epsilon
	if _, err := r.admin.Rollback(ctx, 999); err == nil {
		t.Error("a version that there is not is gone back to")
	}
	if _, err := r.admin.Rollback(ctx, 2); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the way back", func() bool { return r.c.Status().Version > before.Version })
	m, _ := r.model()
	if !m.RolledBack || m.Rollbacks != 1 {
		t.Errorf("%v", m)
	}
	if r.c.groupSeed() == seed {
		t.Error("the cohorts of rounds that come again are those of before")
	}
	// The budget was for three rounds: no more is released, and the model is served.
	waitFor(t, "the budget's end", func() bool {
		for _, h := range d {
			h.check()
		}
		return r.c.Status().State == BudgetSpent
	})
	if got := *r.c.Status().Epsilon; got < spent {
		t.Errorf("epsilon was %g and is %g", spent, got)
	}
	// It neither spins nor dies.
	n := runtime.NumGoroutine()
	for range 20 {
		r.c.requests.notify()
		time.Sleep(time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > n+10 {
		t.Errorf("%d goroutines became %d", n, after)
	}
	if a, err := d[0].CheckIn(ctx, &pb.CheckInRequest{}); err != nil || a.Manifest == nil {
		t.Errorf("the model is not served any more: %v", err)
	}
	if r.c.Status().Lost != 0 {
		t.Errorf("%d reports are called lost", r.c.Status().Lost)
	}
}

// An operator may go back while a round is open: it ends first, and then the model is the
// old one.
func TestRollbackWhileARoundIsOpen(t *testing.T) {
	s := small(3)
	s.Rounds = 3
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(3)
	r.play(d, 1)
	_, first := r.model()
	task := d[0].task()
	if _, err := d[0].report(task); err != nil {
		t.Fatal(err)
	}
	if _, err := r.admin.Rollback(context.Background(), 2); err != nil {
		t.Fatal(err)
	}
	for _, h := range d[1:] {
		if _, err := h.report(task); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the way back", func() bool { m, _ := r.model(); return m.RolledBack })
	if m, bits := r.model(); bits != first || m.Round != 1 {
		t.Errorf("after going back %d rounds are in the model, and its bits are the old ones: %v", m.Round,
			bits == first)
	}
	r.play(d, 3)
	if n := r.c.Status().Lost; n != 0 {
		t.Errorf("%d reports are called lost", n)
	}
}

func TestATreeIsNeverRolledBackOrGrown(t *testing.T) {
	ctx := context.Background()
	s := withDP(small(4), "epsilon=50,delta=1e-3,clip=0.5,mechanism=tree")
	s.Rounds, s.Deadline = 2, 100*time.Millisecond
	s.Cohort.Kind, s.Cohort.Count = "cycle", 2
	warned := make(chan string, 9)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s,
		func(o *Options) { o.Warn = func(text string) { warned <- text } })
	r.play(r.enrolled(4), 2)
	waitFor(t, "the rounds", func() bool { return r.c.Status().State == Finished })
	if _, err := r.admin.Rollback(ctx, 1); err == nil || !strings.Contains(err.Error(),
		"tree") {
		t.Errorf("a tree is gone back in: %v", err)
	}
	if _, err := r.admin.Items(ctx, []*pb.Item{{Id: "new"}}); err != nil {
		t.Fatal(err)
	}
	if text := <-warned; !strings.Contains(text, "tree") {
		t.Errorf("the warning is %q", text)
	}
	if n := r.c.Status().Items; n != 10 {
		t.Errorf("there are %d items", n)
	}
}

// New items come with rows of their own, and what is there stays as it is, with what the
// server's rule remembers of it.
func TestTheCatalogueGrows(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := small(3)
	s.Server = aggregate.Rule{Kind: "adam", Rate: 0.01}
	s.Rounds = 6
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(3)
	r.play(d, 2)
	value, state := grownFrom(r.c, 0)
	if _, err := r.admin.Items(ctx, []*pb.Item{
		{Id: "new", Title: "New"},
		{Id: "i3", Retired: true},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.admin.Items(ctx, []*pb.Item{
		{Id: "newer"},
		{Id: "new", Title: "Renamed"},
	}); err != nil {
		t.Fatal(err)
	}
	r.play(d, 4)
	if st := r.c.Status(); st.Items != 12 || st.Catalogue < 2 {
		t.Fatalf("%d items, catalogue %d", st.Items, st.Catalogue)
	}
	r.stop()
	r = open(t, dir, nil, nil)
	d = r.enrolled(3)
	_, after := grownFrom(r.c, 0)
	if len(after.V) <= len(state.V) || len(value) == 0 {
		t.Errorf("the rule remembers %d numbers, and had %d", len(after.V), len(state.V))
	}
	r.play(d, 6)
	if it := r.c.catalogue.Current().Items; it[10].Title != "Renamed" || !it[3].Retired || it[3].Title != "Item 3" ||
		it[11].Id != "newer" {
		t.Errorf("the catalogue is %v", it)
	}
}

func grownFrom(c *Coordinator, slot int) ([]float32, aggregate.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.engine.Value[slot], c.engine.State[slot]
}

// Growth is exact: old values and moments are there, new moments are as at the start.
func TestGrowthIsExact(t *testing.T) {
	s := small(3)
	s.Server = aggregate.Rule{Kind: "adam", Rate: 0.01}
	c := still(t, s, nil)
	st := aggregate.State{}
	change := make([]float32, len(c.engine.Value[0]))
	for i := range change {
		change[i] = float32(i) - 3
	}
	s.Server.Apply(change, &st, c.engine.Value[0])
	c.engine.State[0] = st
	old := c.engine
	if err := c.grow(13, nil); err != nil {
		t.Fatal(err)
	}
	got := c.engine.State[0]
	for i := range got.V {
		v, m := float32(1e-3*1e-3), float32(0)
		if i < len(st.V) {
			v, m = st.V[i], st.M[i]
		}
		if got.V[i] != v || got.M[i] != m {
			t.Fatalf("place %d: moments %g and %g, want %g and %g", i, got.M[i], got.V[i], m, v)
		}
	}
	for i, x := range old.Value[0] {
		if c.engine.Value[0][i] != x {
			t.Fatalf("place %d: %g, want %g", i, c.engine.Value[0][i], x)
		}
	}
}

// Where more than rows of items depends on their number, growth is refused, and all is
// as before. No method of the registry is such a one, so a plan is made to look it.
func TestImpossibleGrowthIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *method.Slot) bool{
		"another width":   func(s *method.Slot) bool { s.Dim++; return true },
		"rows of no item": func(s *method.Slot) bool { s.Rows += 5; return !s.PerItem },
	} {
		warned := ""
		c := still(t, small(3), func(text string) { warned = text })
		engine, plan := c.engine, *c.plan
		plan.Slots = slices.Clone(plan.Slots)
		for i := range plan.Slots {
			if slot := plan.Slots[i]; change(&slot) {
				plan.Slots[i] = slot
				break
			}
		}
		c.install(engine, &plan)
		if _, err := c.AddItems([]*pb.Item{{Id: "new"}}); err != nil {
			t.Fatal(err)
		}
		if err := c.takeItems(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(warned, "change its shape") || c.engine != engine || c.plan != &plan ||
			c.Status().Items != 10 || c.catalogue.Pending() != 0 {
			t.Errorf("%s: %d items, %d waiting; the warning is %q", name, c.Status().Items, c.catalogue.Pending(),
				warned)
		}
	}
}

// still is a coordinator whose rounds do not run.
func still(t *testing.T, s Settings, warn func(string)) *Coordinator {
	t.Helper()
	c, err := Open(Options{Dir: filepath.Join(t.TempDir(), "state"), Warn: warn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Begin(s, stock(10)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Old versions are swept away with all that only they need.
func TestOldVersionsAreDeleted(t *testing.T) {
	t.Parallel()
	s := small(2)
	s.Rounds, s.Server = 30, aggregate.Rule{Kind: "adam", Rate: 0.01}
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(2)
	r.play(d, 14)
	blobs := len(r.c.st.Blobs())
	r.play(d, 30)
	r.stop()
	r = open(t, dir, nil, nil)
	if n := len(r.c.st.Blobs()); n > blobs+4 {
		t.Errorf("%d blobs became %d", blobs, n)
	}
	h, err := r.admin.History(context.Background())
	if err != nil || len(h) != models.VersionsOnDisk {
		t.Fatalf("%d versions, %v", len(h), err)
	}
	if logs := r.c.st.Logs("round."); len(logs) > 4 {
		t.Errorf("groups of rounds that are over: %v", logs)
	}
	// Each of them can be fetched whole, and is signed.
	for i := range h {
		signed, err := h[i].Signed()
		if err != nil {
			t.Fatal(err)
		}
		m, err := wire.VerifyManifest(r.c.identity.key.Public().(ed25519.PublicKey), r.c.identity.id[:], signed)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range append([]*pb.Blob{m.Plan, m.Catalogue}, m.Slots...) {
			if len(b.Hash) == 0 {
				continue
			}
			if got, err := r.newDevice("x").Fetch(context.Background(), &pb.FetchRequest{Hash: b.Hash}); err == nil {
				t.Errorf("a stranger fetches %d bytes", len(got.Data))
			}
			data, err := r.c.models.Read(hex.EncodeToString(b.Hash))
			if err != nil || !proto.Equal(wire.HashBlob(data), b) {
				t.Errorf("version %d: %v", m.Version, err)
			}
		}
	}
}

// A device that checks in while the last round ends learns of the end together with the last model: it would come
// again for it only after minutes.
func TestTheEndOfARunComesWithItsModel(t *testing.T) {
	t.Parallel()
	for call := range int64(3) {
		s := small(2)
		s.Rounds = 1
		var left atomic.Int64
		end := func() {}
		r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
			o.Now = func() time.Time {
				if calledBy("deviceAPI.CheckIn") && left.Add(-1) == 0 {
					end()
				}
				return time.Now()
			}
		})
		d := r.enrolled(2)
		if _, err := d[0].report(d[0].task()); err != nil {
			t.Fatal(err)
		}
		last := d[1].task()
		end = func() {
			if _, err := d[1].report(last); err != nil {
				t.Error(err)
			}
			waitFor(t, "the end", func() bool { return r.c.Status().State == Finished })
		}
		left.Store(call + 1)
		a := d[0].check()
		var m pb.Manifest
		if err := proto.Unmarshal(a.GetManifest().GetBody(), &m); err != nil {
			t.Fatal(err)
		}
		if a.GetWait().GetFinished() && m.Round != 1 {
			t.Errorf("call %d: the run is over, and the manifest is of round %d", call, m.Round)
		}
		r.stop()
	}
}

// A device that brings the last report while the run ends gets no model with the answer: it comes for it within
// seconds, not after the interval of a coordinator without work.
func TestTheLastReporterComesSoonForTheModel(t *testing.T) {
	t.Parallel()
	s := small(1)
	s.Rounds = 1
	ended := func() {}
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.CheckIns = CheckIns{}
		o.Now = func() time.Time {
			if calledBy("deviceAPI.Report") {
				ended()
			}
			return time.Now()
		}
	})
	h := r.enrolled(1)[0]
	task := h.task()
	ended = sync.OnceFunc(func() { // the clock is first read when the report has been counted
		waitFor(t, "the end", func() bool { return r.c.Status().State == Finished })
	})
	a, err := h.Report(context.Background(), request(task, h.body(task)))
	if err != nil {
		t.Fatal(err)
	}
	if wait := time.Duration(a.AfterMs) * time.Millisecond; a.State != pb.ReportState_COUNTED || wait > 3*time.Second {
		t.Errorf("the report is %v, and the device comes for the model after %v", a.State, wait)
	}
	r.stop()
}

// calledBy reports whether the function is one of the callers.
func calledBy(function string) bool {
	callers := make([]uintptr, 8)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.HasSuffix(f.Function, function) {
			return true
		}
	}
	return false
}
