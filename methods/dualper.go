package methods

import (
	"errors"

	"github.com/tacit-rec/tacit/method"
)

// DualPer is the mechanism of PFedRec as a plug-in for other methods (Zhang et
// al., IJCAI 2023, Table 3): for each batch a step on the score function and then
// one on the item rows, the score function stays on the device, and
// recommendations use the device's own tuned rows. On FedMF it is PFedRec.
type DualPer struct {
	method.Learner
	Network string `default:"private" choices:"private|shared" doc:"private: all layers of the score function stay on the device; shared: those that the method itself keeps. The paper does not say which it used"`
}

// dualized is a base that DualPer fits.
type dualized interface {
	method.Learner
	// dualVisit is Visit with the score function's and the rows' steps apart, for
	// the learner that wraps it.
	dualVisit(of method.Learner, items int) method.Visit
}

func dualPer(base method.Method) (method.Method, error) {
	b, ok := base.(dualized)
	if !ok {
		return nil, errors.New("dualper fits fedmf, fedncf and fedrecon: methods with shared item rows and a score function to step on in turn")
	}
	return &DualPer{Learner: b}, nil
}

func (m *DualPer) Unwrap() method.Method { return m.Learner }

func (m *DualPer) Slots(items int) []method.Slot {
	s := m.Learner.Slots(items)
	for i := range s {
		switch {
		case s[i].Scope != method.Shared:
		case s[i].PerItem:
			s[i].Serve = method.Tuned
		case m.Network == "private":
			s[i].Scope = method.Private
		default:
			s[i].Serve = method.Tuned
		}
	}
	return s
}

func (m *DualPer) Visit(items int) method.Visit { return m.Learner.(dualized).dualVisit(m, items) }
