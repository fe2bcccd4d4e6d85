package rpc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// Steps of the coordinator's or of a device's wall clock, by an hour either way, stop no device, and a request is
// still accepted once.
func TestClockStepsStopNoDevice(t *testing.T) {
	key, ctx := keyOf(1), context.Background()
	for _, step := range []time.Duration{time.Hour, -time.Hour, time.Minute, -time.Minute} {
		st := newFakeCoordinator(key)
		c := st.config(Limits{KeyRate: -1, AddressRate: -1, Grace: patience, Call: patience})
		c.elapsed = nil // as in a real server
		s := st.start(t, c, false)
		var devicesClock atomic.Int64
		device := s.dial(t, key, func(o *Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(devicesClock.Load())) }
		})
		checkIn := func(what string) {
			t.Helper()
			if _, err := device.CheckIn(ctx, &pb.CheckInRequest{}); err != nil {
				t.Errorf("%s by %v: %v", what, step, err)
			}
		}
		checkIn("before a step")
		first := signed(key, "/tacit.v1.Federation/CheckIn", time.UnixMilli(device.signer.last+1), &pb.CheckInRequest{})
		if word, status := s.post(t, first); status != 200 {
			t.Fatalf("%d %s", status, word)
		}
		st.offset.Store(step.Milliseconds())
		checkIn("after a step of the coordinator's clock")
		if n := s.server.Refused()[StaleTime]; n != 0 {
			t.Errorf("after a step of the coordinator's clock by %v, %d calls were refused", step, n)
		}
		if word, _ := s.post(t, first); word != Replayed {
			t.Errorf("after a step by %v, a replayed request is answered %q, want %s", step, word, Replayed)
		}
		devicesClock.Store(int64(step))
		checkIn("after a step of the device's clock")
		if word, _ := s.post(t, first); word != Replayed {
			t.Errorf("after a step by %v, a replayed request is answered %q, want %s", step, word, Replayed)
		}
	}
}

// A request that was accepted is not accepted by a later server, whatever the wall clock says.
func TestClockSetBackAcrossARestartAllowsNoReplay(t *testing.T) {
	key := keyOf(1)
	file := filepath.Join(t.TempDir(), "clock")
	wall := time.UnixMilli(1_800_000_000_000)
	var elapsed time.Duration
	open := func(wall time.Time) *Server {
		t.Helper()
		elapsed = 0
		c := newFakeCoordinator(key).config(Limits{})
		c.Now, c.Start, c.ClockFile = func() time.Time { return wall }, time.Time{}, file
		c.elapsed = func() time.Duration { return elapsed }
		return must[*Server](t)(NewServer(c))
	}
	s := open(wall)
	var accepted []int64
	for range 10 { // several times the step of the file
		ms := s.clock()
		if err := errors.Join(s.checkTime(ms), s.requests.keepAhead()); err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, ms, s.requests.now()+maxAhead.Milliseconds())
		elapsed += clockStep / 2
	}
	for _, step := range []time.Duration{-time.Hour, time.Hour, 0, -24 * time.Hour, -time.Hour} {
		wall = wall.Add(step)
		next := open(wall)
		for range 200 { // until long after the times of before
			for _, ms := range accepted {
				if next.checkTime(ms) == nil {
					t.Fatalf("restart with a step by %v: a time of before is accepted after %v", step, elapsed)
				}
			}
			elapsed += time.Minute
		}
		elapsed = 0
		ms := next.clock()
		if err := next.checkTime(ms); err != nil {
			t.Errorf("restart with a step by %v: the time that the server names is refused: %v", step, err)
		}
		// A device that makes two calls in one millisecond adds one.
		if err := next.checkTime(ms + 1); err != nil {
			t.Errorf("restart with a step by %v: the second call is refused: %v", step, err)
		}
		accepted = append(accepted, ms, ms+maxAhead.Milliseconds())
	}
	if err := os.WriteFile(file, []byte("yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newRequestClock(wall, 0, nil, file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a corrupt file: %v", err)
	}
}
