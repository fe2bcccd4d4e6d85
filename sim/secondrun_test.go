package sim

import (
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// A second run of a federation continues from the model of the first, and computes the features of items again. They
// are turned towards the old ones: the maps that were trained on these still fit, and after the feature passes alone
// the model is about as good as before.
func TestASecondRunKeepsWhatWasLearnt(t *testing.T) {
	sp := split(t, world(t, "users=300,items=120,mean-rows=20").Generate(), "deployed")
	for name, settings := range map[string][]string{
		"bank":  {"rank", "16", "width", "16"},
		"tacit": {"rank", "16", "width", "16", "dim", "8"},
	} {
		e, err := methods.Default().Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		build := func() method.Method { m := e.New(); configure(t, m, settings...); return m }
		passes := build().(method.InPasses).Passes()
		first, values := continued(t, build(), sp, 10*passes, nil)
		featured, _ := continued(t, build(), sp, sequencePasses, values)
		second, _ := continued(t, build(), sp, 10*passes, values)
		t.Logf("%s: HR@10 is %.3f after a run, %.3f after the next feature passes, %.3f after the second run",
			name, first, featured, second)
		if featured < first-0.05 || second < first-0.05 {
			t.Errorf("%s: HR@10 falls from %.3f to %.3f after the feature passes and %.3f at the end",
				name, first, featured, second)
		}
	}
}

// continued runs a method from the values of an earlier run, if any, and returns HR@10 and the values at its end. Then
// some devices are absent, so that the features differ.
func continued(t *testing.T, m method.Method, sp *data.Split, rounds int, values [][]float32) (float64, [][]float32) {
	t.Helper()
	o := defaults()
	o.Rounds, o.EvalEvery, o.Cohort = rounds, rounds, round.Cohort{Kind: "cycle", Share: 0.1}
	if values != nil {
		o.Dropout = 0.3
	}
	if rounds == sequencePasses {
		o.Cohort = round.Cohort{Kind: "all"}
	}
	r := start(t, m, sp, o, 2)
	for i, v := range values {
		copy(r.engine.Value[i], v)
	}
	events := finish(t, r)
	return events[len(events)-1].Test.Sampled["hr@10"], r.engine.Value
}

// sequencePasses is the number of passes that compute the features.
const sequencePasses = 3
