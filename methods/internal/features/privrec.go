// Package features holds methods that score features instead of identities.
package features

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// PrivRec scores features only (Wang et al. 2022): no embedding belongs to a user or an
// item. Each categorical column has a table of embeddings, numbers are used as they are,
// and a network with four hidden layers scores the features of user, context and item. A
// device takes some passes of SGD with a proximal term, and sends its delta. The
// coordinator takes a REPTILE step along the mean delta: the run's `server=sgd:RATE` (the
// paper's alpha3). Before it recommends, a device tunes a copy of the newest model on its
// own samples. Differences from the paper: it gives no widths, learning rates, mu or batch
// size; it has ReLU in equation 1 and Sigmoid in section 4.1 (`activation`); equation 7
// has the distance without its square (`prox=norm`), and we square it as FedProx does;
// equation 2 lacks the minus sign; it takes ratings of 3 and less as negatives, and we
// take every interaction as positive and draw negatives. The embeddings of a film's genres
// are averaged. On Frappe the paper's item features are cost and count; the count of a row
// reveals whether the interaction happened, so ours is the logarithm of the app's uses in
// the training rows.
type PrivRec struct {
	featured
	Epochs int            `default:"5" min:"1" max:"1000" range:"1|2|5|10|20" doc:"local passes per round (the paper's E2)"`
	Mu     learn.Schedule `default:"0.01" range:"0|1e-3|1e-2|1e-1" doc:"weight of the proximal term"`
	Prox   string         `default:"squared" choices:"squared|norm" doc:"proximal term: mu/2 times the squared distance, or times the distance as printed in the paper"`
	// Identity is not a parameter of NN-SELF, whose second derivatives cover plain slots only.
	Identity string `default:"off" choices:"off|on" doc:"the item itself as another feature, with an embedding; an update then reveals the user's items"`
}

var (
	_ method.Learner  = (*PrivRec)(nil)
	_ method.Ready    = (*PrivRec)(nil)
	_ method.Featured = (*PrivRec)(nil)
)

func (m *PrivRec) Bind(f *method.Features) (method.Method, error) {
	bound := *m
	bound.identity = m.Identity == "on"
	return &bound, bound.bind(f)
}

func (m *PrivRec) Slots(int) []method.Slot { return m.side().Slots() }

func (m *PrivRec) Visit(int) method.Visit {
	s := m.side()
	near := learn.Proximal(len(s.Slots()), m.Mu, m.Prox == "squared")
	return learn.Epochs(m.Epochs, 0, learn.Descend(learn.WithTerms(learn.BCE(m), near), s.SGD(m.LR)...))
}

// Ready tunes a copy of the newest model.
func (m *PrivRec) Ready(int) method.Visit { return m.side().Tune(m, m.Adapt, m.AdaptLR.Or(m.LR)) }

// featured is the model that PrivRec, its central form and NN-SELF have in common.
type featured struct {
	Dim        int            `default:"64" min:"1" max:"1024" doc:"dimension of a category's embedding"`
	Layers     learn.Layers   `default:"256,128,64,32" min:"1" doc:"widths of the hidden layers"`
	Activation string         `default:"relu" choices:"relu|sigmoid" doc:"activation function"`
	Numbers    string         `default:"raw" choices:"raw|category" doc:"numeric features: as they are, or as categories with embeddings (the paper: every feature is one-hot)"`
	Context    string         `default:"on" choices:"on|off" doc:"features of the interaction, such as the time of day; off ignores them"`
	Start      float64        `default:"0.5" min:"0" doc:"standard deviation of the initial embeddings"`
	LR         learn.Schedule `default:"0.1" range:"1e-3..1,log" doc:"learning rate of local steps"`
	Adapt      int            `default:"5" min:"0" max:"1000" range:"0|1|2|5|10|20" doc:"passes over the device's own samples before it recommends"`
	AdaptLR    learn.Schedule `default:"0" doc:"learning rate of these passes; 0 means lr"`

	net      *learn.FeatureNet // nil before bind
	identity bool
}

// bind builds the network for the given features.
func (m *featured) bind(f *method.Features) (err error) {
	if m.Numbers == "category" {
		f = f.Categorical()
	}
	if m.Context == "off" {
		f = &method.Features{User: f.User, Item: f.Item}
	}
	m.net, err = m.network(f)
	return err
}

func (m *featured) network(f *method.Features) (*learn.FeatureNet, error) {
	if m.identity {
		return learn.NewIdentityNet(f, m.Dim, m.Layers, m.Activation, m.Start)
	}
	return learn.NewFeatureNet(f, m.Dim, m.Layers, m.Activation, m.Start)
}

// side returns the network, or that of example features before bind.
func (m *featured) side() *learn.FeatureNet {
	if m.net == nil {
		example, err := m.network(learn.ExampleFeatures())
		if err != nil {
			panic(err) // Check accepted the parameters
		}
		return example
	}
	return m.net
}

func (m *featured) Logits(w *method.Work, b *method.Batch, out []float32) { m.net.Logits(w, b, out) }
func (m *featured) Back(w *method.Work, b *method.Batch, dz []float32)    { m.net.Back(w, b, dz) }
