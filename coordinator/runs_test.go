package coordinator

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// waitState waits until the coordinator is in a state. If it is to train, it may wait for check-ins.
func (r *harness) waitState(want State) {
	r.t.Helper()
	waitFor(r.t, string(want), func() bool {
		state := r.c.Status().State
		return state == want || want == Training && state == WaitingForCheckIns
	})
}

// planOf is the plan of the newest version.
func (r *harness) planOf() *pb.Plan {
	r.t.Helper()
	m, _ := r.model()
	b, err := r.c.models.Read(hex.EncodeToString(m.Plan.Hash))
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := wire.ReadPlan(b)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// After a run another one begins for the same devices: from the last model, with pending items, in
// rounds from 0. What belonged to the run before is gone.
func TestAnotherRunStartsFromTheLastModel(t *testing.T) {
	t.Parallel()
	s := small(3)
	s.Rounds = 2
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(3)
	r.play(d, 2)
	r.waitState(Finished)
	before, bits := r.model()
	old := d[0].last
	if before.RunNumber != 1 || r.planOf().Continues {
		t.Errorf("run %d, continues %t", before.RunNumber, r.planOf().Continues)
	}
	if err := r.c.Begin(s, stock(10)); err != nil || r.c.runNumber() != 1 {
		t.Errorf("a restart with the same settings begins run %d, %v", r.c.runNumber(), err)
	}
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	m, now := r.model()
	if now != bits || m.Version <= before.Version || m.Round != 0 || m.RunNumber != 2 ||
		slices.Equal(m.Run, before.Run) || !r.planOf().Continues {
		t.Errorf("run %d, version %d, round %d, continues %t, same values %t", m.RunNumber, m.Version, m.Round,
			r.planOf().Continues, now == bits)
	}
	if closed, err := r.c.collection.History.Read(0); err != nil || closed != nil {
		t.Errorf("a closed round of the run before is there: %v, %v", closed, err)
	}
	_, err := d[0].Report(context.Background(), &pb.ReportRequest{
		Run: old.Run, Round: old.Round, Kind: pb.Kind_TRAIN, Digest: old.Digest, Bytes: 4, Data: make([]byte, 4),
	})
	r.refused(err, "wrong_run")
	r.play(d, 2)
	r.waitState(Finished)
	if m, now = r.model(); now == bits || m.Round != 2 {
		t.Errorf("run 2 trained nothing: round %d", m.Round)
	}
	// Items that wait for the next run are in it, and so are those that it is given.
	r.stop()
	r = open(t, dir, nil, nil)
	if _, err := r.c.AddItems([]*pb.Item{{Id: "added"}, {Id: "i3", Retired: true}}); err != nil {
		t.Fatal(err)
	}
	if err := r.c.BeginRun(nil, []*pb.Item{{Id: "given"}}); err != nil {
		t.Fatal(err)
	}
	items := r.c.catalogue.Current().Items
	if len(items) != 12 || !items[3].Retired || items[10].Id != "added" || items[11].Id != "given" ||
		r.c.plan.Items != 12 || r.c.catalogue.Pending() != 0 || r.c.runNumber() != 3 {
		t.Errorf("run %d has %d items: %v", r.c.runNumber(), r.c.plan.Items, items)
	}
}

// A run that is not finished is not replaced: an operator ends it first, and it ends after its round.
func TestAnUnfinishedRunIsEndedFirst(t *testing.T) {
	t.Parallel()
	s := small(2)
	dir := filepath.Join(t.TempDir(), "state")
	var warnings []string
	var mu sync.Mutex
	r := open(t, dir, &s, func(o *Options) {
		o.Warn = func(w string) { mu.Lock(); warnings = append(warnings, w); mu.Unlock() }
	})
	d := r.enrolled(2)
	r.play(d, 1)
	other := s
	other.Rounds, other.Params = 1, map[string]string{"dim": "3"}
	for _, err := range []error{r.c.Begin(other, stock(10)), r.c.BeginNext(), r.c.BeginRun(&other, nil)} {
		if !errors.Is(err, ErrBegun) || !strings.Contains(err.Error(), "tacit admin end") {
			t.Errorf("another run: %v", err)
		}
	}
	if err := r.c.EndRun(); err != nil {
		t.Fatal(err)
	}
	r.play(d, 2) // the round in progress
	r.waitState(Finished)
	if st := r.c.Status(); st.Round != 2 || !strings.Contains(st.Message, "ended run 1 after round 2") {
		t.Errorf("round %d: %s", st.Round, st.Message)
	}
	if err := r.c.EndRun(); err == nil || !strings.Contains(err.Error(), "over already") {
		t.Errorf("ended twice: %v", err)
	}
	r.stop()
	r = open(t, dir, nil, nil) // it stays ended
	r.waitState(Finished)
	r.stop()
	r = open(t, dir, &other, func(o *Options) { // other settings begin another run
		o.Warn = func(w string) { mu.Lock(); warnings = append(warnings, w); mu.Unlock() }
	})
	if m, _ := r.model(); m.RunNumber != 2 || m.Round != 0 || r.planOf().Continues {
		t.Errorf("run %d, round %d, continues %t", m.RunNumber, m.Round, r.planOf().Continues)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "other shapes") }) {
		t.Errorf("nobody was told that the run starts from initial values: %q", warnings)
	}
}

