// Package sequence holds methods that predict the next item from the order of a history.
package sequence

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// GRU4Rec is a recurrent network on the order of a history (Hidasi et al. 2016),
// federated. A device reads its items in order, predicts each next item against negatives
// that several positions share (sampled softmax and shared negatives as in Hidasi and
// Karatzoglou 2018), takes one gradient step, and sends the delta of item rows and
// network. It recommends from the state after its newest item; the state never leaves the
// device. With one local step and `server=adam:RATE` a round equals one mini-batch step
// of centralised training with the cohort as the batch. Differences from the authors: a
// history is one session, input and output share the item rows, there is one layer as
// wide as a row, and negatives are drawn uniformly from the protocol's pool, never from
// other users' positives.
type GRU4Rec struct {
	Dim     int            `default:"64" min:"1" max:"1024" range:"32|64|128" doc:"dimension of a row and of the state"`
	LR      learn.Schedule `default:"100" range:"1..1000,log" doc:"device learning rate of the network; under server=adam only its ratio to row-lr matters"`
	RowLR   learn.Schedule `default:"1000" range:"10..10000,log" doc:"device learning rate of rows and biases"`
	Steps   int            `default:"1" min:"1" max:"1000" range:"1|2|5" doc:"local steps per round, each on the whole history"`
	Drop    float64        `default:"0.3" min:"0" max:"<1" range:"0.1..0.6" doc:"dropout on inputs and states"`
	Longest int            `default:"200" min:"2" range:"50|100|200" doc:"longest part of a history that is read: a random part in training, the newest items to recommend"`
	Run     int            `default:"50" min:"1" range:"20|50|100" doc:"positions that share their negatives"`
	Alike   string         `default:"roots" choices:"users|roots|rows" range:"users|roots|rows" doc:"what has equal weight: users, interactions (rows), or in between (roots)"`
	Start   float64        `default:"0.1" doc:"standard deviation of the initial rows"`
}

var (
	_ method.Learner = (*GRU4Rec)(nil)
	_ method.Ready   = (*GRU4Rec)(nil)
)

func (m *GRU4Rec) gru() GRU { return GRU{Dim: m.Dim, Longest: m.Longest} }

func (m *GRU4Rec) Slots(int) []method.Slot {
	slots := m.gru().Slots(m.Start)
	for slot, reach := range map[int]float64{gruItem: 2, gruBias: 2, gruIn: 1, gruRe: 1, gruOff: 2} {
		slots[slot].Range = reach * m.step(slot)
	}
	return slots
}

// step is the learning rate of a slot over all local steps, for gradients as large as those of
// `alike=roots`. Measured on ML-100K, a range of 1 or 2 times this number holds all but one
// number in 10,000: most of the others are from the few local trainings whose gradient explodes.
func (m *GRU4Rec) step(slot int) float64 {
	rate := m.LR.Number()
	if slot == gruItem || slot == gruBias {
		rate = m.RowLR.Number()
	}
	return math.Abs(rate) * float64(m.Steps) * map[string]float64{"users": 0.5, "roots": 1, "rows": 8}[m.Alike]
}

func (m *GRU4Rec) Visit(int) method.Visit {
	g := m.gru()
	once := learn.Once(learn.Descend(g.NextItemLoss(m.Run, float32(1-m.Drop), m.Alike), g.SGD(m.RowLR, m.LR)...))
	one := once.Run
	once.Run = func(w *method.Work) {
		for range m.Steps {
			one(w)
		}
	}
	return once
}

func (m *GRU4Rec) Logits(w *method.Work, b *method.Batch, out []float32) { m.gru().Logits(w, b, out) }
func (m *GRU4Rec) Back(w *method.Work, b *method.Batch, dz []float32)    { m.gru().Back(w, b, dz) }

// Ready reads the history with the newest rows and network.
func (m *GRU4Rec) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { m.gru().ReadHistory(w, w.History) }}
}
