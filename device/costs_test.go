package device

import (
	"errors"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
)

const sharesPolicy = "epsilon=2,trust=distributed,min-devices=12"

// sharesPlan is a plan of a method that splits the budget between its rounds.
func sharesPlan(t *testing.T, policy string, set ...string) (*vetted, *privacy.Stack) {
	t.Helper()
	f := newFake(t, "tacit-private", 20, set...)
	f.spec.Masked, f.spec.Policy = true, policy
	v := &vetted{spec: f.spec, plan: f.plan}
	k, err := v.guarantee()
	if err != nil {
		t.Fatal(err)
	}
	return v, k
}

// A coordinator that rolls back again and again, and asks for the round with the least noise, gets reports
// of no higher cost than the guarantee states, whether the noise is calibrated or given.
func TestRollbacksToTheCostliestRound(t *testing.T) {
	for _, policy := range []string{
		sharesPolicy, "noise=40,trust=distributed,min-devices=12",
		"epsilon=0.3,noise=40,trust=distributed,min-devices=12",
	} {
		v, k := sharesPlan(t, policy)
		low := 0
		for i := range k.Rounds {
			if k.NoiseShare(i) < k.NoiseShare(low) {
				low = i
			}
		}
		e, _, err := k.Spends(low)
		if err != nil {
			t.Fatal(err)
		}
		s, all, failed := spending{}, []account.Event(nil), error(nil)
		for failed == nil && len(all) <= k.Rounds {
			task := &pb.Task{Kind: pb.Kind_TRAIN, Round: uint32(low), Run: make([]byte, 16)}
			if failed = s.noteReport(task, v); failed == nil {
				all = append(all, e)
			}
		}
		r, err := account.Epsilon(k.Delta, k.Options(), all...)
		limit := k.Limit()
		if err != nil || r.Epsilon > limit*1.001 || len(all) < 1 || !errors.Is(failed, errWeaker) {
			t.Errorf("%s: round %d, %d times: epsilon %.3g of %.3g, %v; %v", policy, low+1, len(all), r.Epsilon, limit,
				err, failed)
		}
	}
}

// A device answers every round of every run of a period, and after that none.
func TestPlannedReportsAreAfforded(t *testing.T) {
	v, _ := sharesPlan(t, sharesPolicy)
	v.spec.Runs = 3
	v.recomputed = recomputed{}
	k, err := v.guarantee()
	if err != nil {
		t.Fatal(err)
	}
	s := spending{}
	for run := range 4 {
		for i := range k.Rounds {
			task := &pb.Task{Kind: pb.Kind_TRAIN, Round: uint32(i), Run: []byte{byte(run), 15: 0}}
			if err := s.noteReport(task, v); (err == nil) != (run < 3) {
				t.Fatalf("run %d, round %d: %v", run+1, i+1, err)
			}
		}
	}
}
