package round

import (
	"context"
	"fmt"
	"io"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
	"github.com/tacit-rec/tacit/vec"
)

// Fleet is where the devices are.
type Fleet interface {
	// Users is the number of devices there are.
	Users() int
	// Round has the cohort visited. What counts is in the sums when it returns.
	Round(ctx context.Context, round int, cohort []uint32) (Report, error)
	// Sum adds the sum of what devices sent of a slot to dst and forgets it. The
	// second result is the sum of (shrinkage - 1) over devices.
	Sum(slot int, dst []float32) float64
	// Touched returns how many devices sent each item's row, or nil when nobody
	// asked for it.
	Touched() []uint32
}

// Guarded is a Fleet whose devices bound their updates and send integers.
type Guarded interface {
	Fleet
	// Bind tells the bound of the next round.
	Bind(b privacy.Bound)
	// Sealed adds the flat sum of what devices sent to dst, the clipping bits last, and
	// forgets it. dst is as long as an update of the round, and one more.
	Sealed(dst []int64)
	// Unseal writes what of a round's flat sum belongs to a slot to its padded rows.
	Unseal(round, slot int, flat []int64, unit float64, dst []float32)
}

// Report is what happened in a round.
type Report struct {
	Devices int  // whose update counts
	Dropped int  // that vanished
	Late    int  // that came after the deadline
	Idle    int  // that had nothing to learn from
	Kept    bool // too few devices came, or stayed: nothing was released
	Samples int
	Bytes   int // sent by the devices that count
	Cut     int // numbers that were beyond the reach of their slots, where devices are in this process
	Loss    float64
	LossN   int
}

// Engine runs rounds. Its fields are set before the first Step.
type Engine struct {
	Method method.Method
	Slots  []method.Slot
	Value  [][]float32 // by slot; of a PerItem slot, padded rows
	Fleet  Fleet
	Cohort Cohort
	Mean   aggregate.Mean
	Rule   aggregate.Rule
	Noise  aggregate.Noise // on every number that a device sends
	Items  int
	Rounds int
	Seed   uint64
	// Workers is how many draw noise at a time; 0 is 1. It changes no bit.
	Workers int

	// Guard, if set, is what stands between devices and the model; the Fleet must be
	// Guarded. Ledger hears of a release before it is made, and Random is where
	// its noise comes from.
	Guard  *privacy.Stack
	Ledger account.Ledger
	Random func(n privacy.Node, piece int) io.Reader

	// Bound, if set, makes sums of integers without a promise; the Fleet must be Guarded.
	// The order in which updates arrive then changes no bit.
	Bound *privacy.Bound

	// Who, if set, appends who may take part in a round to dst, ascending, instead of a
	// draw: where devices choose themselves, nobody draws.
	Who func(round int, dst []uint32) []uint32

	// Before, if set, is called after the visits and before the values change.
	Before func(round int) error

	Next  int               // the round to run next
	State []aggregate.State // the rule's, by slot
	sum   [][]float32
	flat  []int64
	noise float64 // on each number of the round's sums
	ids   []uint32
}

// Step runs one round: cohort, visits, mean, server step. After an error the
// values are those of the round before.
func (e *Engine) Step(ctx context.Context) (Report, error) {
	e.Prepare()
	if e.Guard != nil {
		if err := e.afford(); err != nil {
			return Report{}, err
		}
	} else if e.Bound != nil {
		e.bind(*e.Bound)
	}
	if e.Who != nil {
		e.ids = e.Who(e.Next, e.ids[:0])
	} else {
		e.ids = e.Cohort.Draw(e.Seed, e.Next, e.Fleet.Users(), e.ids[:0])
	}
	rep, err := e.Fleet.Round(ctx, e.Next, e.ids)
	if err != nil {
		return rep, fmt.Errorf("round %d: %w", e.Next+1, err)
	}
	if e.Before != nil {
		if err := e.Before(e.Next); err != nil {
			return rep, err
		}
	}
	if e.Guard != nil {
		err := e.release(&rep)
		return rep, err
	}
	var shrunk [method.MaxSlots]float64
	if e.Bound != nil {
		e.unseal(e.Bound.Unit())
	} else {
		e.gather(rep.Devices, shrunk[:])
	}
	if rep.Devices > 0 {
		e.apply(rep.Devices, shrunk[:])
	}
	e.Next++
	return rep, nil
}

// gather takes the round's sums of floats, with the noise that each device has added.
func (e *Engine) gather(devices int, shrunk []float64) {
	for i, s := range e.sum {
		clear(s)
		if s != nil && e.travels(i) {
			shrunk[i] = e.Fleet.Sum(i, s)
			slot := &e.Slots[i]
			e.Noise.AddSum(devices, rng.New(e.Seed, rng.Noise, uint64(e.Next), uint64(i)), vec.Pad(slot.Dim), slot.Dim,
				s)
		}
	}
}

// travels reports whether anything is sent of a slot in the round in progress.
func (e *Engine) travels(slot int) bool {
	m, ok := method.As[method.Traveller](e.Method)
	if !ok {
		return true
	}
	phase, _ := m.Phase(e.Next, e.Rounds)
	return m.Travels(phase, slot)
}

// Prepare allocates what rounds need. Step calls it; so does whoever loads State.
func (e *Engine) Prepare() {
	if e.sum != nil {
		return
	}
	e.sum = make([][]float32, len(e.Slots))
	if e.State == nil {
		e.State = make([]aggregate.State, len(e.Slots))
	}
	for i, s := range e.Slots {
		if s.Scope == method.Shared && s.Up != method.None {
			e.sum[i] = make([]float32, len(e.Value[i]))
		}
	}
	if e.Guard != nil {
		widest := 0
		for t := range e.Guard.Rounds {
			widest = max(widest, e.Guard.Width(t))
		}
		e.flat = make([]int64, widest+1)
	}
}

func (e *Engine) apply(devices int, shrunk []float64) {
	if p, ok := method.As[method.Polisher](e.Method); ok {
		defer func() { p.Polish(e.global(devices)) }()
	}
	if u, ok := method.As[method.Updater](e.Method); ok {
		u.Update(e.global(devices))
		return
	}
	expected := e.Cohort.Expected(e.Fleet.Users())
	for i, s := range e.sum {
		if s == nil || e.Slots[i].Up != method.Delta {
			continue
		}
		var counts []uint32
		if e.Slots[i].PerItem {
			counts = e.Fleet.Touched()
		}
		e.Mean.Divide(devices, expected, counts, vec.Pad(e.Slots[i].Dim), s)
		if shrunk[i] != 0 {
			// Every row of every device was shrunk, touched or not.
			n := float64(devices)
			if e.Mean == aggregate.Fixed {
				n = expected
			}
			vec.Axpy(float32(shrunk[i]/n), e.Value[i], s)
		}
		e.Rule.Apply(s, &e.State[i], e.Value[i])
	}
}

// global is the coordinator's side of the round in progress.
func (e *Engine) global(devices int) *method.Global {
	g := &method.Global{
		Round: e.Next, Items: e.Items, Devices: devices, Users: e.Fleet.Users(),
		Noise: e.noise, Value: e.Value, Got: e.sum, Stride: make([]int, len(e.Slots)),
	}
	if p, ok := method.As[method.Phased](e.Method); ok {
		g.Phase, _ = p.Phase(e.Next, e.Rounds)
	}
	for i := range e.Slots {
		g.Stride[i] = vec.Pad(e.Slots[i].Dim)
	}
	return g
}
