package factorisation

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// NCF is neural collaborative filtering in one place (He et al. 2017), in the form
// that the PFedRec paper compares with: a network of three hidden layers on the
// user's and the item's row. A baseline, and no federation: every history leaves
// its device. It is trained as MF is.
type NCF struct {
	MF
	Layers learn.Layers `default:"32,16,8" doc:"widths of the network's hidden layers"`
}

var (
	_ method.Headed  = (*NCF)(nil)
	_ method.Central = (*NCF)(nil)
)

func (m *NCF) central() learn.Central {
	c := m.MF.central()
	c.Hidden = m.Layers
	return c
}

func (m *NCF) Slots(int) []method.Slot                               { return m.central().Slots() }
func (m *NCF) Pass(p *method.Pool)                                   { m.central().Pass(p) }
func (m *NCF) Head() *method.Head                                    { return m.central().Head() }
func (m *NCF) Logits(w *method.Work, b *method.Batch, out []float32) { m.central().Logits(w, b, out) }
