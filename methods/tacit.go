package methods

import (
	"fmt"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Tacit is Tacit's own method: shared-curvature iALS, and on top of it what the
// order of a history tells. A device recommends with a vector that is solved for its
// newest items above all, which sends nothing, blended with a sequence head: a ridge
// regression of the next item on decayed sums of those before, whose sums take one
// round. In the last round each device hides its newest item from itself, ranks it
// with every setting of a small grid, and sends how well each did; the coordinator
// takes the best. So nothing has to be tuned, and no held-out item is looked at. It is no
// published method; closed-form heads on decayed histories are those of SLIST (Choi et al. 2021), on
// items instead of vectors.
type Tacit struct {
	IALS
	Rates   learn.Rates `default:"0,0.5,0.9" doc:"how much of an item is left in the head's memory one step later; one memory each"`
	HeadReg float64     `default:"3" range:"1..30,log" doc:"regularisation of the sequence head"`
}

const (
	tacHead   = alsSlots + iota // broadcast, after its round
	tacSquare                   // sum: memories times themselves
	tacNext                     // sum: the memory before an item
	tacMerit                    // sum: how well each setting did
	tacChoice                   // broadcast: the setting, from 1; 0 before there is one
	tacMemory                   // ephemeral
)

// tacGrid is what devices judge in the last round.
var tacGrid = learn.Grid{
	Recency: []learn.Recency{{Rho: 0.8, Boost: 2, Base: 0.05}, {Base: 1}, {Rho: 0.7, Boost: 5, Base: 0.05}, {Rho: 0.9, Boost: 3, Base: 0.05}},
	Share:   []float32{0.3, 0, 0.15, 0.5},
}

func (m *Tacit) memory() learn.Memory { return learn.Memory{Rates: m.Rates, Dim: m.Dim} }

func (m *Tacit) Slots(items int) []method.Slot {
	f, shared := m.memory().Wide(), method.Shared
	return append(m.IALS.Slots(items),
		method.Slot{Name: "head", Scope: shared, Up: method.None, PerItem: true, Dim: f, Doc: "the sequence head"},
		method.Slot{Name: "square", Scope: shared, Up: method.Sum, Rows: f, Dim: f, Doc: "memories times themselves, in the head's round"},
		method.Slot{Name: "next", Scope: shared, Up: method.Sum, PerItem: true, Dim: f, Doc: "the memory before each item, in the head's round"},
		method.Slot{Name: "merit", Scope: shared, Up: method.Sum, Rows: 1, Dim: tacGrid.Len(), Doc: "how well each setting ranks a device's newest item, in the last round"},
		method.Slot{Name: "choice", Scope: shared, Up: method.None, Rows: 1, Dim: 1, Doc: "the best of them, from 1"},
		method.Slot{Name: "memory", Scope: method.Ephemeral, Rows: 1, Dim: f, Doc: "decayed sums of the history"},
	)
}

func (m *Tacit) Head() *method.Head { return nil }

func (m *Tacit) Logits(w *method.Work, b *method.Batch, out []float32) {
	item, head, more := &w.View[alsItem], &w.View[tacHead], w.Room(12, b.N)
	vec.Dots(item.Arena, item.Stride, b.Rd[alsItem], w.View[alsUser].Val, 0, out[:b.N])
	vec.Dots(head.Arena, head.Stride, b.Rd[tacHead], w.View[tacMemory].Val, 0, more)
	vec.Add(more, out[:b.N])
}

func (m *Tacit) Phase(round, rounds int) (int, string) {
	switch {
	case round > 1 && round == rounds-1:
		return 3, "choose"
	case round > 1 && round == rounds-2:
		return 2, "head"
	}
	return m.IALS.Phase(round, rounds)
}

// Travels says what a phase needs.
func (m *Tacit) Travels(phase, slot int) bool {
	switch phase {
	case 2:
		return slot == alsItem || slot == tacSquare || slot == tacNext
	case 3:
		return slot == alsItem || slot == alsGram || slot == tacHead || slot == tacMerit
	}
	return slot < alsSlots && m.IALS.Travels(phase, slot)
}

// Settles: only the last round has all of it.
func (m *Tacit) Settles() bool { return true }

func (m *Tacit) Visit(int) method.Visit {
	return method.Visit{History: true, Run: func(w *method.Work) {
		switch past := w.History[:max(len(w.History)-1, 0)]; w.Phase {
		case 2: // the newest item is kept for judging
			if len(past) > 1 {
				base := w.Samples.Wr[tacNext][0] - w.Samples.Item[0]
				m.memory().Sums(w, &w.View[alsItem], past, base, &w.View[tacNext], &w.View[tacSquare], w.View[tacMemory].Val)
			}
		case 3:
			if len(past) > 0 {
				recent := func(r learn.Recency) []float32 { return m.recent(w, r, past) }
				tacGrid.Judge(w, w.History[len(past)], m.follow(w, past), recent, w.View[tacMerit].Val)
			}
		default:
			m.IALS.visit(w)
		}
	}}
}

// recent solves for a user whose newest items weigh most, and scores all items.
func (m *Tacit) recent(w *method.Work, r learn.Recency, history []uint32) []float32 {
	user, scores := w.View[alsUser].Val, w.Room(10, w.Items)
	items, weight, total := r.Weights(w, history)
	learn.Least(w, &w.View[alsItem], &w.View[alsGram], items, weight, weight, m.A0, m.Reg*(total+m.A0*float64(w.Items)), user)
	learn.Level(&w.View[alsItem], user, scores)
	return scores
}

// follow scores all items by what came before.
func (m *Tacit) follow(w *method.Work, history []uint32) []float32 {
	memory, scores := w.View[tacMemory].Val, w.Room(11, w.Items)
	m.memory().Of(&w.View[alsItem], history, memory)
	learn.Level(&w.View[tacHead], memory, scores)
	return scores
}

func (m *Tacit) Ready(int) method.Visit {
	return method.Visit{History: true, Run: func(w *method.Work) {
		recency, share := tacGrid.At(max(int(w.View[tacChoice].Base[0])-1, 0))
		m.recent(w, recency, w.History)
		m.follow(w, w.History)
		vec.Scale(1-share, w.View[alsUser].Val)
		vec.Scale(share, w.View[tacMemory].Val)
	}}
}

func (m *Tacit) Update(g *method.Global) {
	switch g.Phase {
	case 2:
		m.memory().Head(g.Items, m.HeadReg, g.Got[tacSquare], g.Got[tacNext], g.Value[tacHead], g.Stride[tacHead])
	case 3:
		g.Value[tacChoice][0] = float32(tacGrid.Best(g.Got[tacMerit]) + 1)
	default:
		m.IALS.Update(g)
	}
}

func (m *Tacit) Check() error {
	if m.HeadReg <= 0 || len(m.Rates) == 0 {
		return fmt.Errorf("head-reg = %g with %d rates: want more than 0 of both", m.HeadReg, len(m.Rates))
	}
	return m.IALS.Check()
}
