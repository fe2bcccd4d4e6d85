package device

import (
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// withFeatures is a device whose model has user and interaction columns.
func withFeatures(t *testing.T) (*fakeCoordinator, *Device) {
	t.Helper()
	f := newFake(t, "pfedrec", 2, "dim", "4")
	f.edit = func(m *pb.Manifest) {
		b, err := wire.Marshal(wire.EncodeFeatures(&rows.Features{
			User: []rows.Column{{Name: "age", Card: 3, Code: []uint32{0}, Names: []string{"25-34", "35+", "unknown"}}},
			Row:  []rows.Column{{Name: "daytime", Card: 2, Code: []uint32{0}, Names: []string{"morning", "evening"}}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		f.blobs[sha256.Sum256(b)] = b
		m.Features = wire.HashBlob(b)
	}
	f.publish()
	return f, f.device(0).open()
}

// A device without a model accepts all features. With a model it refuses unknown ones and keeps the old ones.
func TestRefusesUnknownUserFeatures(t *testing.T) {
	_, d := withFeatures(t)
	if err := d.Describe(map[string]string{"agee": "25-34"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := d.Step(t.Context()); !errors.Is(err, ErrFeatures) || !strings.Contains(err.Error(), `"agee"`) ||
			!strings.Contains(err.Error(), "must be one of age") {
			t.Fatal(err)
		}
	}
	if err := d.Describe(map[string]string{"agee": "", "age": "25-34"}); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []map[string]string{{"agee": "25-34"}, {"age": "old"}, {"age": "35+", "daytime": "morning"}} {
		if err := d.Describe(wrong); !errors.Is(err, ErrFeatures) {
			t.Errorf("%v is taken: %v", wrong, err)
		}
	}
	about, err := d.About()
	if err != nil || !maps.Equal(about.Features, map[string]string{"age": "25-34"}) {
		t.Errorf("%v, %v", about.Features, err)
	}
	if err := d.checkUserFeatures(); err != nil {
		t.Error(err)
	}
}

// An event whose features the model cannot read would make every later round fail.
func TestRefusesUnknownEventFeatures(t *testing.T) {
	_, d := withFeatures(t)
	if err := d.Replace([]Event{
		{Item: "i1", Time: 1, Features: "daytime=morning"},
		{Item: "i2", Time: 2, Features: "daytime=evening"},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	for with, want := range map[string]string{
		"daytime=noon": "must be one of", "hour=5&daytime=evening": "must be one of daytime",
		"": "daytime is missing",
	} {
		if err := d.Add(Event{Item: "i4", Time: 4, Features: with}); !errors.Is(err, ErrFeatures) ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "i4") {
			t.Errorf("%q is taken: %v", with, err)
		}
	}
	wrong := []Event{{Item: "i5", Time: 5, Features: "daytime=noon"}}
	if _, err := d.Merge(wrong); !errors.Is(err, ErrFeatures) || !errors.Is(d.Replace(wrong), ErrFeatures) {
		t.Errorf("a file with it is taken: %v", err)
	}
	if _, err := d.Merge([]Event{{Item: "i6", Time: 6, Features: "daytime=morning&rating=5"}}); err != nil {
		t.Errorf("a file with more columns: %v", err)
	}
	if err := d.Add(Event{Item: "zz", Time: 7, Features: "daytime=morning"}); err != nil {
		t.Error(err)
	}
	about, err := d.About()
	if err != nil || about.Events != 4 {
		t.Errorf("%d events, %v", about.Events, err)
	}
}

// The device keeps an event with an unknown item, and does not hold it out.
func TestKeepsEventsWithUnknownItems(t *testing.T) {
	f := newFake(t, "pfedrec", 2, "dim", "4")
	f.publish()
	d := f.device(0).open()
	if unknown, err := d.UnknownItems("zz"); err != nil || len(unknown) > 0 {
		t.Errorf("without a model %v is unknown, %v", unknown, err)
	}
	if _, err := d.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	held := func() string {
		m, err := d.loadNewest()
		if err != nil {
			t.Fatal(err)
		}
		_, at, ok, err := d.opt.Workspace.prepare(d.source(true), d.record, int(m.Round))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return d.opt.Workspace.catalogue.item(at).Id
	}
	before := held()
	if err := d.Add(Event{Item: "zz", Time: 100}); err != nil {
		t.Fatal(err)
	}
	unknown, err := d.UnknownItems("zz", "i3")
	if err != nil || !slices.Equal(unknown, []string{"zz"}) || held() != before {
		t.Errorf("unknown are %v, %v, and %s is held out, want %s", unknown, err, held(), before)
	}
}
