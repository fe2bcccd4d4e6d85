package sim

import (
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/methods"
)

// Without a promise masks change no bit, nor who counts: devices with nothing to learn from
// are masked too, and are in no mean.
func TestMasksWithoutNoiseChangeNoBit(t *testing.T) {
	s := small(t, "temporal")
	run := func(secagg string) (*Run, []Event) {
		m := &methods.IALSNext{}
		configure(t, m, "dim", "4")
		o := defaults()
		o.Rounds, o.Sums, o.Secagg, o.Dropout, o.Straggle = 4, "integer", secagg, 0.1, 0.1
		r := start(t, m, s, o, 3)
		return r, finish(t, r)
	}
	off, plain := run("off")
	if off.Idle == 0 || plain[0].Dropped == 0 || plain[0].Late == 0 {
		t.Fatalf("nobody is idle, or all stay: nothing is shown by %+v", plain[0])
	}
	for _, secagg := range []string{"assumed", "on"} {
		r, events := run(secagg)
		if r.Digest() != off.Digest() {
			t.Errorf("secagg=%s changes the model", secagg)
		}
		for k, e := range events {
			p := plain[k]
			if e.Devices != p.Devices || e.Idle != p.Idle || e.Dropped != p.Dropped || e.Late != p.Late {
				t.Errorf("secagg=%s, round %d: %+v, want %+v", secagg, k+1, e, p)
			}
			whole := r.fleet.plan.PackedBytes(k)
			if secagg == "assumed" && e.BytesUp != whole*e.Devices || e.BytesUp < whole*e.Devices*9/10 {
				t.Errorf("secagg=%s, round %d: %d bytes of %d devices, and a whole update has %d", secagg, k+1,
					e.BytesUp, e.Devices, whole)
			}
		}
	}
}

// A sum of few devices is not opened, and the model stays as it is.
func TestMaskedSumOfFewDevicesIsDiscarded(t *testing.T) {
	m := &methods.IALS{}
	configure(t, m, "dim", "4")
	o := defaults()
	o.Rounds, o.Secagg, o.Dropout = 2, "on", 0.9
	cohort("14")(&o)
	r := start(t, m, small(t, "deployed"), o, 2)
	before := r.engine.Value[0][0]
	for _, e := range finish(t, r) {
		if e.Devices != 0 || e.Idle != 0 {
			t.Errorf("round %d has a sum: %+v", e.Round, e)
		}
	}
	if r.Discarded != 2 || r.engine.Value[0][0] != before {
		t.Errorf("%d rounds had no sum, want 2; the first number went from %g to %g", r.Discarded, before,
			r.engine.Value[0][0])
	}
}

func TestMasksWithoutABoundAreRefused(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"tacit, gru4rec": func(*Options) {},
		"bits=24":        func(o *Options) { o.Bits = 0 },
		"mean = row":     func(o *Options) { o.Mean = "row" },
		"poisson":        cohort("poisson:0.5"),
	} {
		for _, secagg := range []string{"assumed", "on"} {
			o := defaults()
			o.Secagg = secagg
			change(&o)
			if _, err := New(fedmf(t), small(t, "deployed"), o, 1, 1); err == nil || !strings.Contains(err.Error(),
				want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	}
	o := defaults()
	o.Secagg = "on"
	cohort("9")(&o)
	m := &methods.IALS{}
	configure(t, m, "dim", "4")
	if _, err := New(m, small(t, "deployed"), o, 1, 1); err == nil || !strings.Contains(err.Error(), "at least 14") {
		t.Errorf("sums of 9: %v", err)
	}
}
