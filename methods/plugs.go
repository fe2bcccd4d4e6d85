package methods

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// plug is what a plug-in asks of the visit of its base.
type plug struct {
	apart bool          // the score function's and the rows' steps apart, the rows' last
	after []method.Step // steps that end every batch
}

// pluggable is a base whose visit plug-ins may change.
type pluggable interface {
	method.Learner
	// visitOf is Visit for the learner that wraps it.
	visitOf(of method.Learner, items int, p plug) method.Visit
}

// tabled is a base with a table that a device tunes, and a frozen one beside it.
type tabled interface {
	pluggable
	tables() learn.Blend
}

func (m *FedMF) tables() learn.Blend   { return m.net().tables() }
func (m *FedNCF) tables() learn.Blend  { return m.net().tables() }
func (m *PFedRec) tables() learn.Blend { return m.net().tables() }

// tables: PLGC balances the two, where there are two.
func (m *FedRAP) tables() learn.Blend {
	if m.Tables == "both" {
		return learn.Blend{Own: rapOwn, Frozen: rapCommon}
	}
	return learn.Blend{}
}

func (n net) tables() learn.Blend {
	return learn.Blend{Own: learn.ItemSlot, Frozen: learn.ItemSlot, Score: n.score()}
}

func (m *dual) visit(of method.Learner, items int, after ...method.Step) method.Visit {
	return m.net().visit(of, items, "alternate", after...)
}

func (m *PFedRec) visitOf(of method.Learner, items int, p plug) method.Visit {
	return m.net().visit(of, items, p.order(m.Order), p.after...)
}

// order is that of a base with one of its own.
func (p plug) order(own string) string {
	if p.apart {
		return "alternate"
	}
	return own
}

// balance is the name of PLGC's slot; its index depends on the base's slots.
const balance = "balance"

func balanceOf(w *method.Work) []float32 {
	for i := range w.View {
		if w.View[i].Slot.Name == balance {
			return w.View[i].Val
		}
	}
	return nil
}
