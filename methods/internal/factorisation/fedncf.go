package factorisation

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// FedNCF is federated neural collaborative filtering (Perifanis and Efraimidis 2022): the
// user's vector stays on the device; item rows and the network are averaged, and devices
// recommend with the coordinator's newest. As in the code of the PFedRec authors, one
// joint step moves everything, with separate learning rates for the network, the user's
// vector and the item rows.
type FedNCF struct {
	dual
	Layers  learn.Layers `default:"32,16,8" doc:"widths of the network's hidden layers"`
	Private string       `default:"none" doc:"private layers: all, none, or numbers such as 1,3 (the output is the last)"`
	UserEta float32      `default:"79" min:"0" range:"1..300,log" doc:"the user vector's learning rate is lr * user-eta (authors' code: eta/share - 1 for a cohort's share; 79 for all)"`
}

var (
	_ method.Learner = (*FedNCF)(nil)
	_ method.Headed  = (*FedNCF)(nil)
	_ method.Checker = (*FedNCF)(nil)
)

func (m *FedNCF) net() net { return net{&m.dual, m.Layers, m.Private, m.UserEta} }

func (m *FedNCF) Slots(int) []method.Slot      { return m.net().slots() }
func (m *FedNCF) Visit(items int) method.Visit { return m.PluggedVisit(m, items, learn.Plug{}) }
func (m *FedNCF) Head() *method.Head           { return m.net().score().Head() }
func (m *FedNCF) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.net().score().Logits(w, b, out)
}

func (m *FedNCF) Back(w *method.Work, b *method.Batch, dz []float32) { m.net().score().Back(w, b, dz) }
func (m *FedNCF) Check() error                                       { return m.net().check() }

func (m *FedNCF) PluggedVisit(of method.Learner, items int, p learn.Plug) method.Visit {
	return m.net().visit(of, items, p.Order("joint"), p.After...)
}
