package agent

import (
	"fmt"

	"github.com/tacit-rec/tacit/rank"
	"github.com/tacit-rec/tacit/wire/pb"
)

// readoutUnit is what a gain of 1 is sent as.
const readoutUnit = 1 << 20

// evaluate ranks the item that is held out among all that the device does not have: by
// the model, and by popularity. A device without one sends zeros. Kind_EVALUATE says what
// the numbers are.
func (d *Device) evaluate(t *pb.Task) ([]int64, error) {
	h, vector := d.opt.Host, make([]int64, 5)
	if t.Numbers != uint64(len(vector)) {
		return nil, fmt.Errorf("agent: the task wants %d numbers, and an evaluation has %d", t.Numbers, len(vector))
	}
	st, err := h.revive(d.rec, t.Run)
	if err != nil {
		return nil, err
	}
	task, held, ok, err := h.open(d.source(true), d.rec.Seat, min(int(t.Round), h.plan.Rounds-1))
	if err != nil {
		return nil, err
	}
	if !ok || h.cat.Item(held).Retired {
		return vector, nil
	}
	d.claim()
	h.score(&st, task)
	out := own(task.Train)
	out[held] = true
	vector[0] = 1
	vector[1], vector[2] = h.place(h.scores, held, out)
	if h.popular != nil {
		vector[3], vector[4] = h.place(h.popular, held, out)
	}
	return vector, nil
}

func own(items []uint32) map[uint32]bool {
	out := make(map[uint32]bool, len(items)+1)
	for _, i := range items {
		out[i] = true
	}
	return out
}

// place is hit and gain at 10 of an item among those that are not left out. It loses
// every tie, so that scores which are all alike earn nothing.
func (h *Host) place(scores []float32, held uint32, out map[uint32]bool) (hit, gain int64) {
	var others []float32
	for i, z := range scores {
		if !out[uint32(i)] && !h.cat.Item(uint32(i)).Retired {
			others = append(others, z)
		}
	}
	a, b := rank.Among(scores[held], others).At(10, rank.Against)
	return int64(a), int64(b * readoutUnit)
}

// count says which items the device trains on: popularity must not know the item that is
// held out either.
func (d *Device) count(t *pb.Task) ([]int64, error) {
	h := d.opt.Host
	if t.Numbers != uint64(h.plan.Items) {
		return nil, fmt.Errorf("agent: the task wants %d numbers, and there are %d items", t.Numbers, h.plan.Items)
	}
	task, _, _, err := h.open(d.source(true), d.rec.Seat, 0)
	if err != nil {
		return nil, err
	}
	vector := make([]int64, h.plan.Items)
	for _, i := range task.Train {
		vector[i] = 1
	}
	return vector, nil
}
