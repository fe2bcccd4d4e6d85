package neural

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// FOFLSelf is FOFL-SELF: first-order federated meta-learning on identities (Jalalirad et
// al. 2019), as compared by Wang et al. 2022: REPTILE as in PrivRec, without features.
// Items have rows. A user has a vector on the device; its shared initial value serves new
// users too. SELF means that the model is adapted to the user's own samples: before it
// recommends, a device tunes a copy of all parameters on them. "User ids" could also mean
// a table with a row per user, but that would reveal to the coordinator which users took
// part, and would not help held-out users. The rows that a device sends reveal which
// items it trained on.
type FOFLSelf struct {
	Dim     int            `default:"64" min:"1" max:"4096" doc:"embedding dimension"`
	Layers  learn.Layers   `default:"256,128,64,32" doc:"widths of the network's hidden layers; none: bilinear head"`
	LR      learn.Schedule `default:"0.1" range:"1e-3..1,log" doc:"learning rate of the network and the user's vector"`
	RowLR   learn.Schedule `default:"1" range:"1e-2..100,log" doc:"learning rate of the item rows"`
	Start   float64        `default:"0.5" min:"0" doc:"standard deviation of the initial embeddings"`
	Epochs  int            `default:"5" min:"1" max:"1000" range:"1|2|5|10|20" doc:"local passes per round"`
	Adapt   int            `default:"5" min:"0" max:"1000" range:"0|1|2|5|10|20" doc:"passes over the device's own samples before it recommends"`
	AdaptLR learn.Schedule `default:"0" doc:"learning rate of these passes; 0 means lr"`
}

var (
	_ method.Learner = (*FOFLSelf)(nil)
	_ method.Headed  = (*FOFLSelf)(nil)
	_ method.Ready   = (*FOFLSelf)(nil)
)

func (m *FOFLSelf) score() learn.Score { return learn.Score{Dim: m.Dim, Hidden: m.Layers} }

func (m *FOFLSelf) Slots(int) []method.Slot {
	s := m.score().Slots(func(int) bool { return false })
	start := method.Init{Kind: method.Normal, A: m.Start}
	s[learn.ItemSlot].Init = start
	for i := range s {
		s[i].Scope = method.Shared
	}
	if len(m.Layers) > 0 {
		s[learn.UserSlot].Init, s[learn.UserSlot].Doc = start, "initial value of every user's vector"
	}
	return s
}

func (m *FOFLSelf) passes(n int, rate learn.Schedule) method.Visit {
	rules := []learn.Rule{learn.SGD(learn.ItemSlot, m.RowLR, 0)}
	for slot := learn.UserSlot; slot < len(m.Slots(0)); slot++ {
		rules = append(rules, learn.SGD(slot, rate, 0))
	}
	return learn.Epochs(n, 0, learn.Descend(learn.BCE(m), rules...))
}

func (m *FOFLSelf) Visit(int) method.Visit { return m.passes(m.Epochs, m.LR) }

// Ready tunes a copy of the newest model.
func (m *FOFLSelf) Ready(int) method.Visit { return m.passes(m.Adapt, m.AdaptLR.Or(m.LR)) }

func (m *FOFLSelf) Head() *method.Head { return m.score().Head() }
func (m *FOFLSelf) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.score().Logits(w, b, out)
}
func (m *FOFLSelf) Back(w *method.Work, b *method.Batch, dz []float32) { m.score().Back(w, b, dz) }
