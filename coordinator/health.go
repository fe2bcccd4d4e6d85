package coordinator

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// health is what the health and readiness checks remember.
type health struct {
	mu       sync.Mutex
	checking chan struct{} // closed when the last check of the locks ended; nil before the first
	ended    error         // why Run ended; nil while it runs
	probed   time.Time     // of the state folder
	writable error
}

// probeEvery is how often a readiness check writes to the state folder.
const probeEvery = 5 * time.Second

// Healthy returns an error if the coordinator cannot go on without a restart: its loop has ended with an error, or
// a lock is not released within the patience of the caller.
func (c *Coordinator) Healthy(patience time.Duration) error {
	c.admin.health.mu.Lock()
	if c.admin.health.ended != nil {
		defer c.admin.health.mu.Unlock()
		return fmt.Errorf("the coordinator has stopped: %w", c.admin.health.ended)
	}
	done := c.admin.health.checking
	if done == nil || isClosed(done) { // at most one check waits for locks
		done = make(chan struct{})
		c.admin.health.checking = done
		go func() {
			defer close(done)
			_ = c.Status()
		}()
	}
	c.admin.health.mu.Unlock()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-t.C:
		if state, _ := c.trouble(); state != "" {
			return nil // a write waits for the disk, and continues by itself
		}
		return fmt.Errorf("the coordinator does not react within %v", patience)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// noteEnd remembers why Run ended.
func (c *Coordinator) noteEnd(err error) {
	c.admin.health.mu.Lock()
	defer c.admin.health.mu.Unlock()
	c.admin.health.ended = err
}

// Ready returns an error if the coordinator cannot serve devices: it has no run, or its state folder cannot be
// written.
func (c *Coordinator) Ready() error {
	if !c.begun() {
		return errors.New("no run has begun")
	}
	if state, message := c.trouble(); state != "" && state != SlowDisk {
		return fmt.Errorf("%s: %s", state, message)
	}
	c.admin.health.mu.Lock()
	defer c.admin.health.mu.Unlock()
	if now := time.Now(); c.admin.health.probed.IsZero() || now.Sub(c.admin.health.probed) >= probeEvery {
		c.admin.health.probed, c.admin.health.writable = now, nil
		if err := c.st.Check(); err != nil {
			c.admin.health.writable = fmt.Errorf("the state folder cannot be written: %w", err)
		}
	}
	return c.admin.health.writable
}
