package sequence

import (
	"fmt"

	"github.com/tacit-rec/tacit/method"
)

// SASRec predicts the next item by self-attention over a history (Kang and McAuley 2018),
// federated. It is Bank with another network: the features of items are computed once, from
// sums over all devices, and frozen; causal attention blocks read the projected features of the
// history in order, and the state after the newest item is compared with the features of each
// item. A device sends one gradient of the next-item loss per pass, over its whole history and
// with a limited norm. Nothing is stored per user. Differences from the authors: items have
// frozen features instead of learnt embeddings, the loss is a softmax over sampled items
// instead of binary cross entropy with one negative, normalisation precedes each part of a
// block, and positions count from the newest item.
type SASRec struct {
	Width   int     `default:"64" min:"1" max:"1024" range:"32|64|128" doc:"width of the projected rows and of the state"`
	Heads   int     `default:"2" min:"1" max:"64" range:"1|2|4" doc:"attention heads; the width must be a multiple"`
	Blocks  int     `default:"1" min:"1" max:"4" range:"1|2" doc:"attention blocks"`
	Expand  int     `default:"2" min:"1" max:"8" range:"2|4" doc:"width of the feed-forward layer, as a multiple of width"`
	Rank    int     `default:"64" min:"1" max:"1024" range:"32|64|128" doc:"rank of each of the three parts of the features"`
	Train   int     `default:"8" min:"1" max:"1000" range:"5..20" doc:"training passes, after three passes for the features"`
	LR      float64 `default:"0.01" min:">0" range:"1e-3..0.1,log" doc:"server learning rate; it falls linearly to 0"`
	Drop    float64 `default:"0.2" min:"0" max:"<1" range:"0.1..0.3" doc:"dropout on projected rows, attention and hidden layers"`
	Longest int     `default:"200" min:"1" max:"1000" range:"50|100|200" doc:"newest items of a history that are read"`
	Few     int     `default:"2" min:"1" range:"1|2|5" doc:"items that fewer devices have get no features: their sums would reveal a device"`
	Softmax int     `default:"512" min:"1" range:"256|512|1024" doc:"most negatives of the sampled softmax, shared by all positions: 4 for each, at least 32"`
}

var (
	_ method.Checker      = (*SASRec)(nil)
	_ method.Headed       = (*SASRec)(nil)
	_ method.Ready        = (*SASRec)(nil)
	_ method.EmptyUpdater = (*SASRec)(nil)
	_ method.PhasedSlots  = (*SASRec)(nil)
	_ method.InPasses     = (*SASRec)(nil)

	_ method.PartialUpdater   = (*SASRec)(nil)
	_ method.PopularityRanker = (*SASRec)(nil)
)

// Check requires heads of equal width.
func (m *SASRec) Check() error {
	if m.Width%m.Heads != 0 {
		return fmt.Errorf("width = %d: must be a multiple of heads = %d", m.Width, m.Heads)
	}
	return nil
}

// bank is Bank with attention instead of decayed sums.
func (m *SASRec) bank() *Bank {
	return &Bank{
		Width: m.Width, Rank: m.Rank, Train: m.Train, LR: m.LR, Drop: m.Drop, Longest: m.Longest, Few: m.Few,
		Softmax: m.Softmax,
		net: attentionNetwork{
			width: m.Width, heads: m.Heads, blocks: m.Blocks, expansion: m.Expand, positions: m.Longest,
		},
	}
}

func (m *SASRec) Slots(items int) []method.Slot         { return m.bank().Slots(items) }
func (m *SASRec) Passes() int                           { return m.bank().Passes() }
func (m *SASRec) Phase(round, rounds int) (int, string) { return m.bank().Phase(round, rounds) }
func (m *SASRec) Transfers(phase, slot int) bool        { return m.bank().Transfers(phase, slot) }
func (m *SASRec) Head() *method.Head                    { return m.bank().Head() }
func (m *SASRec) Visit(items int) method.Visit          { return m.bank().Visit(items) }
func (m *SASRec) Ready(items int) method.Visit          { return m.bank().Ready(items) }
func (m *SASRec) UpdatesEmptyRounds() bool              { return true }
func (m *SASRec) Update(g *method.Global)               { m.bank().Update(g) }
func (m *SASRec) Updates(round, rounds, slot int) bool  { return m.bank().Updates(round, rounds, slot) }
func (m *SASRec) Popular(g *method.Global) []uint32     { return m.bank().Popular(g) }

func (m *SASRec) Logits(w *method.Work, b *method.Batch, out []float32) { m.bank().Logits(w, b, out) }
