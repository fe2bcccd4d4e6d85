package collection

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

const length = 5

func task() *pb.Task {
	return &pb.Task{
		Kind: pb.Kind_TRAIN, Run: []byte("0123456789abcdef"), Round: 2, Length: length,
		Bound: &pb.Bound{Clip: 1, Levels: 1 << 20, Max: 1 << 20},
	}
}

func vector(id uint32) []int64 {
	v := make([]int64, length)
	for i := range v {
		v[i] = int64(id)*7 - int64(i)*11
	}
	return v
}

func update(id uint32) []byte { return wire.AppendUpdate(nil, vector(id)) }

func cohort(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(i)
	}
	return ids
}

func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func openRound(t *testing.T, c RoundConfig) *Round {
	t.Helper()
	c.Task, c.Log, c.Ends = task(), "round.test", time.Now().Add(time.Hour)
	r, err := OpenRound(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sumOf is the sum of what the devices sent.
func sumOf(ids []uint32) []int64 {
	sum := make([]int64, length)
	for _, id := range ids {
		for i, x := range vector(id) {
			sum[i] += x
		}
	}
	return sum
}

// All shards together accept no more reports than the limit, and after a restart too.
func TestTheLimitHoldsOverAllShardsAndRestarts(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		st := openStore(t, dir)
		r := openRound(t, RoundConfig{Store: st, Cohort: cohort(200), Goal: 7, Limit: 7})
		var wg sync.WaitGroup
		for id := range uint32(200) {
			wg.Go(func() { _ = r.Add(id, uint64(id)+1, update(id)) })
		}
		wg.Wait()
		<-r.Full()
		r.Close()
		sum, idle, closed := r.Result()
		if len(closed.Devices) != 7 || idle != 0 || !slices.Equal(sum, sumOf(closed.Devices)) {
			t.Errorf("%d reports are in the sum", len(closed.Devices))
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReportIsAddedOnce(t *testing.T) {
	st := openStore(t, t.TempDir())
	defer st.Close()
	r := openRound(t, RoundConfig{Store: st, Cohort: cohort(4), Goal: 4})
	for range 2 {
		if err := r.Add(1, 10, update(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Add(1, 11, update(2)); !errors.Is(err, ErrOtherReport) {
		t.Errorf("another report of the device: %v", err)
	}
	if err := r.Add(9, 1, update(9)); !errors.Is(err, ErrNotInCohort) {
		t.Errorf("a device outside of the cohort: %v", err)
	}
	if err := r.Add(2, 20, []byte(emptyUpdate)); err != nil {
		t.Errorf("an idle device: %v", err)
	}
	if r.Task(1, time.Now()) != nil || r.Task(3, time.Now()) == nil {
		t.Error("a device that reported has a task, or another one has none")
	}
	r.Close()
	if err := r.Add(3, 30, update(3)); !errors.Is(err, ErrClosed) {
		t.Errorf("a report after the end: %v", err)
	}
	sum, idle, closed := r.Result()
	if !slices.Equal(sum, vector(1)) || idle != 1 || !slices.Equal(closed.Devices, []uint32{1, 2}) ||
		!slices.Equal(closed.Digests, []uint64{10, 20}) {
		t.Errorf("%v, %d idle, %+v", sum, idle, closed)
	}
}

// Of two reports of one device in the same record one is in the sum, and only that one is
// acknowledged.
func TestTwoReportsOfOneDeviceAtOnce(t *testing.T) {
	r := openRound(t, RoundConfig{Cohort: []uint32{5}, Goal: 1})
	defer r.Close()
	all := []*report{
		{id: 5, digest: 1, update: update(1)},
		{id: 5, digest: 2, update: update(2)},
		{id: 5, digest: 1, update: update(1)},
	}
	if err := r.commit("", make([]int64, length), all); err != nil {
		t.Fatal(err)
	}
	if sum, _, _ := r.Result(); !slices.Equal(sum, vector(1)) || all[0].other || !all[1].other || all[2].other {
		t.Errorf("the sum is %v; another report than the one in it is the first %v, the second %v, the first again %v",
			sum, all[0].other, all[1].other, all[2].other)
	}
	for digest, want := range map[uint64]error{1: nil, 2: ErrOtherReport} {
		if err := r.Add(5, digest, update(1)); !errors.Is(err, want) {
			t.Errorf("report %d: %v, expected %v", digest, err, want)
		}
	}
}

func TestCheckTellsMalformedFromTooLarge(t *testing.T) {
	r := openRound(t, RoundConfig{Cohort: cohort(1), Goal: 1})
	defer r.Close()
	large := make([]int64, length)
	large[0] = 1 << 20
	large[1] = 1 << 20
	for name, x := range map[string]struct {
		update       []byte
		emptyInvalid bool
		malformed    bool
		ok           bool
	}{
		"valid":         {update: update(1), ok: true},
		"idle":          {update: []byte(emptyUpdate), ok: true},
		"idle under DP": {update: []byte(emptyUpdate), emptyInvalid: true, malformed: true},
		"garbage":       {update: []byte{1, 2, 3}, malformed: true},
		"too large":     {update: wire.AppendUpdate(nil, large)},
	} {
		malformed, err := r.Check(x.update, x.emptyInvalid)
		if malformed != x.malformed || (err == nil) != x.ok {
			t.Errorf("%s: malformed %v, %v", name, malformed, err)
		}
	}
}

// A device whose reservation expired and that reports after all keeps the round open.
func TestARoundIsExhaustedWhenNoDeviceCanBeExpected(t *testing.T) {
	r := openRound(t, RoundConfig{Cohort: []uint32{1, 2, 3}, Goal: 2, Limit: 2, Hold: time.Second})
	defer r.Close()
	at := time.Unix(0, 0)
	pass := func(d time.Duration) { at = at.Add(d) }
	expect := func(what string, want bool) {
		t.Helper()
		if got := r.Exhausted(); got != want {
			t.Errorf("%s: exhausted is %v", what, got)
		}
	}
	expect("no device checked in", false)
	r.Task(1, at)
	expect("a device checked in", false)
	pass(1500 * time.Millisecond)
	r.Task(2, at)
	pass(500 * time.Millisecond)
	r.Extend(at, 2*time.Second)
	expect("one still holds its reservation", false)
	r.Task(1, at)
	pass(2 * time.Second)
	r.Extend(at, 2*time.Second)
	expect("no device checked in since", false)
	r.Task(1, at)
	r.Task(2, at)
	expect("both devices sent nothing before", true)
	r.Task(3, at)
	expect("a third device would take a place", false)
	pass(2 * time.Second)
	r.Extend(at, 2*time.Second)
	r.Task(2, at)
	r.Task(3, at)
	expect("the third sent nothing either", true)
	r.Task(1, at)
	if err := r.Add(1, 1, []byte(emptyUpdate)); err != nil {
		t.Fatal(err)
	}
	expect("one of them reported", false)
}

// FuzzRecord reads records: what is read is what was written.
func FuzzRecord(f *testing.F) {
	f.Add((&record{
		ids: []uint32{1, 2}, digests: []uint64{3, 4}, idle: []bool{true, false},
		sum: wire.AppendUpdate(nil, []int64{1, -2}),
	}).bytes())
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := readRecord(b)
		if err != nil {
			return
		}
		if len(rec.ids) > len(b) || len(rec.bytes()) != len(b) {
			t.Errorf("%d bytes became %d", len(b), len(rec.bytes()))
		}
	})
}
