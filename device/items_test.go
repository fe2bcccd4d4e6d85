package device

import (
	"errors"
	"fmt"
	"testing"
)

// ids joins the IDs of items.
func ids(items []Item) string {
	out := ""
	for _, it := range items {
		out += it.ID + " "
	}
	return out
}

func TestSearchFindsWordsOfTitles(t *testing.T) {
	f := newFake(t, "ials", 1, "dim", "4")
	f.popular = []uint32{9, 4, 7, 30}
	for i, title := range map[int]string{
		3: "The Third Man (1949)", 4: "Man on Wire", 7: "Manhattan", 9: "Man of the West", 30: "Élan vital",
	} {
		f.items[i].Title = title
	}
	f.items[9].Retired = true
	f.publish()
	d := coldDevice(t, f, "i4", "x", "i7", "i4")
	for _, c := range []struct{ text, want string }{
		{"man", "i4 i7 i3 "},
		{"MAN the", "i3 "},
		{"third  man", "i3 "},
		{"(1949)", "i3 "},
		{"élan", "i30 "},
		{"an", ""},
		{"i30", "i30 "},
	} {
		got, err := d.Search(c.text, 10)
		if err != nil || ids(got) != c.want {
			t.Errorf("%q: %s, %v; want %s", c.text, ids(got), err, c.want)
		}
	}
	if got, err := d.Search("", 3); err != nil || ids(got) != "i4 i7 i30 " || !got[0].Known {
		t.Error(got, err)
	}
	if got, err := d.Search("", -1); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	got, err := d.Items("i7", "x")
	if want := []Item{{"i7", "Manhattan", true}, {"x", "", false}}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error(got, err)
	}
	if n, err := d.Remove("i4"); err != nil || n != 2 {
		t.Error(n, err)
	}
	if n, err := d.Remove("i4"); err != nil || n != 0 {
		t.Error(n, err)
	}
	if e, err := d.Events(); err != nil || len(e) != 2 || e[0].Item != "x" || e[1].Item != "i7" {
		t.Error(e, err)
	}
	bare, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.Search("", 1); !errors.Is(err, ErrNoModel) {
		t.Error(err)
	}
}
