package round

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
)

// ErrBudgetSpent says that the privacy budget does not cover another round.
var ErrBudgetSpent = errors.New("the privacy budget is spent")

// Affords reports whether the privacy budget, if any, covers the given rounds, from
// 0, and that many releases of metrics.
func (e *Engine) Affords(metrics int, rounds ...int) (bool, error) {
	g := e.Stack
	if g == nil || g.Epsilon == 0 {
		return true, nil
	}
	if g.Policy.Metrics == 0 {
		metrics = 0
	}
	events := e.Ledger.Events()
	if len(rounds) > 0 && rounds[len(rounds)-1] < g.Rounds && g.OnPlan(rounds[0], metrics, events) {
		return true, nil
	}
	for _, t := range rounds {
		next, spends, err := g.Spends(t)
		if err != nil {
			return false, err
		}
		if spends {
			events = append(events, next)
		}
	}
	for range metrics {
		events = append(events, g.MetricEvent())
	}
	r, err := account.Epsilon(g.Delta, g.Options(), events...)
	return err == nil && r.Epsilon <= g.Epsilon*(1+1e-9), err
}

// release applies a round's sum: it records the release in the ledger, adds noise, and takes
// the server step. It discards the sum of too few devices, which costs budget all the same.
// Devices without training data count, because nobody may learn that they sent zeros.
func (e *Engine) release(integers []int64, rep *Report) error {
	g := e.Stack
	n := g.UpdateLength(e.Next)
	if len(integers) != n+1 {
		return fmt.Errorf("round %d: the sum has %d numbers, expected %d", e.Next+1, len(integers), n+1)
	}
	event, spends, err := g.Spends(e.Next)
	if err != nil {
		return err
	}
	if spends {
		if err := e.Ledger.Spend(event); err != nil {
			return fmt.Errorf("round %d: cannot record the release in the ledger: %w", e.Next+1, err)
		}
	}
	came := rep.Devices + rep.Idle
	rep.Discarded = rep.Discarded || came < g.RequiredDevices()
	if rep.Discarded {
		if g.Mechanism != privacy.Tree {
			e.updateEmpty(rep)
			e.Next++
			return nil
		}
		clear(integers) // later rounds of the tree subtract this round's noise, so it is added
	}
	if g.Mechanism != privacy.Laplace && !g.Drawn {
		for _, part := range g.NoiseParts(e.Next, came) {
			e.addNoise(part, integers[:n])
		}
	}
	unit := g.Unit(e.Next)
	e.noise = g.SumDeviation(e.Next, came)
	sum := e.decode(integers, unit)
	if g.Mechanism == privacy.Laplace {
		own := aggregate.Noise{Kind: "laplace", Scale: float64(g.Scale(e.Next)) * unit}
		e.addDeviceNoise(own, came, sum.Sums)
	}
	expected := int(math.Round(e.Cohort.Expected(e.Devices.Count())))
	e.keep()
	e.apply(sum, max(1, expected))
	if e.check(rep); rep.Rejected != "" {
		e.updateEmpty(rep)
	}
	if err := e.adapt(integers[n], came, rep); err != nil {
		return fmt.Errorf("round %d: %w", e.Next+1, err)
	}
	e.Next++
	return nil
}

// adapt moves the clipping bound by the noisy number of devices within it. It ignores a number that
// honest devices cannot make: under masks one device can add anything to it.
func (e *Engine) adapt(bits int64, devices int, rep *Report) error {
	if e.Stack.Adaptive == "off" {
		return nil
	}
	noisy := []int64{bits}
	deviation := e.Stack.RemainingCountNoise(e.Next, devices)
	privacy.NewSource(e.Random(bitsNode(e.Next), 0)).AddGauss(deviation, noisy)
	if !e.Stack.PlausibleBits(e.Next, devices, noisy[0]) {
		rep.BitsIgnored = true
		return nil
	}
	return e.Stack.Adapt(noisy[0])
}

// addNoise draws noise in pieces of a fixed size, each from its own stream, so that the
// number of workers changes nothing.
func (e *Engine) addNoise(part privacy.NoisePart, sum []int64) {
	const piece = 4096
	pieces := (len(sum) + piece - 1) / piece
	work := make(chan int, pieces)
	for i := range pieces {
		work <- i
	}
	close(work)
	var wg sync.WaitGroup
	for range min(max(e.Workers, 1), pieces) {
		wg.Go(func() {
			noise := make([]int64, piece)
			for i := range work {
				to := sum[i*piece : min((i+1)*piece, len(sum))]
				clear(noise)
				privacy.NewSource(e.Random(part.Node, i)).AddGauss(part.Deviation, noise[:len(to)])
				for x := range to {
					to[x] += part.Sign * noise[x]
				}
			}
		})
	}
	wg.Wait()
}

// Noise that is not a node of the tree mechanism has a tree number below 0. Simulation
// and coordinator draw the same noise by the same numbers.
const (
	bitsTree    = -1 - iota // on the sum of clipping bits
	metricsTree             // on released metrics
	deviceTree              // of a device
)

func bitsNode(round int) privacy.Node { return privacy.Node{Tree: bitsTree, Index: round} }

// MetricsNode names the noise on the metrics that a round, from 0, releases.
func MetricsNode(round int) privacy.Node { return privacy.Node{Tree: metricsTree, Index: round} }

// DeviceNode names the noise that a device adds to its update in a round, from 0.
func DeviceNode(round, device int) privacy.Node {
	return privacy.Node{Tree: deviceTree, Level: round, Index: device}
}

// DeterministicNoise is the noise of simulations and of deterministic runs. Anybody who knows
// the seed can repeat it, so it protects nobody.
func DeterministicNoise(seed uint64, n privacy.Node, piece int) io.Reader {
	return rng.Bytes(seed, rng.Noise, uint64(n.Tree), uint64(n.Level), uint64(n.Index), uint64(piece))
}
