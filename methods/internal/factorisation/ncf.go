package factorisation

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// NCF is centralised neural collaborative filtering (He et al. 2017) in the form that the
// PFedRec paper compares with: a network with three hidden layers on the user's and the
// item's row. It is a baseline, not a federation, because every history leaves its
// device. It trains as MF does.
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
