package sequence

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// Bank predicts the next item from decayed sums of item features (Tacit's own). The features
// are computed once, from sums over all devices, in three passes; they are factors of which items
// follow each other and which occur together. Then a small network is trained: it reads six
// sums of a history's features, from the newest item alone to the whole history, and its result
// is compared with the features of each item. A device sends one gradient of the next-item loss
// per pass, over its whole history and with a limited norm. Nothing is stored per user: a
// new user is served from the history alone. SASRec (Kang and McAuley 2018) learns a row per item
// instead, which is the larger part of its numbers.
type Bank struct {
	Width   int     `default:"64" min:"1" max:"1024" range:"32|64|128" doc:"width of the projected rows and of the state"`
	Rank    int     `default:"64" min:"1" max:"1024" range:"32|64|128" doc:"rank of each of the three parts of the features"`
	Train   int     `default:"8" min:"1" max:"1000" range:"5..20" doc:"training passes, after three passes for the features"`
	LR      float64 `default:"0.01" min:">0" range:"1e-3..0.1,log" doc:"server learning rate; it falls linearly to 0"`
	Drop    float64 `default:"0.2" min:"0" max:"<1" range:"0.1..0.3" doc:"dropout on projected rows and on the hidden layer"`
	Longest int     `default:"200" min:"1" range:"50|100|200" doc:"newest items of a history that are read"`
	Few     int     `default:"2" min:"1" range:"1|2|5" doc:"items that fewer devices have get no features: their sums would reveal a device"`
	Softmax int     `default:"512" min:"1" range:"256|512|1024" doc:"most negatives of the sampled softmax, shared by all positions: 4 for each, at least 32"`

	net network // instead of decayed sums; nil for those
}

var (
	_ method.Headed       = (*Bank)(nil)
	_ method.Ready        = (*Bank)(nil)
	_ method.EmptyUpdater = (*Bank)(nil)
	_ method.PhasedSlots  = (*Bank)(nil)
	_ method.InPasses     = (*Bank)(nil)

	_ method.PartialUpdater   = (*Bank)(nil)
	_ method.PopularityRanker = (*Bank)(nil)
)

func (m *Bank) features() *Features { return &Features{Rank: m.Rank, Few: m.Few} }

func (m *Bank) frozen(items int) *Frozen {
	f := Frozen{
		First: featureSlots, Item: featureTable, Dim: m.features().Width(items), Width: m.Width, Longest: m.Longest,
		Negatives: m.Softmax, Drop: m.Drop,
	}
	if m.net != nil {
		return f.with(m.net)
	}
	return OnBank(f)
}

func (m *Bank) Slots(items int) []method.Slot {
	return append(m.features().Slots(items), m.frozen(items).Slots(items)...)
}

// Passes returns the number of feature passes and training passes.
func (m *Bank) Passes() int { return FeaturePasses + m.Train }

// Phase numbers the feature passes; all training passes are one phase.
func (m *Bank) Phase(round, rounds int) (int, string) {
	if pass, _, _ := method.PassOf(round, rounds, m.Passes()); pass < FeaturePasses {
		return pass, "features"
	}
	return FeaturePasses, "train"
}

func (m *Bank) Transfers(phase, slot int) bool {
	if slot < featureSlots {
		return m.features().Transfers(phase, slot)
	}
	return phase == FeaturePasses && m.frozen(1).Trains(slot)
}

func (m *Bank) Head() *method.Head { return m.frozen(1).Head() }

func (m *Bank) Logits(w *method.Work, b *method.Batch, out []float32) {
	learn.Dot(*m.Head()).Logits(w, b, out)
}

func (m *Bank) Visit(items int) method.Visit {
	f, k := m.frozen(items), m.features()
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		if w.Phase < FeaturePasses {
			k.Visit(w, w.History, w.Phase)
			return
		}
		f.Train(w)
	}}
}

// Ready reads the history.
func (m *Bank) Ready(items int) method.Visit {
	f := m.frozen(items)
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { f.ReadHistory(w, w.History) }}
}

// UpdatesEmptyRounds is true: a feature pass may end in a round without reports.
func (m *Bank) UpdatesEmptyRounds() bool { return true }

func (m *Bank) Update(g *method.Global) {
	f := m.frozen(g.Items)
	pass, first, last := method.PassOf(g.Round, g.Rounds, m.Passes())
	if pass < FeaturePasses {
		m.features().Update(g, pass, first, last)
		if last {
			f.Begin(g, g.Value[featureCounts], g.Stride[featureCounts])
			f.SetTable(g)
		}
		return
	}
	from, _ := method.PassRounds(FeaturePasses, g.Rounds, m.Passes())
	f.Step(g, m.LR*(1-float64(g.Round-from)/float64(g.Rounds-from)))
	if last {
		f.SetTable(g)
	}
}

// Updates is true for the features in their passes, for the network in every round after them, and for the rows to
// recommend with when a pass ends.
func (m *Bank) Updates(round, rounds, slot int) bool {
	pass, _, last := method.PassOf(round, rounds, m.Passes())
	switch f := m.frozen(1); {
	case slot < featureSlots:
		return m.features().Updates(pass, last, slot)
	case pass < FeaturePasses:
		return last
	default:
		return f.Steps(slot) || last && slot == f.Head().Item
	}
}

// Popular orders the items by the number of devices that have them.
func (m *Bank) Popular(g *method.Global) []uint32 {
	return learn.MostFrequent(g.Value[featureCounts], g.Items, g.Stride[featureCounts])
}
