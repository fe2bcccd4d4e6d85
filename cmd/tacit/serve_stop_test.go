package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A stop that hangs ends the process with code 1 and says why. One that ends in time does nothing.
func TestAStopEndsInTime(t *testing.T) {
	var out bytes.Buffer
	a := &app{log: slog.New(slog.NewTextHandler(&out, nil))}
	code := make(chan int, 1)
	ctx, cancel := context.WithCancel(context.Background())
	a.limitStop(ctx, time.Millisecond, func(c int) { code <- c })
	cancel()
	if got := <-code; got != exitFailed || !strings.Contains(out.String(), "not stopped after 1ms") {
		t.Errorf("exit code %d, log %q", got, out.String())
	}

	for _, before := range []bool{true, false} { // the end of serve may come before or after the signal
		ctx, cancel := context.WithCancel(context.Background())
		stopped := a.limitStop(ctx, time.Hour, func(c int) { code <- c })
		if before {
			cancel()
		}
		stopped()
		cancel()
	}
	if len(code) > 0 {
		t.Error("a stop in time ended the process")
	}
}
