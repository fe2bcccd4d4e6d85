package fleet_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/sim"
)

// A masked evaluation over sockets gives the integers of the simulation for the same devices. With
// deterministic noise every digit is known. The model has the bits of a run without evaluation.
func TestEvaluationEqualsTheSimulation(t *testing.T) {
	const policy = "epsilon=200,delta=1e-3,clip=0.5,min-devices=5,metrics=1"
	for _, c := range []struct {
		dp     string
		masked bool
		bucket int
	}{{"none", false, 0}, {policy, false, 0}, {policy, true, 0}, {policy, true, 14}} {
		t.Run(fmt.Sprintf("%.4s masked %v bucket %d", c.dp, c.masked, c.bucket), func(t *testing.T) {
			t.Parallel()
			split := world(t)
			s := settings(split, "fedmf", "dim", "8")
			s.Rounds, s.EvalEvery, s.Masked, s.GroupSize = 3, 3, c.masked, c.bucket
			if err := s.DP.UnmarshalText([]byte(c.dp)); err != nil {
				t.Fatal(err)
			}
			if s.DP.On() {
				s.Mean = aggregate.Fixed
			}
			r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
			f := r.run(nil, uint32(s.Rounds))
			run := simulated(t, split, s)
			same(t, r.newest(), run)
			st := r.status()
			if len(st.Evaluations) != 1 || st.EvaluationMissed != "" ||
				f.Stats().Counted != int64(s.Rounds*split.Users()) {
				t.Fatalf("%+v, %q, %+v", st.Evaluations, st.EvaluationMissed, f.Stats())
			}
			if got, want := st.Evaluations[0], expected(split, run, s, st.Evaluations[0].Version); got != want {
				t.Errorf("the evaluation is\n%+v, want\n%+v", got, want)
			}
		})
	}
}

// expected returns the evaluation of a simulation's last round.
func expected(split *data.Split, run *sim.Run, s coordinator.Settings, version uint64) coordinator.Evaluation {
	const whole, fine = 1 << 20, 1 << 10
	var sum [metrics.EvaluationLength]int64
	order := popularity(split)
	for u := range split.Users() {
		place := run.Best.ValidFull[u]
		if place.Above == metrics.NotRanked {
			continue
		}
		var popular *metrics.Rank
		if !s.DP.On() {
			popular = placeOf(split, u, order)
		}
		for i, x := range metrics.Evaluate(place, popular) {
			sum[i] += int64(math.RoundToEven(float64(x) * whole))
		}
	}
	noise := 2.0
	if s.DP.On() {
		noise = s.DP.Metrics * math.Sqrt2
	}
	var got [metrics.EvaluationLength]float64
	for i, x := range sum {
		v := []int64{int64(math.Round(float64(x) / whole * fine))}
		privacy.NewSource(round.DeterministicNoise(s.Seed, round.MetricsNode(s.Rounds-1),
			i)).AddGauss(int64(math.Ceil(noise*(fine+1))), v)
		got[i] = float64(v[0]) / fine
	}
	n := got[0]
	if s.DP.On() {
		n = float64(split.Users())
	}
	share := func(x float64) float64 { return math.Round(x/n*1e4) / 1e4 }
	out := coordinator.Evaluation{
		Run: 1, Round: s.Rounds, Version: version, Devices: math.Round(n), HR10: share(got[1]),
		NDCG10: share(got[2]), Noise: noise, Share: share(noise),
	}
	if out.Popular = !s.DP.On(); out.Popular {
		out.PopHR10, out.PopNDCG10 = share(got[4]), share(got[5])
	}
	return out
}

// popularity orders the items that three or more users train on.
func popularity(split *data.Split) (order []uint32) {
	n := make([]int, split.Items())
	var p data.Part
	for u := range split.Users() {
		split.User(u, &p)
		for _, i := range slices.Compact(slices.Sorted(slices.Values(p.Train))) {
			n[i]++
		}
	}
	for i, x := range n {
		if x >= 3 {
			order = append(order, uint32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return n[b] - n[a] })
	return order
}

// placeOf returns the rank of a user's validation item in that order among unseen items. Items outside the
// order tie for the last rank.
func placeOf(split *data.Split, u int, order []uint32) *metrics.Rank {
	var p data.Part
	split.User(u, &p)
	at := slices.Index(order, uint32(p.Valid))
	out := &metrics.Rank{}
	for i := range uint32(split.Items()) {
		if slices.Contains(p.Train, i) || i == uint32(p.Valid) {
			continue
		}
		switch other := slices.Index(order, i); {
		case other >= 0 && (at < 0 || other < at):
			out.Above++
		case other < 0 && at < 0:
			out.Ties++
		}
	}
	return out
}

// Devices may drop out of evaluations at every step. The run ends with the model of the simulation, and has an
// evaluation or the reason why not.
func TestEvaluationsSurviveDropoutsAtEveryStep(t *testing.T) {
	t.Parallel()
	split := world(t)
	s := settings(split, "fedmf", "dim", "4")
	s.Rounds, s.EvalEvery, s.Deadline, s.Minimum = 2, 2, 2*time.Second, 1 // training waits for all devices
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	r.run(func(c *fleet.Config) { c.Leave = [4]float64{0.1, 0.1, 0.1, 0.1} }, uint32(s.Rounds))
	same(t, r.newest(), simulated(t, split, s))
	if st := r.status(); len(st.Evaluations) == 0 && st.EvaluationMissed == "" {
		t.Errorf("no evaluation and no reason: %+v", st)
	}
}
