// Package neural holds methods whose score is a deep network on embeddings.
package neural

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// FedRecGEL is generalized embedding learning with sharpness-aware minimisation (Yu et
// al. 2026, arXiv 2603.11503), in the form of the authors' code. The model is NeuMF: two
// vectors of the user stay on the device; item rows, layers and head are shared. In a
// round a device computes the gradient of all its samples three times: at the current
// parameters, with the shared parameters moved uphill by rho-shared in total, and with
// the user's vectors moved uphill by rho-user. It sends the second gradient, and the
// coordinator takes an Adam step with the mean over the cohort, on every row. The third
// updates the user's vectors with an Adam whose moments stay on the device. The loss is
// the mean within each `batch` of samples, summed over batches. The paper writes rho_co
// and rho_ur, its code rho_sh and rho_ns. A rho of 0 is the paper's ablation; with both
// at 0 the method is FedNCF as the authors run it. Their configuration has a server rate
// of 1.5 that the code never reads; it uses 0.001. Two differences: all devices start
// with the same user vectors, and positives are at random positions among the negatives
// instead of before their own.
type FedRecGEL struct {
	Dim       int            `default:"32" min:"1" max:"1024" doc:"width of the vectors of GMF"`
	Layers    learn.Layers   `default:"128,64,32" min:"1" max:"6" doc:"widths of the network's hidden layers; its embeddings have the width of the first"`
	RhoShared learn.Schedule `default:"0.02" min:"0" range:"0|0.01|0.02|0.05|0.1|0.2" doc:"radius of sharpness-aware minimisation for shared parameters; 0: plain gradient"`
	RhoUser   learn.Schedule `default:"0.02" min:"0" range:"0|0.01|0.02|0.05|0.1|0.2" doc:"radius of sharpness-aware minimisation for the user's vectors; 0: plain gradient"`
	LR        learn.Schedule `default:"0.1" min:"0" range:"1e-3..1,log" doc:"learning rate of the device's Adam on the user's vectors"`
	ServerLR  float32        `default:"0.001" min:"0" range:"1e-4..0.1,log" doc:"learning rate of the coordinator's Adam"`
}

var (
	_ method.Learner = (*FedRecGEL)(nil)
	_ method.Updater = (*FedRecGEL)(nil)
)

func (m *FedRecGEL) model() learn.NeuMF { return learn.NeuMF{Dim: m.Dim, Hidden: m.Layers} }

// Slots returns the slots of the model, the coordinator's two moments for each shared
// slot in order, and its count of steps.
func (m *FedRecGEL) Slots(int) []method.Slot {
	out := m.model().Slots()
	shared, _ := m.model().Groups()
	for _, i := range shared {
		out[i].Upload = method.Gradient
		for _, moment := range []string{".m", ".v"} {
			out = append(out, method.Slot{
				Name: out[i].Name + moment, Scope: method.Server, PerItem: out[i].PerItem, Rows: out[i].Rows,
				Dim: out[i].Dim,
				Doc: "the coordinator's moment of " + out[i].Name,
			})
		}
	}
	return append(out, method.Slot{
		Name: "steps", Scope: method.Server, Rows: 1, Dim: 1,
		Doc: "the coordinator's count of steps",
	})
}

func (m *FedRecGEL) Visit(int) method.Visit {
	shared, user := m.model().Groups()
	loss := learn.SAM(learn.InSubBatches(learn.BCE(m)), learn.Neighbourhood{Rho: m.RhoShared, Slots: shared},
		learn.Neighbourhood{Rho: m.RhoUser, Slots: user})
	var rules []learn.Rule
	for _, i := range shared {
		rules = append(rules, learn.SendGradient(i))
	}
	for _, i := range user {
		rules = append(rules, learn.Adam(i, m.LR, true))
	}
	return learn.Once(learn.Descend(loss, rules...))
}

// Update applies Adam to the mean gradient of the cohort. Rows without a gradient in this
// round still move with their moments.
func (m *FedRecGEL) Update(g *method.Global) {
	shared, user := m.model().Groups()
	moment := len(shared) + len(user)
	step := learn.NextAdam(m.ServerLR, &g.Value[moment+2*len(shared)][0])
	for _, i := range shared {
		vec.Scale(1/float32(g.Devices), g.Aggregate[i])
		step.Move(g.Aggregate[i], g.Value[moment], g.Value[moment+1], g.Value[i])
		moment += 2
	}
}

func (m *FedRecGEL) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.model().Logits(w, b, out)
}
func (m *FedRecGEL) Back(w *method.Work, b *method.Batch, dz []float32) { m.model().Back(w, b, dz) }
