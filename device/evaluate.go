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
	h := d.opt.Workspace
	bound, err := wire.DecodeBound(t.Bound)
	switch {
	case err != nil:
		return nil, err
	case bound.Bit:
		return nil, errors.New("agent: an evaluation has no clipping bit")
	case t.Length != metrics.EvaluationLength:
		return nil, fmt.Errorf("agent: the task wants %d numbers, and an evaluation has %d", t.Length,
			metrics.EvaluationLength)
	}
	st, err := h.privateState(d.record, t.Run)
	if err != nil {
		return nil, err
	}
	task, held, ok, err := h.prepare(d.source(true), d.record, min(int(t.Round), h.plan.Rounds-1))
	if err != nil {
		return nil, err
	}
	vector := make([]int64, metrics.EvaluationLength)
	if !ok || h.catalogue.Item(held).Retired {
		return vector, nil
	}
	d.seedWorkspace()
	h.score(&st, task)
	row := h.evaluate(task, held)
	draft := privacy.Delta{Rows: [][]float32{row[:]}, At: []int{0}, BitAt: -1}
	bound.Encode(&draft, vector)
	return vector, nil
}

func itemSet(items []uint32) map[uint32]bool {
	out := make(map[uint32]bool, len(items)+1)
	for _, i := range items {
		out[i] = true
	}
	return out
}

// evaluate compares the model with popularity on one held-out item.
func (h *Workspace) evaluate(t *local.Task, held uint32) metrics.Evaluation {
	out := itemSet(t.Train)
	out[held] = true
	against := func(i uint32) bool { return !out[i] && !h.catalogue.Item(i).Retired }
	var others []float32
	for i, z := range h.scores {
		if against(uint32(i)) {
			others = append(others, z)
		}
	}
	var popular *metrics.Rank
	if len(h.catalogue.about.Popular) > 0 {
		popular = h.catalogue.popularity(held, against)
	}
	return metrics.Evaluate(metrics.RankOf(h.scores[held], others), popular)
}

// popularity is the place of an item in the order of popularity. Items that the order
// does not name come last, all alike.
func (c *Catalogue) popularity(held uint32, against func(uint32) bool) *metrics.Rank {
	p := &metrics.Rank{}
	for _, i := range c.about.Popular {
		if i == held {
			return p
		}
		if against(i) {
			p.Above++
		}
	}
	named := make([]bool, c.Len())
	for _, i := range c.about.Popular {
		named[i] = true
	}
	for i := range uint32(c.Len()) {
		if !named[i] && against(i) {
			p.Ties++
		}
	}
	return p
}

// count says which items the device trains on: popularity must not know the item that is
// held out either.
func (d *Device) count(t *pb.Task) ([]int64, error) {
	h := d.opt.Workspace
	if t.Length != uint64(h.plan.Items) {
		return nil, fmt.Errorf("agent: the task wants %d numbers, and there are %d items", t.Length, h.plan.Items)
	}
	task, _, _, err := h.prepare(d.source(true), d.record, 0)
	if err != nil {
		return nil, err
	}
	vector := make([]int64, h.plan.Items)
	for _, i := range task.Train {
		vector[i] = 1
	}
	return vector, nil
}
