package round

import (
	"context"
	"fmt"
	"io"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
	"github.com/tacit-rec/tacit/vec"
)

// Devices are the devices of a federation, in this process or on a network.
type Devices interface {
	// Count returns the number of devices in the federation.
	Count() int
	// Round has the cohort of a task train and returns the sum of the updates that
	// count. The memory of the aggregate belongs to the implementation: it is valid
	// until the next call, and the caller may write to it. A round that fails leaves
	// nothing behind that a later round would add again.
	Round(ctx context.Context, t Task) (Aggregate, Report, error)
}

// Task is what the engine asks of the devices in a round.
type Task struct {
	Round  int      // from 0
	Phase  int      // of a method that trains in phases
	Cohort []uint32 // device IDs, ascending; valid during the call
	// Bound is what devices enforce on their updates before they send them as
	// integers. If it is nil, devices send floats.
	Bound *privacy.Bound
}

// Aggregate is the sum of a round's updates: Integers if the task had a bound,
// otherwise the other fields.
type Aggregate struct {
	// Sums are padded rows by slot; nil for a slot that devices never send.
	Sums [][]float32
	// Shrunk is by slot the sum of (shrinkage - 1) over devices: weight decay of rows
	// that no device touched.
	Shrunk []float64
	// Touched is by item the number of devices that sent its row; nil if the mean
	// does not need it.
	Touched []uint32
	// Integers is the sum of the encoded updates of the round, clipping bits last.
	Integers []int64
}

// Report counts what happened in a round.
type Report struct {
	Devices     int    // whose update counts
	Dropped     int    // that dropped out
	Late        int    // that reported after the deadline
	Idle        int    // that have no training data
	Discarded   bool   // too few devices took part, or the model was rejected: the values are those of before
	Rejected    string // why the model of the round must not be published; otherwise empty
	BitsIgnored bool   // honest devices cannot have made the sum of clipping bits: the bound stays
	Samples     int
	Bytes       int // sent by the devices that count
	Truncated   int // numbers that exceeded the range of their slot; simulations only
	Loss        float64
	LossN       int
}

// Engine runs rounds. New makes one; the optional fields are set before the first Step.
type Engine struct {
	Config
	Plan    *local.Plan
	Devices Devices
	Value   [][]float32     // by slot; of a PerItem slot, padded rows
	Seed    uint64          // of cohorts and of simulated noise
	Noise   aggregate.Noise // on every number that a device sends
	// Workers is the number of goroutines that draw noise; 0 means 1. It changes no bit.
	Workers int

	// Stack, if set, bounds updates and adds noise to their sum. Every release is recorded in
	// Ledger before it is made, and Random is the source of its noise.
	Stack  *privacy.Stack
	Ledger account.Ledger
	Random func(n privacy.Node, piece int) io.Reader

	// Bound, if set, makes devices send integers without a privacy guarantee. The order in
	// which updates arrive then changes no bit.
	Bound *privacy.Bound

	// Eligible, if set, appends the devices that may take part in a round to dst, ascending,
	// in place of Cohort.Draw: devices that check in are not drawn.
	Eligible func(round int, dst []uint32) []uint32

	// BeforeUpdate, if set, is called after local training and before the values change.
	BeforeUpdate func(round int) error

	Next    int               // the round to run next
	State   []aggregate.State // of the server rule, by slot
	decoded [][]float32       // by slot: sums of integers as floats
	noise   float64           // deviation on each number of the round's sums
	ids     []uint32
	kept    kept
}

// New returns an engine that runs round 0 next, on values by slot. Under a privacy policy
// the mean divides by a public constant, whatever the configuration says.
func New(c Config, p *local.Plan, d Devices, value [][]float32, seed uint64) *Engine {
	if c.DP.On() {
		c.Mean = aggregate.Fixed
	}
	return &Engine{
		Config: c, Plan: p, Devices: d, Value: value, Seed: seed,
		State: make([]aggregate.State, len(p.Slots)),
	}
}

// Step runs one round: cohort, local training, mean, server step. After an error the
// values are those of the round before.
func (e *Engine) Step(ctx context.Context) (Report, error) {
	bound, err := e.bound()
	if err != nil {
		return Report{}, err
	}
	if e.Eligible != nil {
		e.ids = e.Eligible(e.Next, e.ids[:0])
	} else {
		e.ids = e.Cohort.Draw(e.Seed, e.Next, e.Devices.Count(), e.ids[:0])
	}
	task := Task{Round: e.Next, Phase: e.Plan.Phase(e.Next), Cohort: e.ids, Bound: bound}
	sum, rep, err := e.Devices.Round(ctx, task)
	if err != nil {
		return rep, fmt.Errorf("round %d: %w", e.Next+1, err)
	}
	if e.BeforeUpdate != nil {
		if err := e.BeforeUpdate(e.Next); err != nil {
			return rep, err
		}
	}
	if e.Stack != nil {
		err := e.release(sum.Integers, &rep)
		return rep, err
	}
	if bound != nil {
		sum = e.decode(sum.Integers, bound.Unit())
	} else {
		e.addDeviceNoise(e.Noise, rep.Devices, sum.Sums)
	}
	if rep.Devices > 0 && !rep.Discarded {
		e.keep()
		e.apply(sum, rep.Devices)
		e.check(&rep)
	}
	e.updateEmpty(&rep)
	e.Next++
	return rep, nil
}

