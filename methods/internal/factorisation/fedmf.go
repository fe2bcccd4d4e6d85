package factorisation

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// FedMF is federated matrix factorisation (Chai et al. 2020) in the form that the PFedRec
// paper compares with: the user's vector stays on the device, item rows are averaged, and
// devices recommend with the coordinator's newest rows. It trains as PFedRec does. The
// encryption of the original is not implemented.
type FedMF struct{ dual }

var (
	_ method.Learner = (*FedMF)(nil)
	_ method.Headed  = (*FedMF)(nil)
	_ method.Checker = (*FedMF)(nil)
)

func (m *FedMF) Slots(int) []method.Slot      { return m.net().slots() }
func (m *FedMF) Visit(items int) method.Visit { return m.PluggedVisit(m, items, learn.Plug{}) }

func (m *FedMF) PluggedVisit(of method.Learner, items int, p learn.Plug) method.Visit {
	return m.visit(of, items, p.After...)
}
