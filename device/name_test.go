package device

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"testing"
)

// A federation has no name before its run begins. The device asks again at a start and when a run begins,
// not with every model.
func TestTakesTheNewerName(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	name := func(d *Device) string {
		t.Helper()
		a, err := d.About()
		if err != nil {
			t.Fatal(err)
		}
		return a.Federation
	}
	step := func(d *Device) {
		t.Helper()
		if _, err := d.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	d := members[0].open()
	step(d)
	f.name = " and books"
	step(d)
	if got := name(d); got != "films" {
		t.Errorf("without a new run it is called %q: hello is said with every step", got)
	}
	copy(f.run, "another run")
	f.number++
	f.round = 0
	f.publish()
	step(d)
	if got, want := name(d), "films and books"; got != want {
		t.Errorf("after a run began it is called %q, want %q", got, want)
	}
	f.name = " of old"
	d = members[0].open()
	step(d)
	if got, want := name(d), "films of old"; got != want {
		t.Errorf("after a start it is called %q, want %q", got, want)
	}
	f.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)) // another key is not trusted
	f.name = " of mine"
	d = members[0].open()
	if _, err := d.Step(context.Background()); err == nil || name(d) != "films of old" {
		t.Errorf("a coordinator with another key names the federation %q", name(d))
	}
}

func TestInactiveDeviceReportsItsModelVersion(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.rounds(2, members)
	d := members[0].open()
	about, err := d.About()
	if err != nil || about.ModelVersion == 0 {
		t.Fatal(about, err)
	}
	if err := d.Pause(true); err != nil {
		t.Fatal(err)
	}
	if out, err := d.Step(context.Background()); err != nil || out.ModelVersion != about.ModelVersion {
		t.Errorf("a paused device says %+v, %v, and has model %d", out, err, about.ModelVersion)
	}
	if err := d.Pause(false); err != nil {
		t.Fatal(err)
	}
	members[0].change = func(o *Options) { o.Eligible = func() (bool, string) { return false, "on battery" } }
	if out, err := members[0].open().Step(context.Background()); err != nil || out.Action != "stayed away" ||
		out.ModelVersion != about.ModelVersion {
		t.Errorf("a device on battery says %+v, %v, and has model %d", out, err, about.ModelVersion)
	}
}
