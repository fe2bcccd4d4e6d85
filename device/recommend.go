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
	Basis          Basis            `json:"basis"`
	Note           string           `json:"note,omitempty"` // what the owner should know if Basis is not Personal
	Items          []Recommendation `json:"items"`          // the best first
}

// Basis says what recommendations are based on.
type Basis string

const (
	Personal Basis = "personal" // the owner's history
	Popular  Basis = "popular"  // what most devices have: the history says nothing yet
	NewUser  Basis = "new-user" // what the model prefers for a user without history: popularity is unknown
	Unranked Basis = "unranked" // catalogue order: popularity is unknown, and the model has no preference
)

// Recommendation is one recommended item.
type Recommendation struct {
	ID    string  `json:"id"`
	Title string  `json:"title"`
	Score float32 `json:"score"` // of the model; 0 if Basis is Popular or Unranked
	Basis Basis   `json:"basis"` // that of the list; Popular or Unranked if the model has no score for the item
}

// Recommend returns the n best items for the owner. It makes no calls. It leaves out items that the
// owner has seen and retired items. All events count, including a held-out item. If the history is empty,
// or the model knows nothing about its items, it returns popular items and says so.
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
	blank, fresh := *t, w.mem.NewState(nil)
	blank.Train, blank.Rating, blank.Rows = t.Train[:0], t.Rating[:0], t.Rows[:0]
	w.score(&fresh, &blank)
	withoutHistory := slices.Clone(w.scores)
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
	out.Basis = w.basis(order, withoutHistory)
	out.Note = out.note(d.historyItems(), w.spreads(order))
	rank := w.catalogue.popularity()
	slices.SortStableFunc(order, func(a, b uint32) int {
		if out.Basis == Popular || out.Basis == Unranked {
			return cmp.Compare(rank[a], rank[b])
		}
		return cmp.Or(cmp.Compare(w.scores[b], w.scores[a]), cmp.Compare(rank[a], rank[b]))
	})
	for _, i := range order[:min(max(n, 0), len(order))] {
		it := w.catalogue.item(i)
		r := Recommendation{ID: it.Id, Title: it.Title, Basis: out.Basis}
		if out.Basis == Personal || out.Basis == NewUser {
			if r.Score = w.scores[i]; r.Score == 0 { // exactly: nothing that the model learnt concerns the item
				r.Basis = w.fallback()
			}
		}
		out.Items = append(out.Items, r)
	}
	return out, nil
}

// basis decides what to recommend by: the scores of the candidates if they differ and the history has changed them,
// because the device has trained with it or the method reads it.
func (w *Workspace) basis(candidates []uint32, withoutHistory []float32) Basis {
	differ := w.spreads(candidates)
	personal := slices.ContainsFunc(candidates, func(i uint32) bool { return w.scores[i] != withoutHistory[i] })
	switch {
	case personal && differ:
		return Personal
	case differ && w.fallback() == Unranked:
		return NewUser
	}
	return w.fallback()
}

// spreads reports whether the model prefers some of the candidates.
func (w *Workspace) spreads(candidates []uint32) bool {
	return slices.ContainsFunc(candidates, func(i uint32) bool { return w.scores[i] != w.scores[candidates[0]] })
}

// fallback is what ranks items for which the model has no score.
func (w *Workspace) fallback() Basis {
	if len(w.catalogue.items.Popular) > 0 {
		return Popular
	}
	return Unranked
}

// historyItems returns the number of different items in the history.
func (d *Device) historyItems() int {
	items := map[string]bool{}
	for _, e := range d.record.History.Events {
		items[e.Item] = true
	}
	return len(items)
}

// note says why recommendations are not personal; items is the number of items in the history, and differ says
// whether the model prefers some items.
func (r *Recommendations) note(items int, differ bool) string {
	why := "no history yet"
	switch {
	case r.KnownItems > 0 && differ:
		why = "this device has not trained with your history yet, which it does in a round"
	case r.KnownItems > 0:
		why = "the model knows nothing about the items of your history yet"
	case items > 0:
		why = "the catalogue has none of the items of your history (are the item IDs the same?)"
	}
	switch r.Basis {
	case Popular:
		return why + ": items that are popular by the federation's counts"
	case NewUser:
		return why + ", and popularity is unknown: items that the model prefers for a new user"
	case Unranked:
		return why + ", and popularity is unknown: items in catalogue order"
	}
	return ""
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
