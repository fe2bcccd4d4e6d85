package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// columns are features of ten items and three users.
func columns() *rows.Features {
	f := &rows.Features{
		User: []rows.Column{{Name: "age", Card: 2, Code: []uint32{0, 1, 1}, Names: []string{"young", "old"}}},
		Item: []rows.Column{
			{Name: "genre", Card: 2, Start: []uint32{0}, Names: []string{"drama", "war"}},
			{Name: "cost", Card: 3, Names: []string{"free", "paid", "rent"}},
			{Name: "size"},
		},
		Row: []rows.Column{{Name: "hour", Card: 2, Code: []uint32{1, 1, 0, 1}}},
	}
	for i := range uint32(10) {
		f.Item[0].Code = append(f.Item[0].Code, i%2)
		f.Item[0].Start = append(f.Item[0].Start, i+1)
		f.Item[1].Code = append(f.Item[1].Code, min(i/3, 1))
		f.Item[2].Value = append(f.Item[2].Value, float32(i))
	}
	return f
}

func featured() Settings {
	s := small(1)
	s.Method, s.Params, s.Features = "privrec", map[string]string{"dim": "2", "layers": "4"}, columns()
	return s
}

// What a coordinator has of features, in memory, on disk and for devices, is what columns
// there are and what items are like.
func TestACoordinatorKeepsNoFeaturesOfUsers(t *testing.T) {
	t.Parallel()
	s := featured()
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	see := func(f *rows.Features) {
		t.Helper()
		if f.User[0].Len() != 0 || f.Row[0].Len() != 0 || !slices.Equal(f.User[0].Names, []string{"young", "old"}) ||
			f.Row[0].Card != 2 {
			t.Errorf("of users and moments it has %+v, %+v", f.User, f.Row)
		}
		if !slices.Equal(f.Item[1].Code, columns().Item[1].Code) || !slices.Equal(f.Item[0].Start,
			columns().Item[0].Start) || !slices.Equal(f.Item[2].Value, columns().Item[2].Value) {
			t.Errorf("of items it has %+v", f.Item)
		}
	}
	see(r.c.catalogue.Features())
	m, _ := r.model()
	h := r.enrolled(1)[0]
	f, err := wire.ReadFeatures(h.get(m.Features), 10)
	if err != nil {
		t.Fatal(err)
	}
	see(f)
	r.stop()
	r = open(t, dir, nil, nil) // without any features given
	see(r.c.catalogue.Features())
	again, _ := r.model()
	if string(again.Features.Hash) != string(m.Features.Hash) ||
		len(r.c.settings().message(r.c.plan, r.c.catalogue.Features()).Features) != 5 {
		t.Error("the features are others after a start")
	}
}

func TestItemsAreAddedWithFeatures(t *testing.T) {
	t.Parallel()
	s := featured()
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.pause(true)
	h := r.enrolled(1)[0]
	before, _ := r.model()
	give := func(id string, words ...string) *pb.Item {
		it := &pb.Item{Id: id}
		for i := 0; i < len(words); i += 2 {
			it.Features = append(it.Features, &pb.Setting{Key: words[i], Value: words[i+1]})
		}
		return it
	}
	q := []*pb.Item{
		give("new", "genre", "war|drama", "cost", "rent", "size", "2.5"), give("plain"), give("i3", "cost", "free"),
		give("new", "size", "3.5"),
	}
	if _, err := r.admin.Items(context.Background(), q); err != nil {
		t.Fatal(err)
	}
	after := r.after(before.Version)
	f, err := wire.ReadFeatures(h.get(after.Features), 12)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		item         uint32
		genre, costs []uint32
		size         float32
	}{
		{10, []uint32{1, 0}, []uint32{2}, 3.5},
		{11, nil, []uint32{1}, 0},
		{3, []uint32{1}, []uint32{0}, 3},
		{4, []uint32{0}, []uint32{1}, 4},
	} {
		if g, p, z := f.Item[0].Of(c.item), f.Item[1].Of(c.item), f.Item[2].Value[c.item]; !slices.Equal(g, c.genre) ||
			!slices.Equal(p, c.costs) || z != c.size {
			t.Errorf("case %d: item %d has %v, %v, %g, want %v, %v, %g", i, c.item, g, p, z, c.genre, c.costs, c.size)
		}
	}
	catalogue, err := wire.ReadCatalogue(h.get(after.Catalogue), 12)
	if err != nil || len(catalogue.Items[10].Features) > 0 {
		t.Errorf("the catalogue has features: %v, %v", catalogue, err)
	}
	if _, err := r.admin.Rollback(context.Background(), before.Version); err != nil {
		t.Fatal(err)
	}
	if back := r.after(after.Version); string(back.Features.Hash) != string(after.Features.Hash) {
		t.Error("a roll back changes the features: it must restore the values only")
	}
}

// A changed feature of an item that is known reaches the method with the next round.
func TestAChangedFeatureReachesThePlan(t *testing.T) {
	t.Parallel()
	s := featured()
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.pause(true)
	r.enrolled(1)
	before, _ := r.model()
	q := []*pb.Item{{Id: "i3", Features: []*pb.Setting{{Key: "size", Value: "42"}}}}
	if _, err := r.admin.Items(context.Background(), q); err != nil {
		t.Fatal(err)
	}
	after := r.after(before.Version)
	if got := r.c.plan.Features.Item[2].Value[3]; got != 42 {
		t.Errorf("the method reads %g, want 42", got)
	}
	for i := range after.Slots {
		if string(after.Slots[i].Hash) != string(before.Slots[i].Hash) {
			t.Errorf("the values of slot %d changed", i)
		}
	}
}

func TestItemsOfAMethodWithoutFeaturesHaveNone(t *testing.T) {
	s := small(1)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) { o.Features = columns() })
	if m, _ := r.model(); m.Features != nil || r.c.catalogue.Features() != nil {
		t.Error("a method that reads no features has some")
	}
	q := []*pb.Item{{Id: "x", Features: []*pb.Setting{{Key: "genre", Value: "war"}}}}
	if _, err := r.admin.Items(context.Background(), q); err == nil {
		t.Error("features that nobody reads are taken")
	}
}

// Settings that are sent again are compared while items are merged.
func TestBeginDuringItems(t *testing.T) {
	t.Parallel()
	s := featured()
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.pause(true)
	r.enrolled(1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 20 {
			q := []*pb.Item{{Id: fmt.Sprint("new ", i)}}
			if _, err := r.admin.Items(context.Background(), q); err != nil {
				t.Error(err)
			}
		}
	})
	for r.c.Status().Items < 30 && !t.Failed() {
		if err := r.c.Begin(s, stock(10)); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}