// fakeClock is a clock that tests set.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func (f *fakeClock) get() time.Time { f.mu.Lock(); defer f.mu.Unlock(); return f.now }

// set sets the clock and wakes the loop.
func (f *fakeClock) set(r *harness, text string) {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	f.now = t
	f.mu.Unlock()
	if r != nil {
		r.c.requests.notify()
	}
}

// scheduled opens a coordinator with a daily schedule and a clock.
func scheduled(t *testing.T, dir string, s *Settings, clock *fakeClock, warn func(string)) *harness {
	t.Helper()
	return open(t, dir, s, func(o *Options) {
		o.Schedule, o.Now, o.Warn = "daily@03:00", clock.get, warn
	})
}

// finishRun lets two devices report in a run of one round. Requests would be refused at the time of a
// fake clock.
func (r *harness) finishRun(number int) {
	r.t.Helper()
	waitFor(r.t, "the run", func() bool {
		st := r.c.Status()
		if st.RunNumber != number {
			return false
		}
		for id := range uint32(2) { // they check in
			r.c.devices.Seen(id, r.c.now(), time.Hour)
		}
		if open := r.c.collection.OpenRound(); open != nil {
			for id := range uint32(2) {
				update := wire.AppendUpdate(nil, vector(id, open.Number(), uint64(r.c.plan.UpdateLength(0)+1)))
				_ = open.Add(id, uint64(id)+1, update)
			}
		}
		return st.Round == 1
	})
	waitFor(r.t, "the end of the run", func() bool { return r.c.Status().State == BetweenRuns })
}

// A schedule begins runs at its times. A start that is missed happens once, one that is not possible is
// skipped, and a clock that is set repeats none.
func TestRunsFollowASchedule(t *testing.T) {
	t.Parallel()
	s := small(2)
	s.Rounds = 1
	dir := filepath.Join(t.TempDir(), "state")
	clock := &fakeClock{}
	clock.set(nil, "2026-11-15 22:54")
	var warnings []string
	var mu sync.Mutex
	warn := func(w string) { mu.Lock(); warnings = append(warnings, w); mu.Unlock() }
	r := scheduled(t, dir, &s, clock, warn)
	enrolDirectly(t, r, 2)
	r.finishRun(1)
	if m := r.c.Status().Message; !strings.Contains(m, "run 2 starts at 2026-11-16 03:00 UTC") {
		t.Errorf("between runs: %s", m)
	}
	clock.set(r, "2026-11-16 03:00")
	r.finishRun(2)
	clock.set(r, "2026-11-16 02:00") // the clock is set back, and it is 03:00 again
	clock.set(r, "2026-11-16 03:01")
	clock.set(r, "2026-11-17 03:00")
	r.finishRun(3)
	if n := len(r.c.models.Newest().Run); n == 0 || r.c.runNumber() != 3 {
		t.Errorf("run %d", r.c.runNumber())
	}
	r.stop()
	clock.set(nil, "2026-11-21 12:00") // four starts are missed
	r = scheduled(t, dir, nil, clock, warn)
	r.finishRun(4)
	r.stop()
	r = scheduled(t, dir, nil, clock, warn)
	r.waitState(BetweenRuns)
	if r.c.runNumber() != 4 {
		t.Errorf("a missed start happened twice: run %d", r.c.runNumber())
	}
	clock.set(r, "2026-11-22 03:00")
	waitFor(t, "run 5", func() bool { return r.c.Status().RunNumber == 5 })
	r.stop()
	clock.set(nil, "2026-11-23 03:00") // run 5 is not finished
	r = scheduled(t, dir, nil, clock, warn)
	waitFor(t, "a warning", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(warnings, func(w string) bool {
			return strings.Contains(w, "2026-11-23 03:00 UTC is skipped") && strings.Contains(w, "tacit admin end")
		})
	})
	if r.c.runNumber() != 5 {
		t.Errorf("run %d", r.c.runNumber())
	}
}

