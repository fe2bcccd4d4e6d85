package device

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A paused device only reads its record, so that a change by another process takes effect within seconds.
func TestResumesAPausedDeviceAtOnce(t *testing.T) {
	f := newFake(t, "pfedrec", 2, "dim", "4")
	f.publish()
	r := f.device(0)
	owner := r.open()
	if err := owner.Pause(true); err != nil {
		t.Fatal(err)
	}
	calls, slept := 0, time.Duration(0)
	r.crash = func(what string) error {
		calls++
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.change = func(o *Options) {
		o.Sleep = func(_ context.Context, wait time.Duration) error {
			if slept += wait; owner != nil && calls > 0 {
				t.Errorf("%d calls and saves while it is paused", calls)
			}
			if slept >= 20*time.Second && owner != nil {
				if err := owner.Pause(false); err != nil {
					t.Error(err)
				}
				owner, calls = nil, 0
			}
			return ctx.Err()
		}
	}
	d := r.open()
	calls = 0
	var did []string
	err := d.Run(ctx, func(out StepResult, err error) {
		if did = append(did, out.Action); out.Action != "paused" {
			cancel()
		}
	})
	if err == nil || len(did) != 2 || did[0] != "paused" || did[1] != "trained" || slept > 25*time.Second {
		t.Errorf("it did %v in %v: %v", did, slept, err)
	}
}

// onStep may say that the device tries again, so Run must not call it for the last error.
func TestFatalErrorIsNotAStep(t *testing.T) {
	_, d := withFeatures(t)
	if err := d.Describe(map[string]string{"agee": "25-34"}); err != nil {
		t.Fatal(err)
	}
	err := d.Run(t.Context(), func(out StepResult, err error) { t.Errorf("it tells %+v, %v", out, err) })
	if !errors.Is(err, ErrFeatures) {
		t.Error(err)
	}
}
