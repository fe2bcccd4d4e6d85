package round

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/aggregate"
)

// A sum that would make the model infinite or implausible changes nothing: values and the server rule's
// memory are those of the round before, the round is over, and the next one trains on.
func TestAnImplausibleModelIsRejected(t *testing.T) {
	adam := aggregate.Rule{Kind: "adam", Rate: 0.1}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, c := range map[string]struct {
		rule   aggregate.Rule
		sum    []float32
		limit  float64
		reason string
	}{
		"infinite":       {sum: padded(0, 0, inf, 0, 0, 0), reason: "finite"},
		"not a number":   {sum: padded(0, 0, 0, 0, 0, nan), reason: "finite"},
		"memory":         {rule: adam, sum: padded(0, 1e30, 0, 0, 0, 0), reason: "memory"},
		"declared limit": {sum: padded(400, 0, 0, 0, 0, 0), limit: 50, reason: "at most 50"},
		"generic limit":  {sum: padded(1e25, 0, 0, 0, 0, 0), reason: "at most 1e+18"},
		"growth":         {sum: padded(1e12, 0, 0, 0, 0, 0), reason: "grow"},
	} {
		f := &fake{users: 4, rep: Report{Devices: 4}, sum: map[int][]float32{0: padded(4, 0, 0, 0, 0, 0)}}
		e := engine(t, f, aggregate.PerCohort)
		if e.Plan.Slots[0].Limit = c.limit; c.rule.Kind != "" {
			e.Server = c.rule
		}
		step := func() Report {
			rep, err := e.Step(context.Background())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return rep
		}
		if rep := step(); rep.Discarded || rep.Rejected != "" {
			t.Fatalf("%s: the honest round: %+v", name, rep)
		}
		before, memory := slices.Clone(e.Value[0]), slices.Clone(e.State[0].V)
		f.sum[0] = c.sum
		rep := step()
		if !rep.Discarded || !strings.Contains(rep.Rejected, c.reason) || e.Next != 2 {
			t.Errorf("%s: %+v, next round %d", name, rep, e.Next)
		}
		if !slices.Equal(e.Value[0], before) || !slices.Equal(e.State[0].V, memory) {
			t.Errorf("%s: the values are %v, want %v", name, e.Value[0], before)
		}
		f.sum[0] = padded(4, 0, 0, 0, 0, 0)
		if rep := step(); rep.Discarded || e.Value[0][0] <= before[0] {
			t.Errorf("%s: the next round: %+v, values %v", name, rep, e.Value[0])
		}
	}
}
