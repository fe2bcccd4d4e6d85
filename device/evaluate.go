package device

import (
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// evaluate ranks the item that is held out, among all that the device does not have,
// and bounds the readout as it bounds an update. A device without one sends zeros.
func (d *Device) evaluate(t *pb.Task) ([]int64, error) {
	h := d.opt.Host
	bound, err := wire.BoundOf(t.Bound)
	switch {
	case err != nil:
		return nil, err
	case bound.Bit:
		return nil, errors.New("agent: an evaluation has no clipping bit")
	case t.Length != metrics.ReadoutNumbers:
		return nil, fmt.Errorf("agent: the task wants %d numbers, and an evaluation has %d", t.Length,
			metrics.ReadoutNumbers)
	}
	st, err := h.revive(d.rec, t.Run)
	if err != nil {
		return nil, err
	}
	task, held, ok, err := h.open(d.source(true), d.rec, min(int(t.Round), h.plan.Rounds-1))
	if err != nil {
		return nil, err
	}
	vector := make([]int64, metrics.ReadoutNumbers)
	if !ok || h.cat.Item(held).Retired {
		return vector, nil
	}
	d.claim()
	h.score(&st, task)
	row := h.readout(task, held)
	draft := privacy.Delta{Rows: [][]float32{row[:]}, At: []int{0}, BitAt: -1}
	bound.Encode(&draft, vector)
	return vector, nil
}

func own(items []uint32) map[uint32]bool {
	out := make(map[uint32]bool, len(items)+1)
	for _, i := range items {
		out[i] = true
	}
	return out
}

// readout compares the model with popularity on one held-out item.
func (h *Host) readout(t *local.Task, held uint32) metrics.Readout {
	out := own(t.Train)
	out[held] = true
	against := func(i uint32) bool { return !out[i] && !h.cat.Item(i).Retired }
	var others []float32
	for i, z := range h.scores {
		if against(uint32(i)) {
			others = append(others, z)
		}
	}
	var popular *metrics.Place
	if len(h.cat.about.Popular) > 0 {
		popular = h.cat.popularity(held, against)
	}
	return metrics.Read(metrics.Among(h.scores[held], others), popular)
}

// popularity is the place of an item in the order of popularity. Items that the order
// does not name come last, all alike.
func (c *Catalogue) popularity(held uint32, against func(uint32) bool) *metrics.Place {
	p := &metrics.Place{}
	for _, i := range c.about.Popular {
		if i == held {
			return p
		}
		if against(i) {
			p.Above++
		}
	}
	named := make([]bool, c.Items())
	for _, i := range c.about.Popular {
		named[i] = true
	}
	for i := range uint32(c.Items()) {
		if !named[i] && against(i) {
			p.Ties++
		}
	}
	return p
}

// count says which items the device trains on: popularity must not know the item that is
// held out either.
func (d *Device) count(t *pb.Task) ([]int64, error) {
	h := d.opt.Host
	if t.Length != uint64(h.plan.Items) {
		return nil, fmt.Errorf("agent: the task wants %d numbers, and there are %d items", t.Length, h.plan.Items)
	}
	task, _, _, err := h.open(d.source(true), d.rec, 0)
	if err != nil {
		return nil, err
	}
	vector := make([]int64, h.plan.Items)
	for _, i := range task.Train {
		vector[i] = 1
	}
	return vector, nil
}
