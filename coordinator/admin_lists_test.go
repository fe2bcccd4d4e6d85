package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
)

// The list of runs says when each began and ended and why, after a restart too, and is bounded.
func TestRunsAreListed(t *testing.T) {
	ctx := context.Background()
	s := small(2)
	s.Rounds = 2
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(2)
	r.play(d, 2)
	r.waitState(Finished)
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	if err := r.c.EndRun(); err != nil {
		t.Fatal(err)
	}
	r.play(d, 1)
	r.waitState(Finished)
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.waitState(Training)
		runs, err := r.admin.Runs(ctx)
		if err != nil || len(runs) != 3 {
			t.Fatalf("%+v, %v", runs, err)
		}
		for i, want := range []struct {
			state State
			round int
		}{{Finished, 2}, {Ended, 1}, {Training, 0}} {
			x := runs[i]
			if x.Number != i+1 || x.State != want.state || x.Round != want.round || x.Rounds != 2 ||
				x.Method != "fedmf" || x.Begun.IsZero() || (x.Ended == nil) != (i == 2) {
				t.Errorf("run %d: %+v", i+1, x)
			}
		}
		r.stop()
		r = open(t, dir, nil, nil)
	}
	run := *r.c.latest.Load()
	run.earlier = make([]RunInfo, maxRuns)
	r.c.latest.Store(&run)
	if n := len(r.c.withNewest()); n != maxRuns {
		t.Errorf("%d earlier runs are remembered", n)
	}
}

// The catalogue is listed in pages, with retired items.
func TestItemsAreListed(t *testing.T) {
	ctx := context.Background()
	s := small(2)
	c, err := Open(Options{Dir: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if list := c.Items(0, 0); list.Items == nil || list.Count != 0 || len(c.Runs()) != 0 {
		t.Errorf("before the first run: %+v", list)
	}
	if err := c.Begin(s, stock(maxListed+2)); err != nil {
		t.Fatal(err)
	}
	last := c.Items(maxListed, 0)
	if first := c.Items(0, 0); len(first.Items) != maxListed || first.Next != maxListed || first.Count != maxListed+2 ||
		first.Items[3] != (ListedItem{ID: "i3", Title: "Item 3"}) {
		t.Errorf("%d items, next %d of %d", len(first.Items), first.Next, first.Count)
	}
	if len(last.Items) != 2 || last.Next != 0 || len(c.Items(1<<31, 0).Items) != 0 {
		t.Errorf("the last page: %+v", last)
	}
	r := open(t, filepath.Join(t.TempDir(), "other"), &s, nil)
	if _, err := r.c.AddItems([]*pb.Item{{Id: "i3", Retired: true}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the change", func() bool { return r.c.catalogue.Pending() == 0 })
	list, err := r.admin.ListItems(ctx, 3)
	if err != nil || !list.Items[0].Retired || list.Items[0].Title != "Item 3" || list.Count != 10 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, query := range []string{"limit=1001", "from=-1", fmt.Sprintf("from=%d", 1<<33), "first=0"} {
		if err := r.admin.Get(ctx, "items?"+query, &ItemList{}); err == nil {
			t.Errorf("%s is accepted", query)
		}
	}
}
