package coordinator

import (
	"fmt"
	"io"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/vec"
)

// makeEngine makes the engine of the newest run for a number of items and their features.
func (c *Coordinator) makeEngine(items int, features *rows.Features) error {
	e, p, err := c.newEngine(c.latest.Load(), items, features)
	if err == nil {
		c.install(e, p)
	}
	return err
}

// newEngine builds the method, its plan and the round engine of a run.
func (c *Coordinator) newEngine(run *current, items int, features *rows.Features) (
	*round.Engine, *local.Plan, error,
) {
	s := &run.settings
	m, err := s.build()
	if err != nil {
		return nil, nil, err
	}
	p, err := s.plan(m, items, features)
	if _, featured := method.As[method.Featured](m); err != nil && featured && features == nil {
		return nil, nil, fmt.Errorf("%s reads features; begin the run with -d NAME: %w", s.Method, err)
	}
	if err != nil {
		return nil, nil, err
	}
	var value [][]float32
	for i := range p.Slots {
		v := make([]float32, p.Slots[i].Rows*vec.Pad(p.Slots[i].Dim))
		p.Fill(i, v)
		value = append(value, v)
	}
	e := round.New(s.Config, p, &network{c}, value, c.groupSeedOf(run))
	e.Eligible = c.draw
	if err := c.setBound(run, e, p); err != nil {
		return nil, nil, err
	}
	e.BeforeUpdate = func(int) error { return c.fault("summed") }
	return e, p, nil
}

// install makes an engine and its plan those of the run. Other goroutines read them.
func (c *Coordinator) install(e *round.Engine, p *local.Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engine, c.plan = e, p
}

// setBound sets what limits an update: the privacy stack with DP, otherwise the ranges of the slots.
func (c *Coordinator) setBound(run *current, e *round.Engine, p *local.Plan) error {
	s := &run.settings
	if s.DP.On() {
		return c.buildStack(run, e, p)
	}
	b := p.Bound(s.Devices)
	e.Bound = &b
	if s.Masked {
		return s.checkMasks(p)
	}
	return nil
}

// buildStack builds the privacy stack.
func (c *Coordinator) buildStack(run *current, e *round.Engine, p *local.Plan) error {
	s := &run.settings
	set := s.PrivacyRun(s.Method, p, s.Devices, s.Masked, s.Masked, s.evaluations())
	set.Runs = s.Runs
	var err error
	if e.Stack, err = privacy.Build(s.DP, set); err != nil {
		return err
	}
	if s.GroupSize > 0 { // a run that cannot be masked must not begin
		size := max(s.GroupSize, e.Stack.RequiredDevices())
		if _, err := secagg.Plan(size, p.MaxUpdateLength()+1, e.Stack.MaxInteger(0), privacy.MaskingRisk); err != nil {
			return fmt.Errorf("group-size = %d: such a group cannot be masked: %w", size, err)
		}
	}
	e.Ledger = c.budget
	e.Random = func(n privacy.Node, piece int) io.Reader {
		if s.Deterministic {
			return round.DeterministicNoise(s.Seed, n, piece)
		}
		if s.DP.Mechanism == privacy.Tree {
			return c.noise.Tree(n, piece)
		}
		return c.noise.Release(n, piece)
	}
	return nil
}

// checkMasks reports why sums without DP cannot be masked, before the run begins.
func (s *Settings) checkMasks(p *local.Plan) error {
	if err := p.CheckMaskable(); err != nil {
		return fmt.Errorf("%s: %w", s.Method, err)
	}
	size := s.Cohort.Smallest(s.Devices)
	if s.GroupSize > 0 {
		size = s.GroupSize
	}
	if _, err := secagg.Plan(size, p.MaxUpdateLength()+1, p.Bound(s.Devices).MaxInteger,
		privacy.MaskingRisk); err != nil {
		return fmt.Errorf("masked sums of %d devices: %w", size, err)
	}
	return nil
}

// groupSeed is the seed of the groups of masked sums.
func (c *Coordinator) groupSeed() uint64 { return c.groupSeedOf(c.latest.Load()) }

func (c *Coordinator) groupSeedOf(run *current) uint64 {
	if run.settings.Deterministic {
		return run.settings.Seed
	}
	return c.noise.GroupSeed(run.id, c.rollbacks.count)
}
