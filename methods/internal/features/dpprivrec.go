package features

import "github.com/tacit-rec/tacit/method"

// DPPrivRec is PrivRec with user-level differential privacy (Wang et al. 2022, algorithm 2),
// corrected. It learns as PrivRec does; the rest is settings of the run: 30 devices of a
// round are drawn without replacement, each bounds its change to S before it is sent,
// noise of z = 1 times the replace-one sensitivity goes to the sum, and S moves to the median
// of the lengths by a noisy count of the devices that were within it. Where the paper's
// text and we differ: it counts them after the bound, where all are within, so that its S
// falls for ever and passes through zero; it adds noise outside of the coordinator's rate; it takes twice
// the sensitivity that the count has; it moves S by a constant step, to the .9 quantile,
// and gives 70 % of the budget to the count. `tacit run -m dp-privrec --as-printed` does all of that, and ends when
// S has passed zero. The paper gives neither the rate of S (we take 0.2) nor any of PrivRec's.
type DPPrivRec struct{ PrivRec }

var (
	_ method.Learner  = (*DPPrivRec)(nil)
	_ method.Ready    = (*DPPrivRec)(nil)
	_ method.Featured = (*DPPrivRec)(nil)
)

func (m *DPPrivRec) Bind(f *method.Features) (method.Method, error) {
	bound := *m
	return &bound, bound.bind(f)
}
