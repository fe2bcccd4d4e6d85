package private

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/sequence"
	"github.com/tacit-rec/tacit/vec"
)

// BankPrivate is the sequence bank for differential privacy (Tacit's own; both parts are forms of
// DP-FedAvg, McMahan et al. 2018). The item rows of NormGrad, learnt in the first rounds, are the
// item features, and the later rounds train a small bank on them: the two parts share the budget.
// A device sends one gradient per round, at unit norm or clipped to it.
type BankPrivate struct {
	NormGrad
	Width    int     `default:"32" min:"1" max:"1024" range:"16|32|64" doc:"width of the projected rows and of the state"`
	NetLR    float64 `default:"0.01" min:">0" range:"1e-3..0.1,log" doc:"server learning rate of the network; it falls linearly to 0"`
	NetClip  float64 `default:"0.4" min:">0" range:"0.1..1" doc:"norm to which gradients of the network are clipped"`
	NetShare float64 `default:"0.5" min:">0" max:"<1" range:"0.3..0.7" doc:"fraction of the privacy budget for the network"`
	NetPart  float64 `default:"0.7" min:">0" max:"<1" range:"0.5..0.9" doc:"fraction of the rounds that train the network"`
}

var (
	_ method.Headed         = (*BankPrivate)(nil)
	_ method.Ready          = (*BankPrivate)(nil)
	_ method.Updater        = (*BankPrivate)(nil)
	_ method.PhasedSlots    = (*BankPrivate)(nil)
	_ method.BudgetWeighter = (*BankPrivate)(nil)
	_ method.FinalRound     = (*BankPrivate)(nil)
)

// The slots after those of NormGrad.
const (
	bankFeatures = ngNoise + 1 + iota // broadcast: item rows of equal mean length
	bankFirst                         // of the bank
)

// Longest history that the bank reads, and the number of items that a local training compares
// with the next ones.
const (
	bankLongest   = 200
	bankNegatives = 512
)

func (m *BankPrivate) frozen() *sequence.Frozen {
	return sequence.OnBank(sequence.Frozen{
		First: bankFirst, Item: bankFeatures, Dim: m.Dim, Width: m.Width, Longest: bankLongest,
		Negatives: bankNegatives, Clip: m.NetClip, Adam: true,
	})
}

func (m *BankPrivate) Slots(items int) []method.Slot {
	features := method.Slot{
		Name: "features", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: m.Dim,
		Doc: "features of each item: its row, in units of the mean length",
	}
	return append(append(m.NormGrad.Slots(items), features), m.frozen().Slots(items)...)
}

// Phase is 0 for the rounds that learn item rows and 1 for those that train the network.
func (m *BankPrivate) Phase(round, rounds int) (int, string) {
	if round < m.rowRounds(rounds) {
		return 0, "rows"
	}
	return 1, "network"
}

// rowRounds returns the number of rounds that learn item rows: at least 1, if there are 2 rounds.
func (m *BankPrivate) rowRounds(rounds int) int {
	n := int(math.Floor(float64(float64(rounds)*(1-m.NetPart)) + 0.5))
	return min(max(n, 1), max(rounds-1, 1))
}

func (m *BankPrivate) Transfers(phase, slot int) bool {
	if slot < bankFeatures {
		return phase == 0
	}
	return phase == 1 && m.frozen().Trains(slot)
}

// BudgetWeight splits the budget between rows and network.
func (m *BankPrivate) BudgetWeight(round, rounds int) float64 {
	rows := m.rowRounds(rounds)
	if round < rows {
		return (1 - m.NetShare) / float64(rows)
	}
	return m.NetShare / float64(rounds-rows)
}

func (m *BankPrivate) ReportsFinalRound() bool { return true }

func (m *BankPrivate) Head() *method.Head { return m.frozen().Head() }

func (m *BankPrivate) Logits(w *method.Work, b *method.Batch, out []float32) {
	learn.Dot(*m.Head()).Logits(w, b, out)
}

func (m *BankPrivate) Visit(int) method.Visit {
	f := m.frozen()
	return method.Visit{Run: func(w *method.Work) {
		if w.Phase == 0 {
			m.send(w, w.View)
			return
		}
		f.Train(w)
	}}
}

// Ready reads the history.
func (m *BankPrivate) Ready(int) method.Visit {
	f := m.frozen()
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { f.ReadHistory(w, w.History) }}
}

func (m *BankPrivate) Update(g *method.Global) {
	f := m.frozen()
	if g.Phase == 0 {
		m.step(g, 0)
		m.setFeatures(g)
		// The counts are not known: all items start alike.
		f.Begin(g, make([]float32, g.Items), 1)
	} else {
		first := m.rowRounds(g.Rounds)
		f.Step(g, m.NetLR*(1-float64(g.Round-first)/float64(max(g.Rounds-first, 1))))
	}
	f.SetTable(g)
}

// setFeatures scales the item rows so that their mean square length is their width.
func (m *BankPrivate) setFeatures(g *method.Global) {
	item, features := g.Value[ngItem], g.Value[bankFeatures]
	square := 0.0
	for i := range g.Items {
		row := item[i*g.Stride[ngItem]:][:g.Stride[ngItem]]
		square += float64(vec.Dot(row, row))
	}
	scale := math.Sqrt(float64(m.Dim*g.Items) / math.Max(square, 1e-12))
	vec.ScaleTo(float32(scale), item, features)
}
