package agent

import (
	"crypto/sha256"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/rows"
	"github.com/tacit-rec/tacit/wire"
	"github.com/tacit-rec/tacit/wire/pb"
)

// choosy is a device whose model has columns of users and of interactions.
func choosy(t *testing.T) (*fake, *Device) {
	t.Helper()
	f := newFake(t, "pfedrec", 2, "dim", "4")
	f.edit = func(m *pb.Manifest) {
		b, err := wire.Marshal(wire.FeaturesFor(&rows.Features{
			User: []rows.Column{{Name: "age", Card: 3, Code: []uint32{0}, Names: []string{"25-34", "35+", "unknown"}}},
			Row:  []rows.Column{{Name: "daytime", Card: 2, Code: []uint32{0}, Names: []string{"morning", "evening"}}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		f.blobs[sha256.Sum256(b)] = b
		m.Features = wire.Name(b)
	}
	f.publish()
	return f, f.rig(0).open()
}

// Before there is a model nothing is known to be wrong; from then on what is wrong is
// refused, and what was there stays.
func TestWhatTheModelDoesNotHaveIsNotKept(t *testing.T) {
	_, d := choosy(t)
	if err := d.Describe(map[string]string{"agee": "25-34"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := d.Step(t.Context()); !errors.Is(err, ErrFeatures) || !strings.Contains(err.Error(), `"agee"`) || !strings.Contains(err.Error(), "want age") {
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
	if err := d.described(); err != nil {
		t.Error(err)
	}
}
