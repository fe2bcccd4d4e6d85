package closed

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// pairs is Tacit's optional item-item model, that of SLIT (Choi et al. 2021).
type pairs struct {
	on  bool
	few int
}

// tacSLIT holds settings that work for histories of dozens and of hundreds of items.
var tacSLIT = Slit{Rho: 0.8, Ahead: 0.5, Reg: 500}

// autoItems is the largest catalogue for which items=auto learns the item-item model.
const autoItems = 4000

// Slots of the item-item model after tacItems, its weights.
const (
	tacPast   = tacItems + 1 + iota // sum
	tacAfter                        // sum
	tacWithin                       // sum: 1 for each item that has an earlier and a later one
	tacScore                        // ephemeral
)

// Devices compare the settings of tacGrid in the last round, or those of tacWider with the
// item-item model.
var (
	tacRecency = []learn.Recency{
		{Rho: 0.8, Boost: 2, Base: 0.05},
		{Base: 1},
		{Rho: 0.7, Boost: 5, Base: 0.05},
		{Rho: 0.9, Boost: 3, Base: 0.05},
	}
	tacGrid  = MixtureGrid{Recency: tacRecency, Mixture: []Mixture{{Head: 0.3}, {}, {Head: 0.15}, {Head: 0.5}}}
	tacWider = MixtureGrid{Recency: tacRecency, Mixture: []Mixture{
		{Head: 0.3},
		{},
		{Head: 0.15},
		{Head: 0.5},
		{Items: 0.2},
		{Items: 0.4},
		{Items: 0.6},
		{Head: 0.15, Items: 0.2},
		{Head: 0.15, Items: 0.4},
	}}
)

func (m *Tacit) pairs(items int) pairs {
	return pairs{m.Items == "on" || m.Items == "auto" && items <= autoItems, m.Few}
}

func (p pairs) grid() MixtureGrid {
	if p.on {
		return tacWider
	}
	return tacGrid
}

func (p pairs) slots(items int) []method.Slot {
	if !p.on {
		return nil
	}
	shared := method.Shared
	return []method.Slot{
		{
			Name: "weight", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: items,
			Doc: "weights from an item to every possible next item",
		},
		{
			Name: "past", Scope: shared, Upload: method.Sum, PerItem: true, Dim: SymmetricRows(items).Dim(), Range: 6,
			Doc: "decayed pairs of earlier items; half of the symmetric matrix, in the head's round",
		},
		{
			Name: "after", Scope: shared, Upload: method.Sum, PerItem: true, Dim: items, Range: 2,
			Doc: "decayed pairs of an item and a later one, in the head's round",
		},
		{
			Name: "within", Scope: shared, Upload: method.Sum, PerItem: true, Dim: 1, Range: 1,
			Doc: "1 for each item that has an earlier and a later one, in the head's round",
		},
		{Name: "score", Scope: method.Ephemeral, Rows: 1, Dim: items, Doc: "item-item scores of all items"},
	}
}

// first returns the row of item 0 in a slot's sums.
func first(w *method.Work, slot int) uint32 { return w.Samples.Wr[slot][0] - w.Samples.Item[0] }

func (p pairs) sums(w *method.Work, past []uint32) {
	if p.on {
		tacSLIT.Sums(w, past, first(w, tacPast), first(w, tacAfter), &w.View[tacPast], &w.View[tacAfter])
		CountOnce(w, past[1:len(past)-1], first(w, tacWithin), &w.View[tacWithin])
	}
}

// scores returns the item-item scores of all items at a standard deviation of 1, or nil
// without the model.
func (p pairs) scores(w *method.Work, history []uint32) []float32 {
	if !p.on {
		return nil
	}
	all := w.View[tacScore].Val
	tacSLIT.Scores(&w.View[tacItems], history, all)
	learn.Standardise(all[:w.Items])
	return all[:w.Items]
}

func (p pairs) add(w *method.Work, b *method.Batch, out []float32) {
	if p.on {
		all := w.View[tacScore].Val
		for x, i := range b.Item {
			out[x] += all[i]
		}
	}
}

func (p pairs) update(g *method.Global) {
	if p.on {
		keep := FrequentItems(g.Aggregate[tacWithin], g.Items, g.Stride[tacWithin], p.few)
		scale(g, tacPast, tacAfter)
		tacSLIT.Weights(keep, g.Aggregate[tacPast], g.Stride[tacPast], g.Aggregate[tacAfter], g.Stride[tacAfter],
			g.Value[tacItems])
	}
}
