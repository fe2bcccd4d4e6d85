package factorisation

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// Local is a reference, not a published method: each device trains alone and sends
// nothing. The gain over Local is what a federation is worth.
type Local struct{ dual }

var (
	_ method.Learner = (*Local)(nil)
	_ method.Headed  = (*Local)(nil)
	_ method.Checker = (*Local)(nil)
)

func (m *Local) Slots(int) []method.Slot {
	s := m.net().slots()
	s[learn.ItemSlot].Scope = method.Private
	return s
}

func (m *Local) Visit(items int) method.Visit { return m.visit(m, items) }
