package device

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// Recommendations is what a device recommends to its owner.
type Recommendations struct {
	ModelVersion   uint64           `json:"version"` // of the model
	ModelCreatedAt time.Time        `json:"made"`
	Round          uint32           `json:"round"` // rounds that are in it
	Federation     string           `json:"federation"`
	KnownItems     int              `json:"known"` // items of the owner that the catalogue has
	Items          []Recommendation `json:"items"`
}

// Recommendation is one recommendation.
type Recommendation struct {
	ID    string  `json:"id"`
	Title string  `json:"title"`
	Score float32 `json:"score"`
}

// Recommend ranks the catalogue for the owner, from what the device has: no call is
// made. Items that the owner has, and retired ones, are left out. All events count, the
// one that is held out from training too.
func (d *Device) Recommend(n int) (*Recommendations, error) {
	h := d.opt.Workspace
	h.mu.Lock()
	defer h.mu.Unlock()
	m, err := d.newest()
	if err != nil {
		return nil, err
	}
	st, err := h.privateState(d.record, m.Run)
	if err != nil {
		return nil, err
	}
	t, held, ok, err := h.prepare(d.source(false), d.record, min(int(m.Round), h.plan.Rounds-1))
	if err != nil {
		return nil, err
	}
	has := itemSet(t.Train)
	if ok {
		has[held] = true
	}
	d.seedWorkspace()
	h.score(&st, t)
	out := &Recommendations{
		ModelVersion: m.Version, ModelCreatedAt: time.UnixMilli(m.CreatedMs), Round: m.Round, Federation: d.record.Name,
		KnownItems: len(has),
	}
	var order []uint32
	for i := range uint32(h.plan.Items) {
		if !has[i] && !h.catalogue.Item(i).Retired {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(h.scores[b], h.scores[a]) })
	for _, i := range order[:min(max(n, 0), len(order))] {
		it := h.catalogue.Item(i)
		out.Items = append(out.Items, Recommendation{ID: it.Id, Title: it.Title, Score: h.scores[i]})
	}
	return out, nil
}

// newest loads the model that the record names into the host. Another process may run the
// device and adopt a newer model in between, which removes the parts of this one: then the
// record names the newer.
func (d *Device) newest() (m *pb.Manifest, err error) {
	for before := uint64(0); ; before = m.Version {
		if err := d.refresh(); err != nil {
			return nil, err
		}
		if m, err = d.manifest(); err != nil {
			return nil, err
		}
		err = d.opt.Workspace.load(m, d.stored)
		if !errors.Is(err, errBlobMissing) || m.Version == before {
			return m, err
		}
	}
}
