package closed

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Tacit is Tacit's default method: shared-curvature iALS that also uses the order of the
// history. A device recommends with a vector that it solves for with more weight on its
// newest items, which requires no upload, blended with a sequence head: a ridge regression
// of the next item on decayed sums of the previous ones, which takes one round. In the last
// round each device holds out its newest item, ranks it with every setting of a
// small grid, and sends how well each setting did; the coordinator chooses the best. No
// tuning is needed, and held-out items are not used. Tacit is not a published method;
// SLIST (Choi et al. 2021) has similar closed-form models on items instead of vectors.
// With `items=on` such an item-item model is blended in too.
type Tacit struct {
	IALS
	Rates   Rates   `default:"0,0.5,0.9" min:"1" doc:"decay rates of the sequence head's memories, one memory each"`
	HeadReg float64 `default:"3" min:">0" range:"1..30,log" doc:"regularisation of the sequence head"`
	Items   string  `default:"off" choices:"off|on|auto" doc:"also learn an item-item model, whose sums grow with the square of the catalogue; auto: up to 4000 items"`
}

var (
	_ method.Headed      = (*Tacit)(nil)
	_ method.Ready       = (*Tacit)(nil)
	_ method.Updater     = (*Tacit)(nil)
	_ method.PhasedSlots = (*Tacit)(nil)
	_ method.FinalRound  = (*Tacit)(nil)
)

const (
	tacHead   = alsSlots + iota // broadcast, after its round
	tacSquare                   // sum: outer products of memories
	tacNext                     // sum: the memory before an item
	tacMerit                    // sum: the rank gain of each setting
	tacChoice                   // broadcast: the chosen setting, from 1; 0 before the choice
	tacMemory                   // ephemeral
	tacItems                    // the first slot of the item-item model
)

func (m *Tacit) memory() Memory { return Memory{Rates: m.Rates, Dim: m.Dim} }

func (m *Tacit) Slots(items int) []method.Slot {
	f, shared, reach := m.memory().Wide(), method.Shared, m.memory().Range()
	return append(append(m.IALS.Slots(items),
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
			Name: "merit", Scope: shared, Upload: method.Sum, Rows: 1, Dim: m.pairs(items).grid().Len(), Range: 2,
			HighPrecision: true, Doc: "how well each setting ranks a device's newest item, in the last round",
		},
		method.Slot{
			Name: "choice", Scope: shared, Upload: method.Broadcast, Rows: 1, Dim: 1,
			Doc: "the best setting, from 1",
		},
		method.Slot{Name: "memory", Scope: method.Ephemeral, Rows: 1, Dim: f, Doc: "decayed sums of the history"},
	), m.pairs(items).slots(items)...)
}

func (m *Tacit) Head() *method.Head { return nil }

func (m *Tacit) Logits(w *method.Work, b *method.Batch, out []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	item, head, more := &w.View[alsItem], &w.View[tacHead], w.Floats(b.N)
	vec.Dots(item.Arena, item.Stride, b.Rd[alsItem], w.View[alsUser].Val, 0, out[:b.N])
	vec.Dots(head.Arena, head.Stride, b.Rd[tacHead], w.View[tacMemory].Val, 0, more)
	vec.Add(more, out[:b.N])
	m.pairs(w.Items).add(w, b, out)
}

func (m *Tacit) Visit(items int) method.Visit {
	pairs := m.pairs(items)
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		switch past := w.History[:max(len(w.History)-1, 0)]; w.Phase {
		case tacHeads: // the newest item is held back for the choice
			if len(past) > 1 {
				m.memory().Sums(w, &w.View[alsItem], past, first(w, tacNext), &w.View[tacNext], &w.View[tacSquare],
					w.View[tacMemory].Val)
				CountOnce(w, past[1:], first(w, alsCount), &w.View[alsCount])
				pairs.sums(w, past)
			}
		case tacChooses:
			if len(past) > 0 {
				recent := func(r learn.Recency) []float32 { return m.recent(w, r, past) }
				pairs.grid().Judge(w, w.History[len(past)], m.follow(w, past), pairs.scores(w, past), recent,
					w.View[tacMerit].Val)
			}
		default:
			m.IALS.visit(w)
		}
	}}
}

// recent solves for the user's vector with more weight on the newest items, and scores
// all items.
func (m *Tacit) recent(w *method.Work, r learn.Recency, history []uint32) []float32 {
	user, scores := w.View[alsUser].Val, w.Floats(w.Items)
	items, weight, total := r.Weights(w, history)
	learn.RidgeSolve(w, &w.View[alsItem], &w.View[alsGram], items, weight, weight, m.A0,
		m.Reg*(total+m.A0*float64(w.Items)), user)
	learn.StandardiseScores(&w.View[alsItem], user, scores)
	return scores
}

// follow scores all items with the sequence head.
func (m *Tacit) follow(w *method.Work, history []uint32) []float32 {
	memory, scores := w.View[tacMemory].Val, w.Floats(w.Items)
	m.memory().Of(&w.View[alsItem], history, memory)
	learn.StandardiseScores(&w.View[tacHead], memory, scores)
	return scores
}

func (m *Tacit) Ready(items int) method.Visit {
	pairs := m.pairs(items)
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		recency, share := pairs.grid().At(max(int(w.View[tacChoice].Base[0])-1, 0))
		m.recent(w, recency, w.History)
		m.follow(w, w.History)
		vec.Scale(1-share.Head-share.Items, w.View[alsUser].Val)
		vec.Scale(share.Head, w.View[tacMemory].Val)
		vec.Scale(share.Items, pairs.scores(w, w.History))
	}}
}

func (m *Tacit) Update(g *method.Global) {
	switch g.Phase {
	case tacHeads:
		keep := FrequentItems(g.Aggregate[alsCount], g.Items, g.Stride[alsCount], m.Few)
		m.memory().Head(keep, m.HeadReg, g.Noise, g.Aggregate[tacSquare], g.Aggregate[tacNext], g.Value[tacHead],
			g.Stride[tacHead])
		m.pairs(g.Items).update(g)
	case tacChooses:
		g.Value[tacChoice][0] = float32(m.pairs(g.Items).grid().Best(g.Aggregate[tacMerit]) + 1)
	default:
		m.IALS.Update(g)
	}
}
