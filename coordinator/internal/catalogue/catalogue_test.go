package catalogue

import (
	"errors"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
)

func open(t *testing.T, dir string) (*Catalogue, *store.Store) {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(st)
	if err != nil {
		t.Fatal(err)
	}
	c.Set(&pb.Catalogue{Version: 1, Items: []*pb.Item{{Id: "a", Title: "A"}, {Id: "b", Title: "B"}}}, nil)
	return c, st
}

func TestMergeAddsAndChangesItems(t *testing.T) {
	before := &pb.Catalogue{Version: 4, Items: []*pb.Item{{Id: "a", Title: "A"}}}
	after, err := Merge(before, []*pb.Item{{Id: "b"}, {Id: "a", Retired: true}, {Id: "b", Title: "B"}})
	if err != nil {
		t.Fatal(err)
	}
	c := after.Catalogue
	if after.Added != 1 || after.Changed != 2 || c.Version != 5 || len(c.Items) != 2 {
		t.Errorf("%d added, %d changed: %v", after.Added, after.Changed, c)
	}
	if !c.Items[0].Retired || c.Items[0].Title != "A" || c.Items[1].Title != "B" {
		t.Errorf("the items are %v", c.Items)
	}
	if before.Version != 4 || before.Items[0].Retired {
		t.Error("Merge changed its argument")
	}
	if _, err := Merge(before, []*pb.Item{{Id: ""}}); err == nil {
		t.Error("an item without an ID is merged")
	}
}

// What was acknowledged is merged after a restart, also if a part of it was merged before.
func TestPendingItemsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	c, st := open(t, dir)
	if _, err := c.Add([]*pb.Item{{Id: "c"}}); err != nil {
		t.Fatal(err)
	}
	n := c.Pending()
	got, err := c.Add([]*pb.Item{{Id: "c", Title: "C"}, {Id: "d"}})
	if err != nil || got.Added != 1 || got.Changed != 1 || got.Waiting != 1 {
		t.Errorf("%v, %v", got, err)
	}
	items, features, err := c.Next(n)
	if err != nil || len(items.Items) != 3 || items.Items[2].Title != "" || features != nil {
		t.Fatalf("%v, %v", items, err)
	}
	c.Set(items, features)
	if err := c.Remove(n); err != nil || c.Pending() != 2 {
		t.Errorf("%d wait, %v", c.Pending(), err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	c, st = open(t, dir)
	defer st.Close()
	c.Set(items, nil)
	if c.Pending() != 3 {
		t.Fatalf("%d items wait after a restart", c.Pending())
	}
	items, _, err = c.Next(3)
	if err != nil || len(items.Items) != 4 || items.Items[2].Title != "C" {
		t.Errorf("%v, %v", items, err)
	}
	if err := c.Remove(3); err != nil || len(st.Logs(pendingLog)) != 0 {
		t.Errorf("the log stays: %v", err)
	}
}

func TestAnInvalidItemIsNotQueued(t *testing.T) {
	c, st := open(t, t.TempDir())
	defer st.Close()
	bad := &pb.Item{Id: "c", Features: []*pb.Setting{{Key: "genre", Value: "x"}}}
	for _, items := range [][]*pb.Item{{{Id: ""}}, {bad}} {
		if _, err := c.Add(items); !errors.As(err, new(*InvalidError)) {
			t.Errorf("%v: %v", items, err)
		}
	}
	if c.Pending() != 0 || len(st.Logs(pendingLog)) != 0 {
		t.Errorf("%d items wait", c.Pending())
	}
}
