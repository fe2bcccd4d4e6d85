package factorisation

import (
	"errors"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// Methods that plug-ins may change. DualPer (Zhang et al. 2023) does not fit PFedRec, which
// already does the same, or FedRAP, which has two item tables.
var (
	_ learn.Tabled    = (*FedMF)(nil)
	_ learn.Tabled    = (*FedNCF)(nil)
	_ learn.Tabled    = (*PFedRec)(nil)
	_ learn.Tabled    = (*FedRAP)(nil)
	_ learn.Pluggable = (*FedRecon)(nil)
)

func (m *FedMF) Separable() bool    { return true }
func (m *FedNCF) Separable() bool   { return true }
func (m *FedRecon) Separable() bool { return true }
func (m *PFedRec) Separable() bool  { return false }
func (m *FedRAP) Separable() bool   { return false }

func (m *FedMF) ItemTables() (learn.Blend, error)   { return m.net().tables(), nil }
func (m *FedNCF) ItemTables() (learn.Blend, error)  { return m.net().tables(), nil }
func (m *PFedRec) ItemTables() (learn.Blend, error) { return m.net().tables(), nil }

// ItemTables returns both tables if the method has two.
func (m *FedRAP) ItemTables() (learn.Blend, error) {
	switch m.Tables {
	case "both":
		return learn.Blend{Own: rapOwn, Frozen: rapCommon}, nil
	case "own":
		return learn.Blend{}, errors.New("tables = own: no item table is downloaded")
	}
	return learn.Blend{}, nil
}

func (n net) tables() learn.Blend {
	return learn.Blend{Own: learn.ItemSlot, Frozen: learn.ItemSlot, Score: n.score()}
}

func (m *dual) visit(of method.Learner, items int, after ...method.Step) method.Visit {
	return m.net().visit(of, items, "alternate", after...)
}

func (m *PFedRec) PluggedVisit(of method.Learner, items int, p learn.Plug) method.Visit {
	return m.net().visit(of, items, p.Order(m.Order), p.After...)
}
