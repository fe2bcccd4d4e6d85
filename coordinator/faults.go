package coordinator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/store"
)

// States of a coordinator that the machine keeps from working. They end by themselves: a write that
// the disk refuses waits until the disk accepts it, and the round in progress continues.
const (
	DiskFull     = State(store.DiskFull)     // no space, or less than the reserve
	ReadOnly     = State(store.ReadOnly)     // the folder cannot be written
	SlowDisk     = State(store.SlowDisk)     // a write takes longer than 5 s
	TooManyFiles = State(store.TooManyFiles) // the process may open no more files
	LowMemory    = State(store.LowMemory)    // close to the memory limit; after 5 minutes, the coordinator stops
	DiskError    = State(store.DiskError)    // after 5 minutes of it, the coordinator stops
)

// trouble is the state that the machine imposes, and its explanation; empty without a fault.
func (c *Coordinator) trouble() (State, string) {
	h := c.st.Health()
	switch {
	case h.Fault != "":
		return State(h.Fault), h.Detail
	case h.Low:
		return DiskFull, "the coordinator's disk is almost full: reports wait until there is space; free some"
	case c.progress.memory.low():
		return LowMemory, "the coordinator is close to its memory limit: reports wait"
	}
	return "", ""
}

// cannotWrite says why nothing can be written now; empty if that is possible.
func (c *Coordinator) cannotWrite() (why string) {
	if state, message := c.trouble(); state != "" && state != SlowDisk {
		return fmt.Sprintf("%s: %s", state, message)
	}
	return ""
}

// refuseWrites refuses a call that has to be written, while that is impossible. Devices retry it.
func (c *Coordinator) refuseWrites() error {
	if why := c.cannotWrite(); why != "" {
		return rpc.Refuse(rpc.SlowDown, connect.CodeUnavailable, "%s", why)
	}
	return nil
}

// refuseReads refuses a call that has to be read from disk, while that is impossible.
func (c *Coordinator) refuseReads() error {
	if h := c.st.Health(); h.Fault != "" && h.Fault != store.SlowDisk {
		return rpc.Refuse(rpc.SlowDown, connect.CodeUnavailable, "%s: %s", h.Fault, h.Detail)
	}
	return nil
}

// troubleWait tells a device to check in again when the trouble may be over; nil without trouble.
func (c *Coordinator) troubleWait() *pb.Wait {
	state, message := c.trouble()
	if state == "" || state == SlowDisk {
		return nil
	}
	enrolled, _ := c.devices.Count()
	after := max(c.pollEvery(enrolled), troubleEvery)
	return &pb.Wait{
		AfterMs: uint32(float64(after.Milliseconds()) * (0.75 + 0.5*rand.Float64())), Reason: message,
		State: string(state),
	}
}

const (
	troubleEvery = 5 * time.Second // between the check-ins of a device
	watchEvery   = time.Second
	// memoryPatience is how long the memory may be low before the coordinator stops.
	memoryPatience = 5 * time.Minute
)

// watch tells the operator of trouble when it begins and when it ends. It returns an error if only a
// restart can help, and nil when ctx is done.
func (c *Coordinator) watch(ctx context.Context) error {
	tick := time.NewTicker(c.opt.watch)
	defer tick.Stop()
	was, since, warned := State(""), c.now(), false
	for {
		state, message := c.trouble()
		lasted := c.now().Sub(since)
		if state != was {
			if was != "" {
				c.opt.Warn(fmt.Sprintf("%s is over after %v", was, lasted.Round(time.Second)))
			}
			if state != "" {
				c.opt.Warn(fmt.Sprintf("%s: %s", state, message))
				c.progress.count("faults", 1)
			}
			was, since, lasted = state, c.now(), 0
		}
		if state == LowMemory && lasted > memoryPatience {
			return fmt.Errorf("%s for %v: %s; start it again, with more memory or fewer devices in a round",
				state, lasted.Round(time.Second), message)
		}
		h := c.st.Health()
		if scarce := h.Size > 0 && h.Free < 3*min(store.Reserve, h.Size/20); scarce != warned {
			if warned = scarce; scarce && state == "" {
				c.opt.Warn(fmt.Sprintf("low disk space: %.1f of %.1f MB are free; below a third of that, reports wait",
					float64(h.Free)/1e6, float64(h.Size)/1e6))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// releaseWrites lets the writes that wait for the disk return until done: the coordinator stops, as
// in a crash.
func (c *Coordinator) releaseWrites(done <-chan struct{}) {
	for {
		c.st.Interrupt()
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// memory compares what the process uses with its limit: GOMEMLIMIT, or what tacit serve sets.
type memory struct {
	read  func() (used, limit int64)
	every time.Duration // between readings

	mu   sync.Mutex
	at   time.Time
	full bool
}

// low reports whether more than 95 % of the limit are in use. It stays so until it is below 85 %.
func (m *memory) low() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) < m.every {
		return m.full
	}
	m.at = time.Now()
	used, limit := m.read()
	share := float64(used) / float64(limit)
	m.full = share > 0.95 || m.full && share > 0.85
	return m.full
}

// usedMemory is the memory that a collection of garbage does not free, and the limit of the process. What can be
// freed does not count: without need, the runtime lets garbage grow up to the limit.
func usedMemory() (used, limit int64) {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(s)
	used = int64(s[0].Value.Uint64() + s[1].Value.Uint64())
	for _, heap := range s[2:] {
		used -= int64(heap.Value.Uint64())
	}
	return used, debug.SetMemoryLimit(-1)
}

// clock is the time of day at the start, and advances with the monotonic clock: if somebody sets the
// time of day, no round ends early and no device becomes overdue.
type clock struct {
	wall func() time.Time
	step func(time.Duration)
	at   time.Time // the time of day at start
	from time.Time // start, with the monotonic reading

	mu  sync.Mutex
	off time.Duration // by which the time of day has been set since
}

// clockStep is the smallest difference that is not a slow correction of the clock.
const clockStep = 5 * time.Second

func newClock(wall func() time.Time, step func(time.Duration)) *clock {
	return &clock{wall: wall, step: step, at: wall(), from: time.Now()}
}

func (c *clock) now() time.Time {
	now := c.at.Add(time.Since(c.from))
	off := c.wall().Sub(now)
	c.mu.Lock()
	by := off - c.off
	if by.Abs() > clockStep {
		c.off = off
	}
	c.mu.Unlock()
	if by.Abs() > clockStep {
		c.step(by)
	}
	return now
}

// clockStepped tells the operator that somebody set the time of day. It is called in a goroutine of its
// own, since whoever asks for the time may hold a lock.
func (c *Coordinator) clockStepped(by time.Duration) {
	c.progress.count("clock_steps", 1)
	c.opt.Warn(fmt.Sprintf("the clock was set by %v; rounds and devices continue, and the schedule follows the clock",
		by.Round(time.Second)))
}

// timeOfDay is what the schedule follows.
func (c *Coordinator) timeOfDay() time.Time { return c.opt.wall() }
