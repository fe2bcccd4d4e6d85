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

// evaluate ranks the held-out item among all items that the device has not seen, and bounds the
// metrics like an update. A device without a held-out item reports zeros.
func (d *Device) evaluate(t *pb.Task) ([]int64, error) {
	w := d.opt.Workspace
	bound, err := wire.DecodeBound(t.Bound)
	switch {
	case err != nil:
		return nil, err
	case bound.Bit:
		return nil, errors.New("the task requires a clipping bit, which evaluations do not have")
	case t.Length != metrics.EvaluationLength:
		return nil, fmt.Errorf("the task requires reports of %d numbers, but an evaluation has %d", t.Length,
			metrics.EvaluationLength)
	}
	private, err := w.privateState(d.record, t.Run)
	if err != nil {
		return nil, err
	}
	task, heldOut, ok, err := w.prepare(d.source(true), d.record, min(int(t.Round), w.plan.Rounds-1))
	if err != nil {
		return nil, err
	}
	update := make([]int64, metrics.EvaluationLength)
	if !ok || w.catalogue.item(heldOut).Retired {
		return update, nil
	}
	d.seedWorkspace()
	w.score(&private, task)
	row := w.evaluate(task, heldOut)
	delta := privacy.Delta{Rows: [][]float32{row[:]}, At: []int{0}, BitAt: -1}
	bound.Encode(&delta, update)
	return update, nil
}

func itemSet(items []uint32) map[uint32]bool {
	out := make(map[uint32]bool, len(items)+1)
	for _, i := range items {
		out[i] = true
	}
	return out
}

// evaluate compares the model with the popularity baseline on one held-out item.
func (w *Workspace) evaluate(t *local.Task, heldOut uint32) metrics.Evaluation {
	seen := itemSet(t.Train)
	seen[heldOut] = true
	isCandidate := func(i uint32) bool { return !seen[i] && !w.catalogue.item(i).Retired }
	var others []float32
	for i, z := range w.scores {
		if isCandidate(uint32(i)) {
			others = append(others, z)
		}
	}
	var popular *metrics.Rank
	if len(w.catalogue.items.Popular) > 0 {
		popular = w.catalogue.popularityRank(heldOut, isCandidate)
	}
	return metrics.Evaluate(metrics.RankOf(w.scores[heldOut], others), popular)
}

// popularityRank returns the rank of an item by popularity. Items outside the popularity list tie
// for the last rank.
func (c *catalogue) popularityRank(item uint32, isCandidate func(uint32) bool) *metrics.Rank {
	p := &metrics.Rank{}
	for _, i := range c.items.Popular {
		if i == item {
			return p
		}
		if isCandidate(i) {
			p.Above++
		}
	}
	listed := make([]bool, c.len())
	for _, i := range c.items.Popular {
		listed[i] = true
	}
	for i := range uint32(c.len()) {
		if !listed[i] && isCandidate(i) {
			p.Ties++
		}
	}
	return p
}

// count reports 1 for each item that the device trains on. The held-out item is left out, so that
// the popularity baseline does not contain it either.
func (d *Device) count(t *pb.Task) ([]int64, error) {
	w := d.opt.Workspace
	if t.Length != uint64(w.plan.Items) {
		return nil, fmt.Errorf("the task requires reports of %d numbers, but the catalogue has %d items", t.Length,
			w.plan.Items)
	}
	task, _, _, err := w.prepare(d.source(true), d.record, 0)
	if err != nil {
		return nil, err
	}
	update := make([]int64, w.plan.Items)
	for _, i := range task.Train {
		update[i] = 1
	}
	return update, nil
}
