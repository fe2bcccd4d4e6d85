package local_test

import (
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
)

// slotted is a method of given slots that does nothing.
type slotted struct{ slots []method.Slot }

func (m slotted) Slots(int) []method.Slot { return m.slots }
func (m slotted) Visit(int) method.Visit {
	return method.Visit{Run: func(
		*method.Work) {
	}}
}
func (m slotted) Logits(_ *method.Work, b *method.Batch, out []float32) { clear(out[:b.N]) }

type central struct{ slotted }

func (central) Pass(*method.Pool) {}

type restless struct{ slotted }

func (restless) Ready(int) method.Visit {
	return method.Visit{Parts: []method.Stateful{nil}}
}

// A row per user is everybody's: no device may have such a table, and one that is
// trained in one place has nothing else.
func TestOnlyCentralMethodsHaveARowPerUser(t *testing.T) {
	for _, scope := range []method.Scope{method.Shared, method.Private, method.Ephemeral, method.Server} {
		one := []method.Slot{{Name: "users", Scope: scope, PerUser: true, Dim: 2}}
		for _, m := range []method.Method{slotted{one}, central{slotted{one}}} {
			_, isCentral := m.(central)
			_, err := local.NewPlan(m, local.Options{Items: 5, Users: 3, Rounds: 1, Batch: 1})
			if want := isCentral && scope == method.Server; (err == nil) != want {
				t.Errorf("%T with a row per user that is %s: %v, want it to be let through: %v", m, scope, err, want)
			}
		}
	}
	if _, err := local.NewPlan(restless{slotted{[]method.Slot{{Name: "x", Scope: method.Private, Rows: 1, Dim: 1}}}},
		local.Options{Items: 5, Batch: 1}); err == nil {
		t.Error("what makes a device ready may keep state")
	}
}
