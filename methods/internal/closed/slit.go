package closed

import (
	"github.com/tacit-rec/tacit/method"
)

// SLIT is the linear model of item transitions of Choi et al. (WWW 2021), federated. It
// regresses the items after a position of a history on those before it, both weighted by
// their distance from the position. Devices send sums over pairs of their items once, and
// the coordinator solves, so one round is exact. The paper also weights sessions by age;
// here each device has one history.
type SLIT struct {
	Rho   float64 `default:"0.8" min:"0" max:"<1" range:"0.5..0.95" doc:"decay per step back"`
	Ahead float64 `default:"0.5" min:"0" max:"<1" range:"0..0.9" doc:"decay per step ahead"`
	Reg   float64 `default:"500" min:">0" range:"100..2000,log" doc:"regularisation"`
	Few   int     `default:"2" min:"1" range:"1|2|5" doc:"items that fewer devices have inside their histories are left out"`
}

var (
	_ method.Ready   = (*SLIT)(nil)
	_ method.Updater = (*SLIT)(nil)
)

const (
	slitWeight = iota // broadcast
	slitPast          // sum
	slitNext          // sum
	slitCount         // sum
	slitScore         // ephemeral
)

func (m *SLIT) Slots(items int) []method.Slot {
	return []method.Slot{
		slitWeight: {
			Name: "weight", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: items,
			Doc: "weights from an item to every possible next item",
		},
		slitPast: {
			Name: "past", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: SymmetricRows(items).Dim(),
			Doc: "decayed pairs of earlier items; half of the symmetric matrix",
		},
		slitNext: {
			Name: "next", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: items,
			Doc: "decayed pairs of an item and a later one",
		},
		slitCount: {
			Name: "count", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: 1,
			Doc: "1 for each item that has an earlier and a later one",
		},
		slitScore: {Name: "score", Scope: method.Ephemeral, Rows: 1, Dim: items, Doc: "scores of all items"},
	}
}

func (m *SLIT) model() Slit { return Slit{Rho: m.Rho, Ahead: m.Ahead, Reg: m.Reg} }

func (m *SLIT) Logits(w *method.Work, b *method.Batch, out []float32) {
	pick(&w.View[slitScore], b, out)
}

func (m *SLIT) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		if len(w.History) < 2 {
			return
		}
		m.model().Sums(w, w.History, first(w, slitPast), first(w, slitNext), &w.View[slitPast], &w.View[slitNext])
		// Only inner items contribute to both their row and their column.
		CountOnce(w, w.History[1:len(w.History)-1], first(w, slitCount), &w.View[slitCount])
	}}
}

func (m *SLIT) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		m.model().Scores(&w.View[slitWeight], w.History, w.View[slitScore].Val)
	}}
}

func (m *SLIT) Update(g *method.Global) {
	keep := FrequentItems(g.Aggregate[slitCount], g.Items, g.Stride[slitCount], m.Few)
	scale(g, slitPast, slitNext)
	m.model().Weights(keep, g.Aggregate[slitPast], g.Stride[slitPast], g.Aggregate[slitNext], g.Stride[slitNext],
		g.Value[slitWeight])
}
