package factorisation

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// MF is centralised matrix factorisation (Koren et al. 2009): a baseline, not a
// federation, because every history leaves its device. Adam trains it on mini-batches of
// all users, with the same negatives and evaluation as the federated methods.
type MF struct {
	Dim   int     `default:"32" min:"1" max:"4096" doc:"embedding dimension"`
	LR    float32 `default:"0.001" min:"0" range:"1e-4..1e-2,log" doc:"Adam's learning rate"`
	Decay float32 `default:"0" min:"0" range:"0|1e-6|1e-5|1e-4|1e-3" doc:"weight decay of the rows that a batch touches"`
	Start float64 `default:"0.1" min:"0" doc:"standard deviation of the initial rows"`
	Loss  string  `default:"bce" choices:"bce|squared" doc:"binary cross entropy, or squared error on ratings"`
}

var (
	_ method.Headed  = (*MF)(nil)
	_ method.Central = (*MF)(nil)
)

func (m *MF) central() learn.Central {
	return learn.Central{Score: learn.Score{Dim: m.Dim}, Loss: m.Loss, LR: m.LR, Decay: m.Decay, Start: m.Start}
}

func (m *MF) Slots(int) []method.Slot                               { return m.central().Slots() }
func (m *MF) Visit(int) method.Visit                                { return method.Visit{} }
func (m *MF) Pass(p *method.Pool)                                   { m.central().Pass(p) }
func (m *MF) Head() *method.Head                                    { return m.central().Head() }
func (m *MF) Logits(w *method.Work, b *method.Batch, out []float32) { m.central().Logits(w, b, out) }
