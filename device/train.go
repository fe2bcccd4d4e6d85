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

// train visits, and returns the bounded update with the private state after it.
func (d *Device) train(t *pb.Task, out *StepResult) (vector []int64, state []byte, err error) {
	h := d.opt.Workspace
	bound, err := wire.DecodeBound(t.Bound)
	if err != nil {
		return nil, nil, err
	}
	if int(t.Round) >= h.plan.Rounds {
		return nil, nil, fmt.Errorf("agent: round %d of a plan of %d", t.Round+1, h.plan.Rounds)
	}
	if own := h.plan.Bound(1).MaxInteger; bound.MaxInteger != own {
		return nil, nil, fmt.Errorf("agent: the task has integers up to %d where each slot has a scale of its own, "+
			"and the plan %d", bound.MaxInteger, own)
	}
	vector = h.vector[:h.plan.UpdateLength(int(t.Round))+1]
	if t.Length != uint64(len(vector)) {
		return nil, nil, fmt.Errorf("agent: the task wants %d numbers, and an update has %d", t.Length, len(vector))
	}
	st, err := h.privateState(d.record, t.Run)
	if err != nil {
		return nil, nil, err
	}
	task, _, _, err := h.prepare(d.source(true), d.record, int(t.Round))
	if err != nil {
		return nil, nil, err
	}
	h.mem.SetBound(bound)
	d.seedWorkspace()
	if h.unread { // what an interrupted visit has left
		h.mem.TakeUpdate(0, h.vector)
	}
	h.unread = true
	out.Samples = h.worker.Visit(&st, task, 0, false).Samples
	h.mem.TakeUpdate(0, vector)
	h.unread = false
	switch {
	case h.hasPolicy():
	case out.Samples > 0 && t.Masking != nil:
		vector[len(vector)-1] = 1 // the sum counts those who had something to learn from
	case out.Samples == 0 && t.Masking == nil:
		vector = nil // it takes no part, and says so
	}
	return vector, h.plan.AppendState(nil, &st), nil
}

// seedWorkspace makes what the next visit draws the device's own.
func (d *Device) seedWorkspace() {
	if d.opt.Workspace.plan.DeviceSeed = d.record.Seed; d.record.Deterministic {
		d.opt.Workspace.plan.DeviceSeed = 0
	}
}

// source is what the device trains on; with the hold-out left out where it is to be.
func (d *Device) source(holdOut bool) Source {
	if d.opt.Source != nil {
		return d.opt.Source
	}
	return &recordedEvents{history: &d.record.History, holdOut: holdOut && d.opt.HoldOut}
}

// maxNoise is what package privacy draws exactly.
const maxNoise = 1 << 24

// addNoise adds the noise that a task asks for, and holds to its largest number.
func (d *Device) addNoise(t *pb.Task, seed uint64, vector []int64) error {
	b := t.Bound
	if b.Noise > maxNoise || b.BitNoise > maxNoise {
		return fmt.Errorf("agent: noise of %d and %d: want at most %d", b.Noise, b.BitNoise, maxNoise)
	}
	if b.Noise > 0 || b.BitNoise > 0 {
		var from io.Reader = rand.Reader
		if d.record.Deterministic { // as package sim draws it
			tree := -2 - int(t.Kind)
			from = rng.Bytes(seed, rng.Noise, uint64(tree), uint64(t.Round), uint64(d.record.DeviceID), 0)
		}
		n, s := len(vector), privacy.NewSource(from)
		if t.Kind == pb.Kind_TRAIN && n > 0 {
			n--
		}
		s.AddGauss(b.Noise, vector[:n])
		s.AddGauss(b.BitNoise, vector[n:])
	}
	for i, x := range vector {
		vector[i] = min(max(x, -b.Max), b.Max)
	}
	return nil
}
