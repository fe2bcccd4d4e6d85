//go:build !js

package rpc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/internal/atomicfile"
)

// requestClock is the clock that the times of requests must follow. It begins with the wall clock at the start and
// then advances with the monotonic clock, so that steps of the wall clock change nothing. Clients learn it from
// Hello and from refusals: it need not be right, but it must never go back, not even across a restart. Therefore a
// file holds a time that is later than every accepted one. The next server accepts only later times.
type requestClock struct {
	base    int64                // ms
	elapsed func() time.Duration // since base
	floor   int64                // ms: earlier times may have been accepted before the start
	file    string               // "" means no file
	mu      sync.Mutex
	saved   atomic.Int64 // ms: the time in the file
	retry   atomic.Int64 // ms: after a failure, the file is not written before
}

// clockStep is how far the time in the file is ahead of every time that is accepted. A restart advances the clock by
// at most clockStep and maxAhead.
const clockStep = time.Minute

// newRequestClock returns the clock of a server that starts at a time of the wall clock. Without a file, the server
// before may have accepted times until maxAhead after that.
func newRequestClock(wall time.Time, floor int64, elapsed func() time.Duration, file string) (*requestClock, error) {
	if elapsed == nil {
		start := time.Now()
		elapsed = func() time.Duration { return time.Since(start) }
	}
	c := &requestClock{base: wall.UnixMilli(), elapsed: elapsed, floor: floor, file: file}
	if file == "" {
		return c, nil
	}
	saved, err := readClock(file)
	if err != nil {
		return nil, err
	}
	if saved != 0 {
		c.floor = saved
	}
	c.base = max(c.base, c.floor)
	if err := c.save(c.now()); err != nil {
		return nil, fmt.Errorf("cannot save the clock of requests: %w", err)
	}
	return c, nil
}

func readClock(file string) (int64, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	ms, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || ms < 0 || ms > maxClock {
		return 0, fmt.Errorf("%s is corrupt: must be a time in milliseconds; if the machine's clock was not set back, "+
			"delete the file and start again", file)
	}
	return ms, nil
}

// now returns the time in milliseconds.
func (c *requestClock) now() int64 { return c.base + c.elapsed().Milliseconds() }

// keepAhead saves a later time if the file's will soon be reached. One caller at a time does so; the others go on.
func (c *requestClock) keepAhead() error {
	now := c.now()
	soon := now + (maxAhead + clockStep/4).Milliseconds()
	if c.file == "" || soon < c.saved.Load() || now < c.retry.Load() || !c.mu.TryLock() {
		return nil
	}
	defer c.mu.Unlock()
	err := c.save(now)
	if err != nil {
		c.retry.Store(now + clockStep.Milliseconds()) // a full disk is reported once in a while, not for each call
	}
	return err
}

func (c *requestClock) save(now int64) error {
	next := max(now, c.floor) + (maxAhead + clockStep).Milliseconds()
	if err := atomicfile.Write(c.file, fmt.Appendf(nil, "%d\n", next)); err != nil {
		return err
	}
	c.saved.Store(next)
	return nil
}