// enrolDirectly enrols devices without requests, whose times a fake clock would refuse.
func enrolDirectly(t *testing.T, r *harness, n int) {
	t.Helper()
	for i := range n {
		key, id := keyOf(i).Public().(ed25519.PublicKey), uint32(i)
		_, _, err := r.c.devices.Enrol(enrolment.Request{
			Key: key, Token: r.token, Wanted: &id, Limit: wire.MaxDevices, Now: r.c.now(),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A coordinator that is killed while a run begins begins it once.
func TestKilledWhileARunBegins(t *testing.T) {
	t.Parallel()
	for _, dp := range []string{"none", "epsilon=20,delta=1e-3,clip=0.5"} {
		for _, point := range []string{"begun", "versioned", "published"} {
			s := withDP(small(3), dp)
			s.Rounds = 1
			if s.DP.On() {
				s.Runs = 3
			}
			dir := filepath.Join(t.TempDir(), "state")
			var cut bool
			r := open(t, dir, &s, func(o *Options) {
				o.fault = func(at string) error {
					if cut && at == point {
						return errCut
					}
					return nil
				}
			})
			r.play(r.enrolled(3), 1)
			r.waitState(Finished)
			_, bits := r.model()
			cut = true
			if err := r.c.BeginNext(); !errors.Is(err, errCut) {
				t.Fatalf("%s: %v", point, err)
			}
			r.stop()
			r = open(t, dir, nil, nil)
			m, now := r.model()
			if m.RunNumber != 2 || m.Round != 0 || now != bits || !r.planOf().Continues {
				t.Errorf("%s, %s: run %d, round %d, same values %t", dp, point, m.RunNumber, m.Round, now == bits)
			}
			if _, runs := r.c.budget.Period(); s.DP.On() && runs != 2 {
				t.Errorf("%s: the ledger has %d runs", point, runs)
			}
			r.play(r.enrolled(3), 1)
			r.waitState(Finished)
			r.stop()
		}
	}
}

// A roll back to a version of an earlier run brings its values back and repeats no round.
func TestARollBackToAnEarlierRun(t *testing.T) {
	t.Parallel()
	s := small(2)
	s.Rounds = 2
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(2)
	r.play(d, 2)
	r.waitState(Finished)
	good, bits := r.model()
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	r.play(d, 2)
	r.waitState(Finished)
	if err := r.c.Rollback(good.Version); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the roll back", func() bool { m, _ := r.model(); return m.RolledBack })
	if m, now := r.model(); now != bits || m.RunNumber != 2 || m.Round != 2 {
		t.Errorf("run %d, round %d, the old values %t", m.RunNumber, m.Round, now == bits)
	}
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	if m, now := r.model(); now != bits || m.RunNumber != 3 || m.Round != 0 {
		t.Errorf("run %d, round %d, the old values %t", m.RunNumber, m.Round, now == bits)
	}
}

// Runs that follow each other leave nothing behind but versions, evaluations and the ledger, all of a
// bounded number.
func TestRunsDoNotGrowTheFolder(t *testing.T) {
	t.Parallel()
	s := small(2)
	s.Rounds = 1
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(2)
	var blobs, logs, keys []int
	for run := range 16 {
		if run > 0 {
			if err := r.c.BeginNext(); err != nil {
				t.Fatal(err)
			}
		}
		r.play(d, 1)
		r.waitState(Finished)
		blobs = append(blobs, len(r.c.st.Blobs()))
		logs, keys = append(logs, len(r.c.st.Logs(""))), append(keys, len(r.c.st.Keys("")))
	}
	if all, err := r.c.models.List(); err != nil || len(all) != models.VersionsOnDisk {
		t.Errorf("%d versions, %v", len(all), err)
	}
	if blobs[15] > blobs[10]+1 || logs[15] > logs[10] || keys[15] > keys[10] {
		t.Errorf("blobs %v, logs %v, keys %v", blobs, logs, keys)
	}
}
