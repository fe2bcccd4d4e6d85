// Package plugins holds mechanisms that change other methods. They use the exported
// interfaces of package learn only, as plug-ins of other modules do.
package plugins

import (
	"errors"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// DualPer is the mechanism of PFedRec as a plug-in for other methods (Zhang et al., IJCAI
// 2023, Table 3): each batch is a step on the score function and then one on the item
// rows, the score function stays on the device, and devices recommend with their own
// tuned rows. FedMF with DualPer is PFedRec.
type DualPer struct {
	method.Learner
	Network string `default:"private" choices:"private|shared" doc:"private: all layers stay on the device; shared: those that the base keeps private. The paper does not say which it used"`
}

var (
	_ method.Learner = (*DualPer)(nil)
	_ method.Wrapper = (*DualPer)(nil)
)

// NewDualPer returns the base with dual personalization.
func NewDualPer(base method.Method) (method.Method, error) {
	b, ok := base.(learn.Pluggable)
	if !ok || !b.Separable() {
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

// Separable is false: the steps are separate already.
func (m *DualPer) Separable() bool { return false }

func (m *DualPer) Visit(items int) method.Visit { return m.PluggedVisit(m, items, learn.Plug{}) }

func (m *DualPer) PluggedVisit(of method.Learner, items int, p learn.Plug) method.Visit {
	p.Separate = true
	return m.Learner.(learn.Pluggable).PluggedVisit(of, items, p)
}
