package experiment

import (
	"context"
	"errors"
	"testing"
)

// An interrupt between two runs is reported as one within a run is.
func TestInterruptBetweenRunsIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	other := errors.New("disk full")
	if err := AsStopped(ctx, other, "runs"); err != other {
		t.Errorf("before the interrupt: %v", err)
	}
	cancel()
	var s *Stopped
	if err := AsStopped(ctx, ctx.Err(), "runs"); !errors.As(err, &s) || s.Dir != "runs" ||
		err.Error() != "interrupted" {
		t.Errorf("after the interrupt: %v", err)
	}
	within := &Stopped{Round: 3, Dir: "one"}
	if err := AsStopped(ctx, within, "runs"); err != error(within) {
		t.Errorf("a run that says so itself: %v", err)
	}
	if err := AsStopped(ctx, nil, "runs"); err != nil {
		t.Errorf("without an error: %v", err)
	}
}
