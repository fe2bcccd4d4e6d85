package main

import (
	"context"
	"fmt"
	"time"
)

// stopWithin is the time that serve takes at most to stop; TimeoutStopSec= of the systemd unit is longer.
const stopWithin = 20 * time.Second

// limitStop ends the process with exit if it has not stopped within a time after ctx is done: a disk or a
// folder on a network may never answer. What was acknowledged is on disk. The caller calls stopped at the end.
func (a *app) limitStop(ctx context.Context, within time.Duration, exit func(code int)) (stopped func()) {
	done := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(within):
			a.log.Error(fmt.Sprintf("not stopped after %v: a disk does not answer; what was acknowledged is safe",
				within), "exit_code", exitFailed)
			exit(exitFailed)
		}
	})
	return func() {
		release()
		close(done)
	}
}
