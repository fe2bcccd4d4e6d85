package fleet

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// Chaos kills a coordinator at random moments. Its text form is kills=20,seed=1.
type Chaos struct {
	Kills int
	Seed  uint64
}

// ParseChaos reads the text form.
func ParseChaos(text string) (c Chaos, err error) {
	c = Chaos{Kills: 20, Seed: 1}
	for word := range strings.SplitSeq(text, ",") {
		k, v, _ := strings.Cut(word, "=")
		n, bad := strconv.ParseUint(v, 10, 32)
		switch {
		case bad == nil && k == "kills" && n >= 1 && n <= 10_000:
			c.Kills = int(n)
		case bad == nil && k == "seed":
			c.Seed = n
		default:
			return c, fmt.Errorf("%q is nothing that chaos knows: want kills=20,seed=1", word)
		}
	}
	return c, nil
}

// Process is a coordinator in a process of its own, that is killed and started again.
type Process struct {
	// Start makes the process; it is up when Up says so.
	Start func() *exec.Cmd
	Ready func(ctx context.Context) error

	mu    sync.Mutex
	cmd   *exec.Cmd
	died  chan error
	Kills int // so far
}

// Begin starts the coordinator.
func (v *Process) Begin(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.begin(ctx)
}

func (v *Process) begin(ctx context.Context) error {
	v.cmd, v.died = v.Start(), make(chan error, 1)
	if err := v.cmd.Start(); err != nil {
		return fmt.Errorf("fleet: the coordinator: %w", err)
	}
	go func(c *exec.Cmd, died chan error) { died <- c.Wait() }(v.cmd, v.died)
	up, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		err := v.Ready(up)
		if err == nil {
			return nil
		}
		select {
		case dead := <-v.died:
			v.cmd = nil
			return fmt.Errorf("fleet: the coordinator ended by itself: %w", errors.Join(dead, err))
		case <-up.Done():
			return fmt.Errorf("fleet: the coordinator does not come up: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill ends it with -9.
func (v *Process) Kill() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kill()
}

func (v *Process) kill() {
	if v.cmd != nil && v.cmd.Process != nil {
		v.cmd.Process.Kill()
		<-v.died
		v.cmd = nil
	}
}

// RandomKills kills it and starts it again, at moments drawn over the whole run: progress says
// how much of it is done, from 0 to 1. It returns when all kills are done or ctx is.
func (v *Process) RandomKills(ctx context.Context, c Chaos, progress func() float64, tell func(kills int)) error {
	r := rng.New(c.Seed, rng.Fleet)
	var when []float64
	for range c.Kills {
		when = append(when, 0.001+0.95*r.Float64())
	}
	slices.Sort(when)
	for _, at := range when {
		for progress() < at && ctx.Err() == nil {
			pause(ctx, 2*time.Millisecond)
		}
		pause(ctx, time.Duration(r.Float64()*float64(50*time.Millisecond)))
		if ctx.Err() != nil {
			return nil
		}
		v.mu.Lock()
		v.kill()
		err := v.begin(ctx)
		v.Kills++
		kills := v.Kills
		v.mu.Unlock()
		if err != nil {
			return err
		}
		tell(kills)
	}
	return nil
}
