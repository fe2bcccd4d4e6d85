package device

import (
	"context"
	"strings"
	"testing"
)

// coldDevice is a device with a model and a history of its own choice.
func coldDevice(t *testing.T, f *fakeCoordinator, items ...string) *Device {
	t.Helper()
	d := f.device(0).open()
	var events []Event
	for i, id := range items {
		events = append(events, Event{Item: id, Time: int64(i)})
	}
	if err := d.Replace(events); err != nil {
		t.Fatal(err)
	}
	f.idle = true
	if _, err := d.Step(context.Background()); err != nil {
		t.Fatal(err)
	}
	return d
}

// A device without a history, or with items that the catalogue or the model does not know, recommends popular
// items and says so. It says too if popularity is unknown.
func TestColdStartRecommendsPopularItemsAndSaysSo(t *testing.T) {
	for _, c := range []struct {
		name, method string
		history      []string
		popular      []uint32
		basis        Basis
		first, note  string
	}{
		{"empty", "ials", nil, []uint32{9, 4, 7, 30}, Popular, "i4 i7 i30 i0", "popular by the federation's counts"},
		{"unknown items", "ials", []string{"x", "y"}, []uint32{9, 4, 7}, Popular, "i4 i7 i0", "has none of the items"},
		{
			"a model that knows nothing", "ials",
			[]string{"i4", "i50"},
			[]uint32{9, 4, 7},
			Popular, "i7 i0 i1",
			"knows nothing about the items of your history yet: items that are popular",
		},
		{"nothing is known", "ials", nil, nil, Unranked, "i0 i1 i2", "popularity is unknown: items in catalogue order"},
		{"a model with a preference", "pfedrec", nil, nil, NewUser, "", "prefers for a new user"},
		{"an empty history with popularity", "pfedrec", nil, []uint32{9, 4}, Popular, "i4 i0", "no history"},
		{"not trained", "fedmf", []string{"i4", "i50"}, []uint32{9, 4, 7}, Popular, "i7 i0", "has not trained with"},
		{"training before it scores", "pfedrec", []string{"i4", "i50"}, []uint32{9, 4}, Personal, "", ""},
		{"not trained, no popularity", "fedmf", []string{"i4"}, nil, NewUser, "", "has not trained with your history"},
		{"a method that reads the history", "ials", []string{"i4", "i50"}, []uint32{9, 4}, Personal, "", ""},
	} {
		f := newFake(t, c.method, 1, "dim", "4")
		f.popular = c.popular
		f.items[9].Retired = true
		for i := range f.plan.Slots { // of new items, or of a model that was not trained
			if c.method == "ials" && c.basis != Personal {
				clear(f.mem.Value(i))
			}
		}
		f.publish()
		list, err := coldDevice(t, f, c.history...).Recommend(60)
		if err != nil {
			t.Fatal(c.name, err)
		}
		var ids []string
		for _, p := range list.Items {
			ids = append(ids, p.ID)
		}
		if got := strings.Join(ids, " "); list.Basis != c.basis || !strings.Contains(list.Note, c.note) ||
			!strings.HasPrefix(got, c.first) || (list.Note == "") != (c.basis == Personal) {
			t.Errorf("%s: %s, %q, %s", c.name, list.Basis, list.Note, got)
		}
	}
}

// After a round the recommendations of a method with private state are personal.
func TestRecommendationsArePersonalAfterARound(t *testing.T) {
	f := newFake(t, "fedmf", 1, "dim", "4")
	f.publish()
	d := f.device(0).open()
	if out, err := d.Step(context.Background()); err != nil || out.Action != "trained" {
		t.Fatalf("%+v, %v", out, err)
	}
	if list, err := d.Recommend(3); err != nil || list.Basis != Personal || list.KnownItems == 0 || list.Note != "" {
		t.Errorf("%+v, %v", list, err)
	}
}

// Items for which the model has no score fill a personal list by popularity, or in catalogue order, and say so.
func TestItemsWithoutAScoreSayWhatRanksThem(t *testing.T) {
	for _, popular := range [][]uint32{nil, {30, 25}} {
		f := newFake(t, "ials", 1, "dim", "4")
		f.popular = popular
		for i := range f.plan.Slots {
			if v, n := f.mem.Value(i), len(f.items); len(v) >= 2*n {
				clear(v[len(v)/n*20:]) // items from 20 on were added later
			}
		}
		f.publish()
		list, err := coldDevice(t, f, "i4", "i15").Recommend(60)
		if err != nil {
			t.Fatal(err)
		}
		want := Unranked
		if popular != nil {
			want = Popular
		}
		if n := len(list.Items); list.Basis != Personal || n < 30 || list.Items[0].Basis != Personal {
			t.Fatalf("%s list of %d items, the first one %s", list.Basis, n, list.Items[0].Basis)
		}
		filled := 0
		for _, p := range list.Items {
			if (p.Score == 0) != (p.Basis == want) {
				t.Errorf("%s: score %v, basis %s", p.ID, p.Score, p.Basis)
			}
			if p.Basis == want {
				if filled++; filled == 1 && p.ID != map[Basis]string{Unranked: "i20", Popular: "i30"}[want] {
					t.Errorf("%s is the first item without a score", p.ID)
				}
			}
		}
		if filled == 0 {
			t.Error("every item has a score")
		}
	}
}
