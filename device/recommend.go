package device

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// Recommendations are the items that a device recommends to its owner.
type Recommendations struct {
	ModelVersion   uint64           `json:"version"`
	ModelCreatedAt time.Time        `json:"made"`
	Round          uint32           `json:"round"` // rounds that the model contains
	Federation     string           `json:"federation"`
	KnownItems     int              `json:"known"` // items of the owner that the catalogue has
	Items          []Recommendation `json:"items"` // the best first
}

// Recommendation is one recommended item.
type Recommendation struct {
	ID    string  `json:"id"`
	Title string  `json:"title"`
	Score float32 `json:"score"`
}

// Recommend returns the n best items for the owner. It makes no calls. It leaves out items that the
// owner has seen and retired items. All events count, including a held-out item.
func (d *Device) Recommend(n int) (*Recommendations, error) {
	w := d.opt.Workspace
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := d.loadNewest()
	if err != nil {
		return nil, err
	}
	private, err := w.privateState(d.record, m.Run)
	if err != nil {
		return nil, err
	}
	t, heldOut, ok, err := w.prepare(d.source(false), d.record, min(int(m.Round), w.plan.Rounds-1))
	if err != nil {
		return nil, err
	}
	seen := itemSet(t.Train)
	if ok {
		seen[heldOut] = true
	}
	d.seedWorkspace()
	w.score(&private, t)
	out := &Recommendations{
		ModelVersion: m.Version, ModelCreatedAt: time.UnixMilli(m.CreatedMs), Round: m.Round,
		Federation: d.record.Name, KnownItems: len(seen),
	}
	var order []uint32
	for i := range uint32(w.plan.Items) {
		if !seen[i] && !w.catalogue.item(i).Retired {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(w.scores[b], w.scores[a]) })
	for _, i := range order[:min(max(n, 0), len(order))] {
		it := w.catalogue.item(i)
		out.Items = append(out.Items, Recommendation{ID: it.Id, Title: it.Title, Score: w.scores[i]})
	}
	return out, nil
}

// loadNewest loads the model of the record into the workspace. Another process that runs the same
// device may adopt a newer model meanwhile and remove the blobs of this one; then it loads the newer.
func (d *Device) loadNewest() (m *pb.Manifest, err error) {
	for before := uint64(0); ; before = m.Version {
		if err := d.refresh(); err != nil {
			return nil, err
		}
		m, err = d.manifest()
		if err != nil {
			return nil, err
		}
		err = d.opt.Workspace.load(m, d.stored)
		if !errors.Is(err, errBlobMissing) || m.Version == before {
			return m, err
		}
	}
}
