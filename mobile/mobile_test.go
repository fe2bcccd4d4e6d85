package mobile_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/mobile"
)

type guard struct{ why string }

func (g *guard) Ready() string { return g.why }

type listener struct{ steps []string }

func (l *listener) Stepped(step, code, failure string) {
	l.steps = append(l.steps, step+code+failure)
}

func TestAppDevice(t *testing.T) {
	c := mobile.NewConfig()
	c.StateFile = filepath.Join(t.TempDir(), "device.state")
	g, l := &guard{"on battery"}, &listener{}
	d, err := mobile.Open(c, g)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := d.Step(l); err != nil || after < 1000 || len(l.steps) != 1 ||
		!strings.Contains(l.steps[0], "on battery") {
		t.Errorf("%d, %v, %v", after, err, l.steps)
	}
	if n, err := d.AddAll("a,5\nb,6\na,5\n"); err != nil || n != 3 {
		t.Error(n, err)
	}
	if n, err := d.AddAll("a,5\nb,6\na,5\nc,7\n"); err != nil || n != 1 {
		t.Errorf("what is there is added again: %d, %v", n, err)
	}
	if item, err := d.Undo(); err != nil || item != "c" {
		t.Error(item, err)
	}
	if _, err := d.Recommend(3); err == nil {
		t.Error("it recommends without a model")
	}
	if d.Pause() != nil {
		t.Error("it cannot be paused")
	}
	again, err := mobile.Open(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	about, err := again.About()
	if err != nil || !strings.Contains(about, `"paused":true`) || !strings.Contains(about, `"events":3`) {
		t.Error(about, err)
	}
	d.Cancel()
	if err := d.Forget(); err != nil {
		t.Error(err)
	}
	if _, err := mobile.Open(&mobile.Config{}, nil); err == nil {
		t.Error("a device without a state file")
	}
}

// stalled is a guard that answers only when the test lets it.
type stalled struct{ asked, answer chan struct{} }

func (g *stalled) Ready() string {
	g.asked <- struct{}{}
	<-g.answer
	return "not now"
}

// A long step does not delay the owner's calls.
func TestOwnerDoesNotWaitForAStep(t *testing.T) {
	c := mobile.NewConfig()
	c.StateFile, c.Passphrase = filepath.Join(t.TempDir(), "device.state"), "a phrase"
	g := &stalled{make(chan struct{}), make(chan struct{})}
	d, err := mobile.Open(c, g)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := d.Step(nil)
		ended <- err
	}()
	<-g.asked // the step runs until the guard answers: the calls below must not wait for it
	if err := d.Add("a"); err != nil {
		t.Error(err)
	}
	if err := d.Pause(); err != nil {
		t.Error(err)
	}
	if _, err := d.Recommend(3); err == nil {
		t.Error("it recommends without a model")
	}
	if about, err := d.About(); err != nil || !strings.Contains(about, `"events":1`) ||
		!strings.Contains(about, `"paused":true`) {
		t.Error(about, err)
	}
	d.Cancel()
	g.answer <- struct{}{}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := d.Step(nil); err != nil { // paused: the guard is not asked
		t.Error(err)
	}
}
