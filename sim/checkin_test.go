package sim

import (
	"math"
	"strings"
	"testing"
)

// A run whose devices choose themselves has the epsilon of its plan, whoever came: no
// device takes part more often than there are epochs.
func TestCheckInCohortsKeepTheGuarantee(t *testing.T) {
	first := 0.0
	for seed := range uint64(3) {
		r := promise(t, "noise=3,mechanism=tree", 2, func(o *Options) {
			cohort("checkin:9/4")(o)
			o.Rounds,
				o.EvalEvery = 11, 11
		})
		r.Seed, r.engine.Seed = seed, seed
		finish(t, r)
		most, mean := r.Participations()
		if most > 3 || mean == 0 {
			t.Errorf("seed %d: a device took part %d times, want 3 at most; the mean is %g", seed, most, mean)
		}
		e := spent(t, r)
		if first == 0 {
			first = e
		}
		if math.Abs(e-r.engine.Stack.Total.Epsilon) > 1e-12 || e != first {
			t.Errorf("seed %d: %g was spent, %g announced, and %g with other arrivals", seed, e,
				r.engine.Stack.Total.Epsilon, first)
		}
	}
}

func TestArrivalsAreTheSameForAnyWorkerCount(t *testing.T) {
	run := func(jobs int) *Run {
		return promise(t, "noise=3,mechanism=tree", jobs, func(o *Options) {
			cohort("checkin:9/4")(o)
			o.Rounds,
				o.EvalEvery = 7, 7
		})
	}
	one, many := run(1), run(7)
	finish(t, one)
	finish(t, many)
	for i, v := range one.engine.Value {
		for k := range v {
			if math.Float32bits(v[k]) != math.Float32bits(many.engine.Value[i][k]) {
				t.Fatalf("slot %d differs at %d with 7 workers", i, k)
			}
		}
	}
}

func TestImpossibleCohortIsRefused(t *testing.T) {
	o := defaults()
	cohort("checkin:9999/2")(&o)
	if _, err := New(fedmf(t), small(t, "deployed"), o, 1, 1); err == nil || !strings.Contains(err.Error(),
		"has no devices left") {
		t.Errorf("a round without devices: %v", err)
	}
	cohort("checkin:9/4")(&o)
	if _, err := New(fedmf(t), small(t, "deployed"), o, 1, 1); err != nil {
		t.Errorf("without a promise: %v", err)
	}
}
