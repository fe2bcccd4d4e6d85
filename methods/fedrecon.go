package methods

import (
	"fmt"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// FedRecon is federated reconstruction (Singhal et al. 2021) in the form that the
// PFedRec paper compares with: the user's vector is kept nowhere. In each round a
// device rebuilds it from scratch with the item rows frozen, then trains the item
// rows with the vector frozen. To recommend, it rebuilds the vector against the
// coordinator's newest rows. The original splits a device's data between the two
// halves; here both see all of it.
type FedRecon struct {
	dual
	Recon   int     `default:"5" range:"1|2|3|5|10" doc:"passes that rebuild the user's vector"`
	ReconLR float32 `default:"0.5" range:"0.03..10,log" doc:"rate of the user's vector while it is rebuilt; lr is for the item rows"`
}

func (m *FedRecon) Slots(int) []method.Slot {
	s := m.slots()
	s[learn.UserSlot].Scope, s[learn.LayerSlot].Scope = method.Ephemeral, method.Ephemeral
	return s
}

func (m *FedRecon) rebuild(of method.Learner) method.Visit {
	rate := learn.Const(m.ReconLR)
	return learn.Epochs(m.Recon, 0, learn.Descend(learn.Mean(m.Loss, of),
		learn.SGD(learn.UserSlot, rate, m.Decay), learn.SGD(learn.LayerSlot, rate, m.Decay)))
}

func (m *FedRecon) Visit(items int) method.Visit { return m.visitOf(m, items, plug{}) }

func (m *FedRecon) visitOf(of method.Learner, items int, p plug) method.Visit {
	_, rows := m.net().rules(items)
	steps := append([]method.Step{learn.Descend(learn.Mean(m.Loss, of), rows)}, p.after...)
	return learn.Then(m.rebuild(of), learn.Epochs(m.Epochs, 0, learn.Alternate(steps...)))
}

// Ready rebuilds the vector against the newest rows.
func (m *FedRecon) Ready(int) method.Visit { return m.rebuild(m) }

func (m *FedRecon) Check() error {
	switch {
	case m.Recon < 1 || m.Recon > 1000:
		return fmt.Errorf("recon = %d: want 1 to 1000", m.Recon)
	case m.ReconLR < 0:
		return fmt.Errorf("recon-lr = %g: want 0 or more", m.ReconLR)
	}
	return m.dual.Check()
}
