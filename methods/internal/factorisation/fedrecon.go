package factorisation

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// FedRecon is federated reconstruction (Singhal et al. 2021) in the form that the PFedRec
// paper compares with: the user's vector is not stored. In each round a device
// reconstructs it from scratch with the item rows frozen, then trains the item rows with
// the vector frozen. To recommend, it reconstructs the vector from the coordinator's
// newest rows. The original splits a device's data between the two steps; here both use
// all of it.
type FedRecon struct {
	Dim     int     `default:"32" min:"1" max:"4096" doc:"embedding dimension"`
	Recon   int     `default:"5" min:"1" max:"1000" range:"1|2|3|5|10" doc:"passes that reconstruct the user's vector"`
	ReconLR float32 `default:"0.5" min:"0" range:"0.03..10,log" doc:"learning rate of the user's vector during reconstruction"`
	Eta     float32 `default:"80" min:"0" range:"5..500,log" doc:"the item rows' learning rate is 0.1 * items * eta, as in PFedRec"`
	Decay   float32 `default:"0" min:"0" doc:"weight decay, on every row in every step"`
	Epochs  int     `default:"1" min:"1" max:"1000" doc:"local passes over the item rows"`
	Loss    string  `default:"bce" choices:"bce|bpr|squared" doc:"binary cross entropy, pairwise ranking, or squared error on ratings (use a small eta)"`
}

var (
	_ method.Learner = (*FedRecon)(nil)
	_ method.Headed  = (*FedRecon)(nil)
	_ method.Ready   = (*FedRecon)(nil)
	_ method.Checker = (*FedRecon)(nil)
)

func (m *FedRecon) net() net {
	return net{dual: &dual{
		Dim: m.Dim, LR: learn.Const(0.1), Eta: m.Eta, Decay: m.Decay, Epochs: m.Epochs,
		Loss: m.Loss,
	}, private: "all"}
}

func (m *FedRecon) Slots(int) []method.Slot {
	s := m.net().slots()
	s[learn.UserSlot].Scope, s[learn.LayerSlot].Scope = method.Ephemeral, method.Ephemeral
	return s
}

func (m *FedRecon) Head() *method.Head { return m.score().Head() }
func (m *FedRecon) score() learn.Score { return learn.Score{Dim: m.Dim} }

func (m *FedRecon) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.score().Logits(w, b, out)
}
func (m *FedRecon) Back(w *method.Work, b *method.Batch, dz []float32) { m.score().Back(w, b, dz) }

func (m *FedRecon) rebuild(of method.Learner) method.Visit {
	rate := learn.Const(m.ReconLR)
	return learn.Uncounted(learn.Epochs(m.Recon, 0, learn.Descend(learn.Mean(m.Loss, of),
		learn.SGD(learn.UserSlot, rate, m.Decay), learn.SGD(learn.LayerSlot, rate, m.Decay))))
}

func (m *FedRecon) Visit(items int) method.Visit { return m.PluggedVisit(m, items, learn.Plug{}) }

func (m *FedRecon) PluggedVisit(of method.Learner, items int, p learn.Plug) method.Visit {
	_, rows := m.net().rules(items)
	steps := append([]method.Step{learn.Descend(learn.Mean(m.Loss, of), rows)}, p.After...)
	return learn.Then(m.rebuild(of), learn.Epochs(m.Epochs, 0, learn.Alternate(steps...)))
}

// Ready reconstructs the vector from the newest rows.
func (m *FedRecon) Ready(int) method.Visit { return m.rebuild(m) }

func (m *FedRecon) Check() error { return m.net().check() }
