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

// Chaos says how often to kill a coordinator at random times. Its text form is kills=20,seed=1.
type Chaos struct {
	Kills int
	Seed  uint64
}

// ParseChaos parses the text form.
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
			return c, fmt.Errorf("unknown chaos option %q: expected kills=20,seed=1", word)
		}
	}
	return c, nil
}

// Process is a coordinator in its own process that can be killed and restarted.
type Process struct {
	// Start makes the process; it is ready when Ready returns nil.
	Start func() *exec.Cmd
	Ready func(ctx context.Context) error

	mu    sync.Mutex
	cmd   *exec.Cmd
	died  chan error
	Kills int // so far
}

// Begin starts the coordinator.
func (p *Process) Begin(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begin(ctx)
}

func (p *Process) begin(ctx context.Context) error {
	p.cmd, p.died = p.Start(), make(chan error, 1)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the coordinator: %w", err)
	}
	go func(c *exec.Cmd, died chan error) { died <- c.Wait() }(p.cmd, p.died)
	up, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		err := p.Ready(up)
		if err == nil {
			return nil
		}
		select {
		case dead := <-p.died:
			p.cmd = nil
			return fmt.Errorf("the coordinator ended by itself: %w", errors.Join(dead, err))
		case <-up.Done():
			return fmt.Errorf("the coordinator does not start: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill kills the coordinator with SIGKILL.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill()
}

func (p *Process) kill() {
	if p.cmd != nil && p.cmd.Process != nil {
		p.cmd.Process.Kill()
		<-p.died
		p.cmd = nil
	}
}

// RandomKills kills and restarts the coordinator at random times of the run. progress returns the
// completed fraction of the run. It returns after the last kill or when ctx is done.
func (p *Process) RandomKills(ctx context.Context, c Chaos, progress func() float64, onKill func(kills int)) error {
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
		p.mu.Lock()
		p.kill()
		err := p.begin(ctx)
		p.Kills++
		kills := p.Kills
		p.mu.Unlock()
		if err != nil {
			return err
		}
		onKill(kills)
	}
	return nil
}
