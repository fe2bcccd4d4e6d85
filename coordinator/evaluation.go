package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator/internal/evaluation"
	"github.com/tacit-rec/tacit/coordinator/internal/masked"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// evaluate lets devices evaluate the newest model, after round t. missed is why there is no result,
// or no popularity in it.
func (c *Coordinator) evaluate(ctx context.Context, t int) (result *Evaluation, missed string, err error) {
	noise, err := c.metricNoise()
	if err == nil && c.engine.Stack == nil && !c.evaluations.Counted() {
		err := c.countItems(ctx, t)
		if isSkipped(err, &missed) {
			missed = "popularity is unknown: " + missed
		} else if err != nil {
			return nil, "", err
		}
	}
	if err == nil {
		result, err = c.evaluateModel(ctx, t, noise)
	}
	if isSkipped(err, &missed) {
		result, err = nil, nil
	}
	c.evaluations.SetMissed("")
	if missed != "" {
		c.evaluations.SetMissed(fmt.Sprintf("after round %d: %s", t+1, missed))
	}
	return result, missed, err
}

func isSkipped(err error, why *string) bool {
	var s evaluation.Skipped
	ok := errors.As(err, &s)
	if ok {
		*why = string(s)
	}
	return ok
}

// metricNoise is the standard deviation of the sums, in devices.
func (c *Coordinator) metricNoise() (float64, error) {
	g := c.engine.Stack
	if g == nil {
		return evaluation.DefaultNoise, nil
	}
	if g.Trust != privacy.Central {
		return 0, evaluation.Skipped(fmt.Sprintf("trust=%s: the coordinator would see the sums without noise", g.Trust))
	}
	if g.Policy.Metrics == 0 {
		return 0, evaluation.Skipped("the privacy policy covers no metrics; metrics=Z in --dp releases them with noise")
	}
	ok, err := c.engine.Affords(1)
	if err == nil && !ok {
		err = evaluation.Skipped("the privacy budget does not cover an evaluation")
	}
	return g.Policy.Metrics * privacy.MetricSensitivity, err
}

// present are the devices that were heard of within a deadline, however long the last round took. An
// evaluation waits for no others: too many absent devices would end it.
func (c *Coordinator) present() []uint32 {
	return c.devices.SeenSince(c.now().Add(-c.settings().Deadline))
}

// ask lets devices add up numbers in one masked sum, with a single attempt: two sums of the same
// question over different devices would reveal what the difference answered. Devices learn that
// they are in the sum when keep has returned.
func (c *Coordinator) ask(ctx context.Context, task *pb.Task, keep func(*masked.Sum) error) error {
	defer c.collection.Enter(nil)
	cohort := c.atMost(c.settings().Devices, int(task.Round), c.present()) // the sum is planned for as many
	if n := c.minDevices(task.Kind); len(cohort) < n {
		return evaluation.Skipped(fmt.Sprintf("fewer than %d devices are present, too few for a masked sum", n))
	}
	task.Attempt = c.nextAttempt()
	_, _, err := c.attempt(ctx, task, cohort, nil, func(s *masked.Sum) error {
		if len(s.Devices) == 0 {
			return evaluation.Skipped("the sum exceeds what honest devices can send")
		}
		if err := keep(s); err != nil {
			return err
		}
		c.collection.History.AddEvaluation(c.closedBy(task, s))
		return nil
	})
	switch {
	case errors.Is(err, secagg.ErrTooFew):
		return evaluation.Skipped("too few devices stayed for a masked sum")
	case errors.Is(err, secagg.ErrNoSum):
		return evaluation.Skipped("the messages of the devices contradict each other")
	case errors.Is(err, masked.ErrNoPlan):
		return evaluation.Skipped(err.Error())
	}
	return err
}

// countsAfter reports whether devices count their items after round t although they do not evaluate: after
// the first round and, if it did not succeed, after the last one.
func (c *Coordinator) countsAfter(t int) bool {
	s := c.settings()
	return s.CountItems && c.engine.Stack == nil && !c.evaluations.Counted() &&
		len(c.catalogue.Current().Popular) == 0 && (t == 0 || t+1 == s.Rounds)
}

// countItems asks devices, once in a run, which items they have: popularity, as a baseline. Only the
// number of devices that have an item is known.
func (c *Coordinator) countItems(ctx context.Context, t int) error {
	c.progress.set(Evaluating, "counting items")
	task := c.newTask(pb.Kind_COUNT, t, c.plan.Items, &pb.Bound{Clip: 1, Levels: 1, Max: 1})
	return c.ask(ctx, task, func(s *masked.Sum) error {
		next := proto.Clone(c.catalogue.Current()).(*pb.Catalogue)
		next.Popular = evaluation.Popular(s.Values)
		next.Version++
		if err := c.fault("counted"); err != nil {
			return err
		}
		c.catalogue.Set(next, c.catalogue.Features())
		return c.save(models.Outcome{}, false)
	})
}

// evaluateModel asks for one evaluation. It is paid for when its sum is there, and on disk before
// anybody sees it. One that a kill interrupts was seen by nobody and is not repeated.
func (c *Coordinator) evaluateModel(ctx context.Context, t int, noise float64) (result *Evaluation, err error) {
	c.progress.set(Evaluating, fmt.Sprintf("evaluation after round %d", t+1))
	g := c.engine.Stack
	bound, whole := evaluation.Bound(c.settings().Devices)
	task := c.newTask(pb.Kind_EVALUATE, t, metrics.EvaluationLength, wire.EncodeBound(bound, 0, 0, whole))
	err = c.ask(ctx, task, func(s *masked.Sum) error {
		if g != nil {
			if err := c.budget.SpendNew(g.MetricEvent()); err != nil {
				return err
			}
		}
		c.noise.Renew()
		sums := c.addNoise(t, noise, bound.Unit(), s.Values)
		devices := sums[0]
		if g != nil {
			devices = float64(c.settings().Devices) // the guarantee does not cover how many hold out an item
		}
		popular := g == nil && len(c.catalogue.Current().Popular) > 0
		result = evaluation.NewResult(sums, devices, noise, popular)
		result.Round, result.Version = t+1, c.models.Last()
		if err := c.fault("read"); err != nil {
			return err
		}
		return c.evaluations.Add(*result)
	})
	return result, err
}

// addNoise adds noise to the sums of an evaluation, in devices. Rounding may add one step to what a
// device can move a sum by.
func (c *Coordinator) addNoise(t int, noise, unit float64, sum []int32) []float64 {
	const steps = 1 << 10 // of a device
	out := make([]float64, len(sum))
	node := round.MetricsNode(t)
	for i, x := range sum {
		from := c.noise.Release(node, i)
		if c.settings().Deterministic {
			from = round.DeterministicNoise(c.settings().Seed, node, i)
		}
		v := []int64{int64(math.Round(float64(x) * unit * steps))}
		privacy.NewSource(from).AddGauss(int64(math.Ceil(noise*(steps+1))), v)
		out[i] = float64(v[0]) / steps
	}
	return out
}
