package sim

import (
	"context"
	"math"
	"testing"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// Sums of whole numbers have no order, so shards, workers and a network give the same.
// What they lose against sums of floats is far below what training notices.
func TestIntegerSumsTrainAsFloatsDo(t *testing.T) {
	for name, build := range map[string]func() method.Method{
		"pfedrec": func() method.Method { return pfedrec(t, "dim", "6") },
		"fedrap":  func() method.Method { return fedrap(t, "dim", "6", "row-lr", "1") },
		"ials-next": func() method.Method {
			m := &methods.IALSNext{}
			configure(t, m, "dim", "6")
			return m
		},
	} {
		values := func(sums string, jobs int) (out []float32) {
			o := defaults()
			o.Rounds, o.Sums = 5, sums
			r := start(t, build(), small(t, "deployed"), o, jobs)
			for !r.Done() {
				if _, err := r.Step(context.Background()); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			for i, v := range r.engine.Value {
				if r.fleet.plan.Slots[i].Scope == method.Shared {
					out = append(out, v...)
				}
			}
			return out
		}
		one, many, float := values("integer", 1), values("integer", 3), values("float", 2)
		far, size := 0.0, 0.0
		for i := range one {
			if one[i] != many[i] {
				t.Fatalf("%s: number %d is %g with 1 worker and %g with 3", name, i, one[i], many[i])
			}
			far, size = far+math.Pow(float64(one[i]-float[i]), 2), size+math.Pow(float64(float[i]), 2)
		}
		if !(far < 1e-6*size) || far == 0 {
			t.Errorf("%s: sums of whole numbers end %.2g away from those of floats, which are %.2g long", name,
				math.Sqrt(far), math.Sqrt(size))
		}
	}
}