// bound returns what devices enforce in the next round; nil if they send floats.
func (e *Engine) bound() (*privacy.Bound, error) {
	if e.Stack == nil {
		if e.Bound == nil || e.Bound.MaxInteger == 0 {
			return e.Bound, nil
		}
		return &privacy.Bound{MaxInteger: e.Plan.RoundMaxInteger(e.Next)}, nil
	}
	ok, err := e.Affords(0, e.Next)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrBudgetSpent
	}
	b := e.Stack.Bound(e.Next)
	return &b, nil
}

// decode returns a round's sum of integers as floats.
func (e *Engine) decode(integers []int64, unit float64) Aggregate {
	sum := e.noSums() // the server step has written to it
	for _, i := range e.Plan.SentSlots() {
		e.Plan.Decode(e.Next, i, integers, unit, sum.Sums[i])
	}
	return sum
}

// addDeviceNoise adds the sum of the noise that each device adds to its update.
func (e *Engine) addDeviceNoise(n aggregate.Noise, devices int, sums [][]float32) {
	for i, sum := range sums {
		if sum != nil && e.Plan.IsSent(e.Plan.Phase(e.Next), i) {
			dim := e.Plan.Slots[i].Dim
			n.AddSum(devices, rng.New(e.Seed, rng.Noise, uint64(e.Next), uint64(i)), vec.Pad(dim), dim, sum)
		}
	}
}

// apply takes the server step.
func (e *Engine) apply(sum Aggregate, devices int) {
	m := e.Plan.Method
	if p, ok := method.As[method.PostUpdater](m); ok {
		defer func() { p.PostUpdate(e.global(sum, devices)) }()
	}
	if u, ok := method.As[method.Updater](m); ok {
		u.Update(e.global(sum, devices))
		return
	}
	expected := e.Cohort.Expected(e.Devices.Count())
	for i, s := range sum.Sums {
		slot := &e.Plan.Slots[i]
		if s == nil || slot.Upload != method.Delta {
			continue
		}
		var counts []uint32
		if slot.PerItem {
			counts = sum.Touched
		}
		e.Mean.Divide(devices, expected, counts, vec.Pad(slot.Dim), s)
		if sum.Shrunk != nil && sum.Shrunk[i] != 0 {
			// Weight decay has shrunk every row of every device, touched or not.
			n := float64(devices)
			if e.Mean == aggregate.Fixed {
				n = expected
			}
			vec.Axpy(float32(sum.Shrunk[i]/n), e.Value[i], s)
		}
		e.Server.Apply(s, &e.State[i], e.Value[i])
	}
}

// updateEmpty takes the server step of a method that needs one although the round has no usable reports.
func (e *Engine) updateEmpty(rep *Report) {
	if rep.Devices > 0 && !rep.Discarded {
		return
	}
	if m, ok := method.As[method.EmptyUpdater](e.Plan.Method); !ok || !m.UpdatesEmptyRounds() {
		return
	}
	e.keep()
	e.noise = 0
	e.apply(e.noSums(), 0)
	var empty Report
	if e.check(&empty); rep.Rejected == "" {
		rep.Rejected = empty.Rejected
	}
}

// noSums returns the aggregate of a round without reports.
func (e *Engine) noSums() Aggregate {
	if e.decoded == nil {
		e.decoded = make([][]float32, len(e.Plan.Slots))
	}
	for _, i := range e.Plan.SentSlots() {
		if e.decoded[i] == nil {
			e.decoded[i] = make([]float32, len(e.Value[i]))
		}
		clear(e.decoded[i])
	}
	return Aggregate{Sums: e.decoded}
}

// Popular lists items, the most popular first, if the method's values tell; otherwise nil. It is computed
// from values that are released anyway.
func (e *Engine) Popular() []uint32 {
	m, ok := method.As[method.PopularityRanker](e.Plan.Method)
	if !ok {
		return nil
	}
	return m.Popular(e.global(Aggregate{}, 0))
}

// global returns the server's view of the round in progress.
func (e *Engine) global(sum Aggregate, devices int) *method.Global {
	g := &method.Global{
		Round: e.Next, Rounds: e.Plan.Rounds, Phase: e.Plan.Phase(e.Next), Items: e.Plan.Items,
		Devices: devices, Users: e.Devices.Count(), Noise: e.noise,
		Value: e.Value, Aggregate: sum.Sums, Stride: make([]int, len(e.Plan.Slots)),
	}
	for i := range e.Plan.Slots {
		g.Stride[i] = vec.Pad(e.Plan.Slots[i].Dim)
	}
	return g
}
