package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
)

// Items that arrive while a round has reports wait for its end, also after a restart: the reports
// are for the old catalogue.
func TestItemsWaitForAnInterruptedRound(t *testing.T) {
	t.Parallel()
	s := small(3)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(3)
	if _, err := d[0].report(d[0].task()); err != nil {
		t.Fatal(err)
	}
	var items []*pb.Item
	for i := range 40_000 { // more than a small value holds
		items = append(items, &pb.Item{Id: fmt.Sprintf("new %d", i), Title: "a title that takes some room"})
	}
	if _, err := r.c.AddItems(items); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = open(t, dir, nil, nil)
	if n := r.c.plan.Items; n >= 40_000 {
		t.Fatalf("the open round has %d items", n)
	}
	waitFor(t, "the round has its report again", func() bool { return r.c.Status().Counted == 1 })
}

// Items that an operator adds while others are taken in are not lost by a stop.
func TestItemsAddedDuringAMergeStay(t *testing.T) {
	t.Parallel()
	s := small(2)
	dir := filepath.Join(t.TempDir(), "state")
	ctx := context.Background()
	var c *Coordinator
	late := func(at string) (err error) {
		if at == "merged" {
			_, err = c.AddItems([]*pb.Item{
				{Id: "early", Title: "Renamed"},
				{Id: "late"},
			})
		}
		return err
	}
	r := open(t, dir, &s, func(o *Options) { o.fault = func(at string) error { return late(at) } })
	c = r.c
	if _, err := r.admin.Items(ctx, []*pb.Item{{Id: "early"}}); err != nil {
		t.Fatal(err)
	}
	r.enrolled(2)
	waitFor(t, "the round", func() bool { _, sum := r.sums(); return sum != nil })
	if n := r.c.Status().Items; n < 11 {
		t.Errorf("the round that is open has %d items, want 11, or 12 if there was time for another merge", n)
	}
	r.stop()
	r = open(t, dir, nil, nil)
	waitFor(t, "the round after a start", func() bool { _, sum := r.sums(); return sum != nil })
	if it := r.c.catalogue.Current().Items; len(it) != 12 || it[10].Title != "Renamed" || it[11].Id != "late" {
		t.Errorf("the catalogue is %v", it)
	}
}

// A rollback requested during another one is executed, also after a restart.
func TestARollbackRequestedDuringARollbackStays(t *testing.T) {
	t.Parallel()
	s := small(2)
	s.Rounds = 2
	dir := filepath.Join(t.TempDir(), "state")
	ctx := context.Background()
	var c atomic.Pointer[Coordinator] // when all rounds are run
	r := open(t, dir, &s, func(o *Options) {
		o.fault = func(at string) (err error) {
			if c := c.Load(); c != nil && at == "published" {
				err = c.Rollback(1)
			}
			return err
		}
	})
	d := r.enrolled(2)
	r.play(d, 2)
	waitFor(t, "the end", func() bool { return r.c.Status().State == Finished })
	c.Store(r.c)
	if _, err := r.admin.Rollback(ctx, 2); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the way back", func() bool { n, sum := r.sums(); return n == 0 && sum != nil })
	r.stop()
	r = open(t, dir, nil, nil)
	waitFor(t, "the way back to the start", func() bool { m, _ := r.model(); return m.RolledBack && m.Round == 0 })
}

// The number of lost reports that one device can claim is bounded.
func TestADeviceCannotInventLostRounds(t *testing.T) {
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(2)
	for k := range uint32(50) {
		last := &pb.LastReport{Run: r.c.runID(), Round: 7 + k, Digest: make([]byte, 32)}
		if _, err := d[0].CheckIn(context.Background(), &pb.CheckInRequest{LastReport: last}); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.c.Status().Lost; n > 1 {
		t.Errorf("one device has lost %d reports", n)
	}
}

// Items that an operator adds while others are taken in are kept, on disk too.
func TestItemsAddedDuringARoundAreKept(t *testing.T) {
	t.Parallel()
	s := small(1)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.pause(true)
	r.enrolled(1)
	const n = 60
	for i := range n {
		q := []*pb.Item{{Id: fmt.Sprint("new ", i)}}
		if _, err := r.admin.Items(context.Background(), q); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "all items", func() bool { return r.c.Status().Items == 10+n })
	r.stop()
	r = open(t, dir, nil, nil)
	if got := r.c.Status().Items; got != 10+n || r.c.catalogue.Pending() > 0 {
		t.Errorf("%d items, and %d wait: want %d and none", got, r.c.catalogue.Pending(), 10+n)
	}
}
