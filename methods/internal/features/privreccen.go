package features

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// PrivRecCen is PrivRec's network with centralised training (PrivRec-CEN of Wang et al.
// 2022): a baseline, not a federation. The paper only says "centralized multi-task"; here
// Adam trains on mini-batches of all users, including the samples that held-out users
// tune on, and no tuning follows.
type PrivRecCen struct {
	Dim        int          `default:"64" min:"1" max:"1024" doc:"dimension of a category's embedding"`
	Layers     learn.Layers `default:"256,128,64,32" min:"1" doc:"widths of the hidden layers"`
	Activation string       `default:"relu" choices:"relu|sigmoid" doc:"activation function"`
	Numbers    string       `default:"raw" choices:"raw|category" doc:"numeric features: as they are, or as categories with embeddings"`
	Identity   string       `default:"off" choices:"off|on" doc:"the item itself as another feature, with an embedding"`
	Context    string       `default:"on" choices:"on|off" doc:"features of the interaction, such as the time of day; off ignores them"`
	Start      float64      `default:"0.5" min:"0" doc:"standard deviation of the initial embeddings"`
	LR         float32      `default:"0.001" range:"1e-4..1e-2,log" doc:"Adam's learning rate"`

	net featured
}

var (
	_ method.Featured = (*PrivRecCen)(nil)
	_ method.Central  = (*PrivRecCen)(nil)
)

func (m *PrivRecCen) Bind(f *method.Features) (method.Method, error) {
	bound := *m
	bound.net = m.model()
	return &bound, bound.net.bind(f)
}

func (m *PrivRecCen) model() featured {
	return featured{
		Dim: m.Dim, Layers: m.Layers, Activation: m.Activation, Numbers: m.Numbers, Start: m.Start,
		Context: m.Context, net: m.net.net, identity: m.Identity == "on",
	}
}

func (m *PrivRecCen) Slots(int) []method.Slot {
	f := m.model()
	return f.side().CentralSlots()
}

func (m *PrivRecCen) Visit(int) method.Visit { return method.Visit{} }
func (m *PrivRecCen) Pass(p *method.Pool)    { m.net.net.Pass(p, "bce", m.LR) }
func (m *PrivRecCen) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.net.Logits(w, b, out)
}
