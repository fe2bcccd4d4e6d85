package features

import "github.com/tacit-rec/tacit/method"

// DPPrivRec is PrivRec with user-level differential privacy (Wang et al. 2022, algorithm
// 2), corrected. It trains as PrivRec does; the rest is run settings. A round samples 30
// devices without replacement. Each clips its delta to the bound S. The coordinator adds
// noise of z = 1 times the replace-one sensitivity to the sum, and moves S towards the
// median norm with a noisy count of the devices whose delta was within S. Differences
// from the paper's text: it counts after clipping, when every delta is within S, so its S
// shrinks forever and passes zero; it adds noise outside the server learning rate; it
// uses twice the sensitivity of the count; it moves S by a constant step towards the .9
// quantile and gives 70 % of the budget to the count. `tacit run -m dp-privrec
// --as-printed` follows the text and stops when S passes zero. The paper does not state
// the learning rate of S (ours is 0.2) or any rate of PrivRec.
type DPPrivRec struct{ PrivRec }

var (
	_ method.Learner  = (*DPPrivRec)(nil)
	_ method.Ready    = (*DPPrivRec)(nil)
	_ method.Featured = (*DPPrivRec)(nil)
)

func (m *DPPrivRec) Bind(f *method.Features) (method.Method, error) {
	bound := *m
	bound.identity = m.Identity == "on"
	return &bound, bound.bind(f)
}
