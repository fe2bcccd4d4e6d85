package features

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// NNSelf is NN-SELF: PrivRec's network under federated meta-learning (Chen et al. 2018),
// as compared by Wang et al. 2022. A device splits its samples into a support and a query
// half, takes `inner-steps` steps on the support half, and sends the delta of one step
// along the gradient of the query loss with respect to the initial parameters:
// second-order MAML with exact Hessian-vector products. SELF means that the model is
// adapted to the user's own samples: before it recommends, a device tunes a copy of the
// newest model on all its samples, as PrivRec does. Neither paper states learning rates
// or the number of steps.
type NNSelf struct {
	featured
	InnerSteps int            `default:"1" min:"0" max:"20" range:"1|2|3" doc:"steps on the support half"`
	Outer      learn.Schedule `default:"0.1" range:"1e-3..1,log" doc:"learning rate of the meta-gradient step"`
	Epochs     int            `default:"5" min:"1" max:"1000" range:"1|2|5|10|20" doc:"meta-gradient steps per round, each on a new split into halves"`
}

var (
	_ method.Learner  = (*NNSelf)(nil)
	_ method.Ready    = (*NNSelf)(nil)
	_ method.Featured = (*NNSelf)(nil)
)

func (m *NNSelf) Bind(f *method.Features) (method.Method, error) {
	bound := *m
	return &bound, bound.bind(f)
}

func (m *NNSelf) Slots(int) []method.Slot { return m.side().Slots() }

func (m *NNSelf) Visit(int) method.Visit {
	return learn.Meta(m.side(), m.InnerSteps, m.LR, m.Outer, m.Epochs)
}

// Ready tunes a copy of the newest model.
func (m *NNSelf) Ready(int) method.Visit { return m.side().Tune(m, m.Adapt, m.AdaptLR.Or(m.LR)) }
