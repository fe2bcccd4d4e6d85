package closed

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// IALSNext is shared-curvature iALS that also uses the order of the history (Tacit's own). A
// device recommends with a vector that it solves for with more weight on its newest items,
// which requires no upload, blended with a sequence head: a ridge regression of the next item
// on decayed sums of the previous ones, which takes one round. In the last round each device
// holds out its newest item, ranks it with every setting of a small grid, and sends how well
// each setting did; the coordinator chooses the best. No tuning is needed, and held-out items
// are not used. SLIST (Choi et al. 2021) has similar closed-form models on items instead of
// vectors.
type IALSNext struct {
	IALS
	Rates   Rates   `default:"0,0.5,0.9" min:"1" doc:"decay rates of the sequence head's memories, one memory each"`
	HeadReg float64 `default:"3" min:">0" range:"1..30,log" doc:"regularisation of the sequence head"`
}

var (
	_ method.Headed      = (*IALSNext)(nil)
	_ method.Ready       = (*IALSNext)(nil)
	_ method.Updater     = (*IALSNext)(nil)
	_ method.PhasedSlots = (*IALSNext)(nil)
	_ method.FinalRound  = (*IALSNext)(nil)
)

const (
	nextHead   = alsSlots + iota // broadcast, after its round
	nextSquare                   // sum: outer products of memories
	nextNext                     // sum: the memory before an item
	nextMerit                    // sum: the rank gain of each setting
	nextChoice                   // broadcast: the chosen setting, from 1; 0 before the choice
	nextMemory                   // ephemeral
)

// nextGrid lists the settings that devices compare in the last round.
var nextGrid = MixtureGrid{
	Recency: []learn.Recency{
		{Rho: 0.8, Boost: 2, Base: 0.05},
		{Base: 1},
		{Rho: 0.7, Boost: 5, Base: 0.05},
		{Rho: 0.9, Boost: 3, Base: 0.05},
	},
	Share: []float32{0.3, 0, 0.15, 0.5},
}

// first returns the row of item 0 in a slot's sums.
func first(w *method.Work, slot int) uint32 { return w.Samples.Wr[slot][0] - w.Samples.Item[0] }

func (m *IALSNext) memory() Memory { return Memory{Rates: m.Rates, Dim: m.Dim} }

func (m *IALSNext) Slots(items int) []method.Slot {
	f, shared, reach := m.memory().Wide(), method.Shared, m.memory().Range()
	return append(m.IALS.Slots(items),
		method.Slot{
			Name: "head", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: f,
			Doc: "the sequence head",
		},
		method.Slot{
			Name: "square", Scope: shared, Upload: method.Sum, Rows: f, Dim: f, Range: reach * float64(items),
			HighPrecision: true, Doc: "outer products of memories, in the head's round",
		},
		method.Slot{
			Name: "next", Scope: shared, Upload: method.Sum, PerItem: true, Dim: f, Range: reach,
			Doc: "the memory before each item, in the head's round",
		},
		method.Slot{
			Name: "merit", Scope: shared, Upload: method.Sum, Rows: 1, Dim: nextGrid.Len(), Range: 2,
			HighPrecision: true, Doc: "how well each setting ranks a device's newest item, in the last round",
		},
		method.Slot{
			Name: "choice", Scope: shared, Upload: method.Broadcast, Rows: 1, Dim: 1,
			Doc: "the best setting, from 1",
		},
		method.Slot{Name: "memory", Scope: method.Ephemeral, Rows: 1, Dim: f, Doc: "decayed sums of the history"},
	)
}

func (m *IALSNext) Head() *method.Head { return nil }

func (m *IALSNext) Logits(w *method.Work, b *method.Batch, out []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	item, head, more := &w.View[alsItem], &w.View[nextHead], w.Floats(b.N)
	vec.Dots(item.Arena, item.Stride, b.Rd[alsItem], w.View[alsUser].Val, 0, out[:b.N])
	vec.Dots(head.Arena, head.Stride, b.Rd[nextHead], w.View[nextMemory].Val, 0, more)
	vec.Add(more, out[:b.N])
}

func (m *IALSNext) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		switch past := w.History[:max(len(w.History)-1, 0)]; w.Phase {
		case nextHeads: // the newest item is held back for the choice
			if len(past) > 1 {
				m.memory().Sums(w, &w.View[alsItem], past, first(w, nextNext), &w.View[nextNext], &w.View[nextSquare],
					w.View[nextMemory].Val)
				CountOnce(w, past[1:], first(w, alsCount), &w.View[alsCount])
			}
		case nextChooses:
			if len(past) > 0 {
				recent := func(r learn.Recency) []float32 { return m.recent(w, r, past) }
				nextGrid.Judge(w, w.History[len(past)], m.follow(w, past), recent, w.View[nextMerit].Val)
			}
		default:
			m.IALS.visit(w)
		}
	}}
}

// recent solves for the user's vector with more weight on the newest items, and scores
// all items.
func (m *IALSNext) recent(w *method.Work, r learn.Recency, history []uint32) []float32 {
	user, scores := w.View[alsUser].Val, w.Floats(w.Items)
	items, weight, total := r.Weights(w, history)
	learn.RidgeSolve(w, &w.View[alsItem], &w.View[alsGram], items, weight, weight, m.A0,
		m.Reg*(total+float64(m.A0*float64(w.Items))), user)
	learn.StandardiseScores(&w.View[alsItem], user, scores)
	return scores
}

// follow scores all items with the sequence head.
func (m *IALSNext) follow(w *method.Work, history []uint32) []float32 {
	memory, scores := w.View[nextMemory].Val, w.Floats(w.Items)
	m.memory().Of(&w.View[alsItem], history, memory)
	learn.StandardiseScores(&w.View[nextHead], memory, scores)
	return scores
}

func (m *IALSNext) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		recency, share := nextGrid.At(int(w.View[nextChoice].Base[0]) - 1)
		m.recent(w, recency, w.History)
		m.follow(w, w.History)
		vec.Scale(1-share, w.View[alsUser].Val)
		vec.Scale(share, w.View[nextMemory].Val)
	}}
}

func (m *IALSNext) Update(g *method.Global) {
	switch g.Phase {
	case nextHeads:
		keep := FrequentItems(g.Aggregate[alsCount], g.Items, g.Stride[alsCount], m.Few)
		m.memory().Head(keep, m.HeadReg, g.Noise, g.Aggregate[nextSquare], g.Aggregate[nextNext], g.Value[nextHead],
			g.Stride[nextHead])
	case nextChooses:
		g.Value[nextChoice][0] = float32(nextGrid.Best(g.Aggregate[nextMerit]) + 1)
	default:
		m.IALS.Update(g)
	}
}
