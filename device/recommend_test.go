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
		{"empty", "ials", nil, []uint32{9, 4, 7, 30}, Popular, "i4 i7 i30 i0", "no history yet: popular items"},
		{"unknown items", "ials", []string{"x", "y"}, []uint32{9, 4, 7}, Popular, "i4 i7 i0", "has none of the items"},
		{
			"a model that knows nothing", "ials",
			[]string{"i4", "i50"},
			[]uint32{9, 4, 7},
			Popular, "i7 i0 i1",
			"knows nothing about the items of your history yet: popular items",
		},
		{"nothing is known", "ials", nil, nil, Unranked, "i0 i1 i2", "popularity is unknown: items in catalogue order"},
		{"a model with a preference", "pfedrec", nil, nil, NewUser, "", "prefers for a new user"},
		{"an empty history with popularity", "pfedrec", nil, []uint32{9, 4}, Popular, "i4 i0", "no history"},
		{"a history", "pfedrec", []string{"i4", "i50"}, []uint32{9, 4}, Personal, "", ""},
	} {
		f := newFake(t, c.method, 1, "dim", "4")
		f.popular = c.popular
		f.items[9].Retired = true
		for i := range f.plan.Slots { // of new items, or of a model that was not trained
			if c.method == "ials" {
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
