package device

import (
	"crypto/rand"
	"fmt"
	"io"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// train runs local training and returns the encoded update and the private state after it.
func (d *Device) train(t *pb.Task, out *StepResult) (update []int64, state []byte, err error) {
	w := d.opt.Workspace
	bound, err := w.trainingBound(t)
	if err != nil {
		return nil, nil, err
	}
	private, err := w.privateState(d.record, t.Run)
	if err != nil {
		return nil, nil, err
	}
	task, _, _, err := w.prepare(d.source(true), d.record, int(t.Round))
	if err != nil {
		return nil, nil, err
	}
	w.mem.SetBound(bound)
	d.seedWorkspace()
	if w.unread { // an interrupted training left an update in the workspace
		w.mem.TakeUpdate(0, w.update)
	}
	w.unread = true
	out.Samples = w.worker.Visit(&private, task, 0, false).Samples
	update = w.update[:t.Length]
	w.mem.TakeUpdate(0, update)
	w.unread = false
	switch {
	case w.hasPolicy():
	case out.Samples > 0 && t.Masking != nil:
		update[len(update)-1] = 1 // the last number of the sum counts devices with training data
	case out.Samples == 0 && t.Masking == nil:
		update = nil // an empty update: the device has no training data
	}
	return update, w.plan.AppendState(nil, &private), nil
}

// trainingBound returns the bound of a training task after checking it against the plan.
func (w *Workspace) trainingBound(t *pb.Task) (privacy.Bound, error) {
	bound, err := wire.DecodeBound(t.Bound)
	if err != nil {
		return bound, err
	}
	if int(t.Round) >= w.plan.Rounds {
		return bound, fmt.Errorf("the task is for round %d, but the plan has %d rounds", t.Round+1, w.plan.Rounds)
	}
	if planned := w.plan.RoundMaxInteger(int(t.Round)); bound.MaxInteger != planned {
		return bound, fmt.Errorf("the task has integers up to %d per slot, the plan %d", bound.MaxInteger, planned)
	}
	if length := w.plan.UpdateLength(int(t.Round)) + 1; t.Length != uint64(length) {
		return bound, fmt.Errorf("the task requires updates of %d numbers, but an update has %d", t.Length, length)
	}
	return bound, nil
}

// seedWorkspace makes the randomness of the next local training the device's own.
func (d *Device) seedWorkspace() {
	plan := d.opt.Workspace.plan
	plan.DeviceSeed = d.record.Seed
	if d.record.Deterministic {
		plan.DeviceSeed = 0
	}
}

// source returns the training data, without the held-out item if holdOut is set.
func (d *Device) source(holdOut bool) source {
	if d.opt.Source != nil {
		return simulated(d.opt.Source)
	}
	return &recordedEvents{history: &d.record.History, holdOut: holdOut && d.opt.HoldOut}
}

// maxNoise is the largest deviation that package privacy samples exactly.
const maxNoise = 1 << 24

// addNoise adds the noise that a task requires and limits the magnitude of each number.
func (d *Device) addNoise(t *pb.Task, seed uint64, update []int64) error {
	b := t.Bound
	if b.Noise > maxNoise || b.BitNoise > maxNoise {
		return fmt.Errorf("the task requires noise of %d and %d: must be at most %d", b.Noise, b.BitNoise, maxNoise)
	}
	if b.Noise > 0 || b.BitNoise > 0 {
		var random io.Reader = rand.Reader
		if d.record.Deterministic { // the same numbers as in a simulation
			tree := -2 - int(t.Kind)
			random = rng.Bytes(seed, rng.Noise, uint64(tree), uint64(t.Round), uint64(d.record.DeviceID), 0)
		}
		n := len(update)
		if t.Kind == pb.Kind_TRAIN && n > 0 {
			n-- // the last number is the clipping bit
		}
		s := privacy.NewSource(random)
		s.AddGauss(b.Noise, update[:n])
		s.AddGauss(b.BitNoise, update[n:])
	}
	for i, x := range update {
		update[i] = min(max(x, -b.Max), b.Max)
	}
	return nil
}
