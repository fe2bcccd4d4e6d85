package fleet_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// modest are parameters that make wide methods fast; this test does not look at quality.
var modest = map[string][]string{
	"fedrecgel":  {"dim", "8", "layers", "16,8"},
	"privrec":    {"dim", "8", "layers", "16,8", "epochs", "1", "adapt", "1"},
	"dp-privrec": {"dim", "8", "layers", "16,8", "epochs", "1", "adapt", "1"},
	"nn-self":    {"dim", "8", "layers", "16,8", "epochs", "1", "adapt", "1"},
	"fofl-self":  {"dim", "8", "layers", "16,8", "epochs", "1", "adapt", "1"},
	"metamf":     {"hidden", "16", "memory", "8"},
	"fedncf":     {"dim", "8"},
}

// Every federated method of the registry gives the same bits over the network as in simulation. The test
// covers new methods without a change.
func TestEveryMethodGivesTheSameBitsOverTheNetwork(t *testing.T) {
	for _, e := range methods.Default().Entries() {
		if _, central := method.As[method.Central](e.New()); central {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			split := splitOf(t, "users=12,items=40,mean-rows=8,seed=4")
			s := settings(split, e.Name, modest[e.Name]...)
			s.Rounds = 3
			run := simulated(t, split, s)
			if !slices.ContainsFunc(run.Slots(),
				func(s method.Slot) bool { return s.Scope == method.Shared }) {
				t.Skip("the method shares nothing, so there are no bits to compare")
			}
			r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
			r.run(nil, uint32(s.Rounds))
			same(t, r.newest(), run)
		})
	}
}
