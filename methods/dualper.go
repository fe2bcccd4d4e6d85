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

var (
	_ method.Learner = (*DualPer)(nil)
	_ method.Wrapper = (*DualPer)(nil)
)

func dualPer(base method.Method) (method.Method, error) {
	b, ok := base.(pluggable)
	_, own := method.As[*PFedRec](base)
	_, twice := method.As[*DualPer](base)
	_, two := method.As[*FedRAP](base)
	if !ok || own || twice || two {
		return nil, errors.New("dualper fits fedmf, fedncf and fedrecon: methods with shared item rows and a score " +
			"function to step on in turn")
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
			s[i].Serve = method.ServeLocal
		case m.Network == "private":
			s[i].Scope = method.Private
		default:
			s[i].Serve = method.ServeLocal
		}
	}
	return s
}

func (m *DualPer) Visit(items int) method.Visit { return m.visitOf(m, items, plug{}) }

func (m *DualPer) visitOf(of method.Learner, items int, p plug) method.Visit {
	p.apart = true
	return m.Learner.(pluggable).visitOf(of, items, p)
}
