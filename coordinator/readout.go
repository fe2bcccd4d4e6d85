package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// Readout is what devices say of a model: how it ranks an item that each has held out, and
// how popularity ranks it. Every number is a masked sum over devices with noise, divided.
type Readout struct {
	Round     int     `json:"round"`
	Version   uint64  `json:"version"`
	Devices   float64 `json:"devices"` // that have such an item; noisy
	HR10      float64 `json:"hr@10"`
	NDCG10    float64 `json:"ndcg@10"`
	Popular   bool    `json:"popularity"` // is known, and was ranked by
	PopHR10   float64 `json:"popularity_hr@10,omitempty"`
	PopNDCG10 float64 `json:"popularity_ndcg@10,omitempty"`
	Noise     float64 `json:"noise"`       // deviation of each sum, in devices
	Share     float64 `json:"noise_share"` // deviation of each metric, which is a share of devices: Noise / Devices
}

// skipped is why there is no readout, or no popularity in it. Training goes on.
type skipped string

func (s skipped) Error() string { return string(s) }

// States of a coordinator that has devices evaluate; a round's number follows Reading.
const (
	Counting = "counting items"
	Reading  = "readout after round"
)

// readoutNoise is in devices, where no promise says otherwise.
const readoutNoise = 2

// fewest devices must have an item for its popularity to be told.
const fewest = 3

// readoutBound is what devices bound a readout with: never shorter than one can be. A whole
// device is most integers, as many as a masked sum of all devices has room for.
func readoutBound(devices int) (b privacy.Bound, most int64) {
	most = min(1<<20, max(1, (1<<31-1)/int64(devices)))
	clip := math.Sqrt(metrics.EvaluationLength) * 1.001
	return privacy.Bound{Clip: clip, Levels: clip * float64(most)}, most
}

// quorum is how many devices must be in a masked sum: what the promise asks for, and in a
// readout, or without a promise, never fewer than devices agree to.
func (c *Coordinator) quorum(kind pb.Kind) (n int) {
	g := c.engine.Stack
	if g != nil {
		n = g.RequiredDevices()
	}
	if g == nil || kind != pb.Kind_TRAIN {
		n = max(n, privacy.MinMaskedSum)
	}
	return n
}

// visited notes that a device is there.
func (c *Coordinator) visited(seat uint32, now time.Time) {
	if int(seat) < c.settings.Devices {
		c.devices.Seen(seat, now)
	}
}

// present are the seats that were heard of within a deadline, however long the round before
// took. A readout waits for nobody else: too many absent ones would cost all of it.
func (c *Coordinator) present() []uint32 {
	return c.devices.SeenSince(c.now().Add(-c.settings.Deadline))
}

// ask has devices put numbers into one masked sum, in one attempt: two sums of one question
// over different devices would tell what the difference has said. Nothing of it is on disk
// but what keep writes; devices hear that they are in the sum after that.
func (c *Coordinator) ask(ctx context.Context, task *pb.Task, keep func(s *keptSum) error) error {
	defer c.enter(nil)
	cohort, least := c.present(), c.quorum(task.Kind)
	if len(cohort) < least {
		return skipped(fmt.Sprintf("fewer than %d devices are here, and a sum of so few would tell of each", least))
	}
	task.Attempt = c.nextAttempt()
	_, err := c.attempt(ctx, task, cohort, func(s *keptSum) error {
		if len(s.Seats) == 0 {
			return skipped("the sum is not one that honest devices could make")
		}
		if err := keep(s); err != nil {
			return err
		}
		c.answered(task, s.Seats)
		return nil
	})
	switch {
	case errors.Is(err, secagg.ErrTooFew):
		return skipped("too few devices stayed for a masked sum")
	case errors.Is(err, secagg.ErrNoSum):
		return skipped("what devices sent does not add up")
	case errors.Is(err, errNoPlan):
		return skipped(err.Error())
	}
	return err
}

// usedUp notes that devices are about to open a sum of which items they have. They are in no other
// of the run, whatever becomes of this one.
func (c *Coordinator) usedUp(task *pb.Task) error {
	if task.Kind != pb.Kind_COUNT {
		return nil
	}
	c.mu.Lock()
	before := c.counted
	c.counted = true
	c.mu.Unlock()
	if before {
		return nil
	}
	return c.put("counted", true)
}

// answered remembers who is in the sum of a readout, for those who ask when the next round
// has begun.
func (c *Coordinator) answered(task *pb.Task, seats []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := closedRound{
		Round: task.Round, Turns: c.times, Attempt: task.Attempt, Seats: seats,
		Digests: make([]uint64, len(seats)),
	}
	if c.asked = append(c.asked, o); len(c.asked) > 2 {
		c.asked = slices.Clone(c.asked[1:])
	}
}

