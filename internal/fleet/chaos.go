package fleet

import (
	"cmp"
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

// Chaos says how often to disturb a coordinator at random times. Its text form is
// kills=20,diskfull=2,clock=3,seed=1.
type Chaos struct {
	Kills    int
	DiskFull int // times that its disk is full for a second or two
	Clock    int // times that its clock is set, by up to two days in either direction
	Seed     uint64
}

// ParseChaos parses the text form. Without kills= there are 20.
func ParseChaos(text string) (c Chaos, err error) {
	c = Chaos{Kills: 20, Seed: 1}
	for word := range strings.SplitSeq(text, ",") {
		k, v, _ := strings.Cut(word, "=")
		n, bad := strconv.ParseUint(v, 10, 32)
		switch {
		case bad == nil && k == "kills" && n <= 10_000:
			c.Kills = int(n)
		case bad == nil && k == "diskfull" && n <= 1000:
			c.DiskFull = int(n)
		case bad == nil && k == "clock" && n <= 1000:
			c.Clock = int(n)
		case bad == nil && k == "seed":
			c.Seed = n
		default:
			return c, fmt.Errorf("unknown chaos option %q: expected kills=20,diskfull=2,clock=3,seed=1", word)
		}
	}
	return c, nil
}

// Process is a coordinator in its own process that can be killed and restarted.
type Process struct {
	// Start makes the process; it is ready when Ready returns nil.
	Start func() *exec.Cmd
	Ready func(ctx context.Context) error
	// FillDisk leaves no space on the coordinator's disk until free is called.
	FillDisk func() (free func() error, err error)
	// SetClock sets its clock off by a time.
	SetClock func(off time.Duration) error
	// State is what the coordinator says of itself.
	State func(ctx context.Context) (string, error)

	mu    sync.Mutex
	cmd   *exec.Cmd
	died  chan error
	Kills int // so far
	Fills int // times that its disk was full and it said so
	Steps int // of its clock
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

// Disturb does what c says at random times of the run. progress returns the completed fraction of
// the run. It returns after the last disturbance or when ctx is done.
func (p *Process) Disturb(ctx context.Context, c Chaos, progress func() float64, done func(what string)) error {
	r := rng.New(c.Seed, rng.Fleet)
	type event struct {
		at float64
		do func(context.Context, *rng.Rand) (string, error)
	}
	var all []event
	add := func(n int, do func(context.Context, *rng.Rand) (string, error)) {
		for range n {
			all = append(all, event{0.001 + 0.95*r.Float64(), do})
		}
	}
	add(c.Kills, p.killOnce)
	add(c.DiskFull, p.fillOnce)
	add(c.Clock, p.setClockOnce)
	slices.SortFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for _, e := range all {
		for progress() < e.at && ctx.Err() == nil {
			pause(ctx, 2*time.Millisecond)
		}
		pause(ctx, time.Duration(r.Float64()*float64(50*time.Millisecond)))
		if ctx.Err() != nil {
			return nil
		}
		what, err := e.do(ctx, &r)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		done(what)
	}
	return nil
}

func (p *Process) killOnce(ctx context.Context, _ *rng.Rand) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill()
	err := p.begin(ctx)
	p.Kills++
	return fmt.Sprintf("killed the coordinator %d times", p.Kills), err
}

// diskFull is the state of a coordinator without space.
const diskFull = "disk-full"

// fillOnce fills the disk until the coordinator says so, and then frees it until it says that too.
func (p *Process) fillOnce(ctx context.Context, r *rng.Rand) (string, error) {
	free, err := p.FillDisk()
	if err != nil {
		return "", err
	}
	err = p.waitState(ctx, func(state string) bool { return state == diskFull })
	pause(ctx, time.Duration((0.5+r.Float64())*float64(time.Second)))
	if err := errors.Join(err, free()); err != nil {
		return "", err
	}
	p.mu.Lock()
	p.Fills++
	n := p.Fills
	p.mu.Unlock()
	err = p.waitState(ctx, func(state string) bool { return state != diskFull })
	return fmt.Sprintf("filled the disk %d times", n), err
}

func (p *Process) waitState(ctx context.Context, ok func(string) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("the coordinator does not notice its disk"))
	defer cancel()
	for {
		state, err := p.State(ctx)
		if err == nil && ok(state) {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func (p *Process) setClockOnce(_ context.Context, r *rng.Rand) (string, error) {
	off := time.Duration((r.Float64()*4 - 2) * float64(24*time.Hour)).Round(time.Second)
	p.mu.Lock()
	p.Steps++
	p.mu.Unlock()
	return fmt.Sprintf("set the clock off by %v", off), p.SetClock(off)
}
