package coord

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/rank"
	"github.com/tacit-rec/tacit/wire"
	"github.com/tacit-rec/tacit/wire/pb"
)

// Readout is what devices say of a model: how it ranks an item that each has held out, and
// how popularity ranks it. Every number is a sum over devices with noise, divided.
type Readout struct {
	Round     int     `json:"round"`
	Version   uint64  `json:"version"`
	Devices   float64 `json:"devices"` // that have such an item; noisy
	HR10      float64 `json:"hr@10"`
	NDCG10    float64 `json:"ndcg@10"`
	PopHR10   float64 `json:"popularity_hr@10,omitempty"`
	PopNDCG10 float64 `json:"popularity_ndcg@10,omitempty"`
	Noise     float64 `json:"noise"` // deviation of each sum, in devices
}

// readoutNoise is in devices, where no promise says otherwise.
const readoutNoise = 2

// readoutBound is what devices bound a readout with: never shorter than one can be.
func readoutBound() privacy.Bound {
	return privacy.Bound{Clip: math.Sqrt(rank.ReadoutNumbers) * 1.001, Levels: 1 << 20}
}

// everybody is the cohort of an evaluation.
func (c *Coordinator) everybody() []uint32 {
	out := make([]uint32, c.settings.Devices)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}

// count asks devices once which items they have: popularity, to compare with.
func (c *Coordinator) count(ctx context.Context) error {
	c.say("counting items")
	bound := &pb.Bound{Clip: 1, Levels: 1, Most: 1}
	cohort := c.everybody()
	h, err := c.meet(ctx, c.newTask(pb.Kind_COUNT, c.engine.Next, c.plan.Items, bound), cohort, len(cohort))
	if err != nil {
		return err
	}
	next := proto.Clone(c.catalogue).(*pb.Catalogue)
	for i, n := range h.sum {
		if n >= fewest { // an item that few have would show who they are
			next.Popular = append(next.Popular, uint32(i))
		}
	}
	slices.SortStableFunc(next.Popular, func(a, b uint32) int { return cmp.Compare(h.sum[b], h.sum[a]) })
	next.Version++
	c.mu.Lock()
	c.place, c.catalogue, c.counted = nil, next, true
	c.mu.Unlock()
	if err := c.save(&version{}); err != nil {
		return err
	}
	return c.put("counted", true)
}

// fewest devices must have an item for its popularity to be told.
const fewest = 3

// readout has devices evaluate the newest model.
func (c *Coordinator) readout(ctx context.Context, t int) (*Readout, error) {
	g := c.engine.Guard
	if c.settings.Masked { // devices that mask their sums send nothing else
		return nil, nil
	}
	noise := float64(readoutNoise)
	if g != nil {
		if g.Policy.Metrics == 0 {
			return nil, nil // nothing may be said that the budget does not cover
		}
		noise = g.Policy.Metrics * privacy.MetricSensitivity
		if ok, err := c.engine.Affords(1); !ok || err != nil {
			return nil, err
		}
	}
	c.say(fmt.Sprintf("readout after round %d", t+1))
	cohort := c.everybody()
	bound := readoutBound()
	h, err := c.meet(ctx, c.newTask(pb.Kind_EVALUATE, t, rank.ReadoutNumbers, wire.BoundFor(bound, 0, 0, mostOf(bound))), cohort, len(cohort))
	if err != nil {
		return nil, err
	}
	c.enter(nil)
	if g != nil {
		if err := c.ledger.Spend(g.MetricEvent()); err != nil {
			return nil, err
		}
	}
	c.freshKey()
	sums, err := c.blur(t, noise, h.sum)
	if err != nil {
		return nil, err
	}
	n := sums[0]
	if g != nil {
		n = float64(c.settings.Devices) // how many have one is not covered
	}
	share := func(x float64) float64 { return math.Round(x/math.Max(n, 1)*1e4) / 1e4 }
	r := &Readout{Round: t + 1, Version: c.last, Devices: math.Round(n), HR10: share(sums[1]), NDCG10: share(sums[2]), Noise: noise}
	if g == nil {
		r.PopHR10, r.PopNDCG10 = share(sums[4]), share(sums[5])
	}
	c.mu.Lock()
	if c.readouts = append(c.readouts, *r); len(c.readouts) > 1000 {
		c.readouts = slices.Clone(c.readouts[1:])
	}
	all := c.readouts
	c.mu.Unlock()
	return r, c.put("readouts", all)
}

// blur adds noise to the sums of an evaluation, in devices.
func (c *Coordinator) blur(t int, noise float64, sum []int64) ([]float64, error) {
	const fine = 1 << 10
	out := make([]float64, len(sum))
	b := readoutBound()
	for i, x := range sum {
		v := []int64{int64(math.Round(float64(x) * b.Unit() * fine))}
		privacy.NewSource(derived(c.noise, privacy.Node{Tree: -2, Index: t}, i)).AddGauss(int64(math.Ceil(noise*fine)), v)
		out[i] = float64(v[0]) / fine
	}
	return out, nil
}
