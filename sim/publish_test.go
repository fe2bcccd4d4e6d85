package sim

import (
	"context"
	"math"
	"testing"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// quick are parameters that make wide methods fast.
var quick = map[string][]string{
	"fedrecgel":  {"dim", "8", "layers", "16,8"},
	"privrec":    {"dim", "8", "layers", "16,8", "epochs", "1", "adapt", "1"},
	"dp-privrec": {"dim", "8", "layers", "16,8", "epochs", "1", "adapt", "1"},
	"nn-self":    {"dim", "8", "layers", "16,8", "epochs", "1", "adapt", "1"},
	"fofl-self":  {"dim", "8", "layers", "16,8", "epochs", "1", "adapt", "1"},
	"metamf":     {"hidden", "16", "memory", "8"},
	"fedncf":     {"dim", "8"},
}

// size is the root mean square of numbers, and their largest magnitude.
func size(v []float32) (mean, largest float64) {
	for _, x := range v {
		mean += float64(x) * float64(x)
		largest = max(largest, math.Abs(float64(x)))
	}
	return math.Sqrt(mean / float64(len(v))), largest
}

// Honest training never comes near the limits beyond which a round is discarded (1e6 times larger in one
// round, numbers of 1e18), nor to the limits that methods declare.
func TestHonestRoundsAreFarFromTheLimits(t *testing.T) {
	for _, e := range methods.Default().Entries() {
		if _, central := method.As[method.Central](e.New()); central {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			m := e.New()
			configure(t, m, quick[e.Name]...)
			o := defaults()
			for k, v := range e.Options {
				if err := param.Set(&o, k, v); err != nil {
					t.Fatal(err)
				}
			}
			o.Rounds, o.EvalEvery = min(o.Rounds, 12), 1000
			r := start(t, m, small(t, "deployed"), o, 1)
			for !r.Done() {
				var before [][]float32
				for _, v := range r.engine.Value {
					before = append(before, append([]float32(nil), v...))
				}
				rep, err := r.engine.Step(context.Background())
				if err != nil || rep.Rejected != "" {
					t.Fatalf("round %d: %v, rejected: %q", r.engine.Next, err, rep.Rejected)
				}
				for i, v := range r.engine.Value {
					s := &r.fleet.plan.Slots[i]
					if s.Scope != method.Server && (s.Scope != method.Shared || s.Upload == method.Sum) {
						continue
					}
					was, _ := size(before[i])
					is, largest := size(v)
					if was > 0 && is > 1000*max(was, 1) || largest > 1e6 || s.Limit > 0 && largest > s.Limit/10 {
						t.Errorf("round %d: slot %s grew %.3g times, to numbers of %.3g", r.engine.Next, s.Name,
							is/max(was, 1), largest)
					}
				}
			}
		})
	}
}