// count asks devices once which items they have: popularity, to compare with. What is known
// of it is how many have each.
func (c *Coordinator) count(ctx context.Context, t int) error {
	c.say(Counting)
	task := c.newTask(pb.Kind_COUNT, t, c.plan.Items, &pb.Bound{Clip: 1, Levels: 1, Max: 1})
	return c.ask(ctx, task, func(s *keptSum) error {
		next := proto.Clone(c.catalogue.Current()).(*pb.Catalogue)
		for i, n := range s.Sum {
			if n >= fewest { // an item that few have would show who they are
				next.Popular = append(next.Popular, uint32(i))
			}
		}
		slices.SortStableFunc(next.Popular, func(a, b uint32) int { return cmp.Compare(s.Sum[b], s.Sum[a]) })
		next.Version++
		if err := c.point("counted"); err != nil {
			return err
		}
		c.catalogue.Set(next, c.settings.Features)
		return c.save(models.Outcome{}, false)
	})
}

// metricNoise is the deviation of a readout's sums, in devices.
func (c *Coordinator) metricNoise() (float64, error) {
	g := c.engine.Stack
	if g == nil {
		return readoutNoise, nil
	}
	if g.Trust != privacy.Central {
		return 0, skipped(fmt.Sprintf("trust=%s: the coordinator would see the sums without their noise", g.Trust))
	}
	if g.Policy.Metrics == 0 { // nothing may be said that the budget does not cover
		return 0, skipped("the promise covers no metrics: metrics=Z in --dp would release them with noise")
	}
	ok, err := c.engine.Affords(1)
	if err == nil && !ok {
		err = skipped("the privacy budget has no room for one")
	}
	return g.Policy.Metrics * privacy.MetricSensitivity, err
}

// readout has devices evaluate the newest model, after round t. The second result is why
// there is none, or why popularity is not in it.
func (c *Coordinator) readout(ctx context.Context, t int) (r *Readout, why string, err error) {
	noise, err := c.metricNoise()
	if err == nil && c.engine.Stack == nil && !c.counted {
		if err := c.count(ctx, t); err != nil && !isSkipped(err, &why) {
			return nil, "", err
		} else if err != nil {
			why = "popularity is not known: " + why
		}
	}
	if err == nil {
		r, err = c.evaluate(ctx, t, noise)
	}
	if isSkipped(err, &why) {
		r, err = nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.missed = ""; why != "" {
		c.missed = fmt.Sprintf("after round %d: %s", t+1, why)
	}
	return r, why, err
}

func isSkipped(err error, why *string) bool {
	var s skipped
	ok := errors.As(err, &s)
	if ok {
		*why = string(s)
	}
	return ok
}

// evaluate asks for one readout. It is paid for when its sum is there, and on disk before
// anybody sees it: one that a kill cuts off was seen by nobody, and is not made again.
func (c *Coordinator) evaluate(ctx context.Context, t int, noise float64) (r *Readout, err error) {
	c.say(fmt.Sprintf("%s %d", Reading, t+1))
	g := c.engine.Stack
	bound, most := readoutBound(c.settings.Devices)
	task := c.newTask(pb.Kind_EVALUATE, t, metrics.EvaluationLength, wire.EncodeBound(bound, 0, 0, most))
	err = c.ask(ctx, task, func(s *keptSum) error {
		if g != nil {
			if err := c.budget.SpendNew(g.MetricEvent()); err != nil {
				return err
			}
		}
		c.freshKey()
		sums := c.blur(t, noise, bound.Unit(), s.Sum)
		n := sums[0]
		if g != nil {
			n = float64(c.settings.Devices) // how many have one is not covered
		}
		share := func(x float64) float64 { return math.Round(x/math.Max(n, 1)*1e4) / 1e4 }
		r = &Readout{
			Round: t + 1, Version: c.models.Last(), Devices: math.Round(n), HR10: share(sums[1]),
			NDCG10: share(sums[2]), Noise: noise, Share: share(noise),
		}
		if r.Popular = g == nil && len(c.catalogue.Current().Popular) > 0; r.Popular {
			r.PopHR10, r.PopNDCG10 = share(sums[4]), share(sums[5])
		}
		if err := c.point("read"); err != nil {
			return err
		}
		all := append(slices.Clone(c.readouts), *r)
		all = all[max(0, len(all)-1000):]
		if err := c.put("readouts", all); err != nil {
			return err
		}
		c.mu.Lock()
		c.readouts = all
		c.mu.Unlock()
		return nil
	})
	return r, err
}

// blur adds noise to the sums of an evaluation, in devices. Rounding a sum may add one step
// to what a device can move it by.
func (c *Coordinator) blur(t int, noise, unit float64, sum []int32) []float64 {
	const fine = 1 << 10
	out := make([]float64, len(sum))
	node := round.MetricsNode(t)
	for i, x := range sum {
		from := derived(c.noise, node, i)
		if c.settings.Rehearsal { // a stream that no round has
			from = round.DeterministicNoise(c.settings.Seed, node, i)
		}
		v := []int64{int64(math.Round(float64(x) * unit * fine))}
		privacy.NewSource(from).AddGauss(int64(math.Ceil(noise*(fine+1))), v)
		out[i] = float64(v[0]) / fine
	}
	return out
}
