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

// Anybody can make connections fail: they get one line a minute, which counts the others.
func TestFailedConnectionsGetOneLineAMinute(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1e9, 0)
	l := &connectionLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }}
	for range 300 {
		_, _ = l.Write([]byte("http: TLS handshake error\n"))
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines", n)
	}
	now = now.Add(time.Minute)
	_, _ = l.Write([]byte("http: TLS handshake error\n"))
	if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "more_before=299") {
		t.Errorf("%d lines: %s", n, out.String())
	}
}
