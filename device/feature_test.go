package device

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rows"
)

func TestHistoryMayHaveEventFeatures(t *testing.T) {
	got, err := ReadEvents(strings.NewReader("item,weather,time,daytime\na,sunny & warm,5,evening\nb,,,\nc,,7,night\n"))
	want := []Event{{"a", 5000, "daytime=evening&weather=sunny+%26+warm"}, {"b", 1, ""}, {"c", 7000, "daytime=night"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v: want %+v", got, err, want)
	}
	for _, bad := range []string{"item,time,hour\na,1,2,3", "item,time,hour\na,now,2", "a,1,2"} {
		if got, err := ReadEvents(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

// Merge does not add known events again, but takes their features.
func TestMergeAddsEventFeatures(t *testing.T) {
	f := newFake(t, "pfedrec", 1, "dim", "4")
	f.publish()
	d := f.device(0).open()
	if err := d.Replace([]Event{
		{Item: "a", Time: 1},
		{Item: "a", Time: 1},
		{Item: "b", Time: 2, Features: "hour=1"},
	}); err != nil {
		t.Fatal(err)
	}
	n, err := d.Merge([]Event{{Item: "a", Time: 1, Features: "hour=5"}, {Item: "b", Time: 2}, {Item: "c", Time: 3}})
	want := []Event{{"a", 1, "hour=5"}, {"a", 1, ""}, {"b", 2, "hour=1"}, {"c", 3, ""}}
	if got := d.record.History.Events; err != nil || n != 1 || !slices.Equal(got, want) {
		t.Errorf("%d added, %+v, %v: want 1, %+v", n, got, err, want)
	}
	if err := d.Add(Event{Item: "a", Features: "%zz"}); err == nil {
		t.Error("an invalid event feature is kept")
	}
}

func TestDescribeSetsAndRemovesFeatures(t *testing.T) {
	f := newFake(t, "pfedrec", 1, "dim", "4")
	f.publish()
	r := f.device(0)
	d := r.open()
	if err := errors.Join(d.Describe(map[string]string{"age": "25", "gender": "F"}),
		d.Describe(map[string]string{"age": ""})); err != nil {
		t.Fatal(err)
	}
	about, err := r.open().About() // the features are saved
	if err != nil || !reflect.DeepEqual(about.Features, map[string]string{"gender": "F"}) {
		t.Errorf("%v, %v", about.Features, err)
	}
	if d.Describe(map[string]string{"": "x"}) == nil ||
		d.Describe(map[string]string{"x": strings.Repeat("y", 5000)}) == nil {
		t.Error("a feature without a name, or a long one, is kept")
	}
}

func TestFillsTheColumnsOfOneUser(t *testing.T) {
	columns := []rows.Column{
		{Name: "likes", Card: 3, Start: []uint32{0}, Names: []string{"a", "b", "c"}},
		{Name: "height"},
		{Name: "kind", Card: 4},
	}
	for i := range columns {
		resizeColumn(&columns[i], 1)
	}
	for range 2 { // the second call replaces the values of the first
		if err := fillUser(columns, map[string]string{"likes": "c|a|c", "height": "1.5", "kind": "3"}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(columns[0].Of(0), []uint32{0, 2}) || columns[1].Value[0] != 1.5 ||
			!slices.Equal(columns[2].Of(0), []uint32{3}) {
			t.Errorf("%+v", columns)
		}
		if err := fillUser(columns, map[string]string{"likes": "", "height": "-1", "kind": "0"}); err != nil ||
			len(columns[0].Of(0)) != 0 {
			t.Errorf("%+v, %v", columns, err)
		}
	}
	for name, value := range map[string]string{"likes": "d", "height": "tall", "kind": "4"} {
		told := map[string]string{"likes": "", "height": "-1", "kind": "0"}
		if told[name] = value; !errors.Is(fillUser(columns, told), ErrFeatures) {
			t.Errorf("%s = %s is taken", name, value)
		}
	}
}
