package account

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func wor(q, z float64, rounds int64) Event {
	return Event{
		Mechanism: Gaussian, Adjacency: ReplaceOne, Sampler: WithoutReplacement, Q: q, Noise: z,
		Rounds: rounds,
	}
}

func TestPairsWithoutATheoremAreRefused(t *testing.T) {
	with := func(e Event, change func(*Event)) Event {
		change(&e)
		return e
	}
	for _, c := range []struct {
		e    Event
		want string
	}{
		{with(sgm(0.1, 1, 1), func(e *Event) { e.Adjacency = ReplaceOne }), "use adjacency zero-out"},
		{with(wor(0.1, 1, 1), func(e *Event) { e.Adjacency = ZeroOut }), "use adjacency replace-one"},
		{with(wor(0.1, 1, 1), func(e *Event) { e.Adjacency = AddRemove }), "or sampler poisson with add-remove"},
		{with(sgm(0.1, 1, 1), func(e *Event) { e.Mechanism = Laplace }), "use sampler none"},
		{with(sgm(0.1, 1, 1), func(e *Event) { e.Sampler = None }), "name the sampler"},
		{with(sgm(0.1, 1, 1), func(e *Event) { e.Adjacency = "" }), "an epsilon without one means nothing"},
		{with(sgm(0.1, 1, 1), func(e *Event) { e.Sampler = "" }), "must be poisson, wor or none"},
		{with(sgm(0.1, 1, 1), func(e *Event) { e.Mechanism = "noise" }), "must be gaussian"},
		{with(wor(0.1, 1, 1), func(e *Event) { e.Theorem = 8 }), "must be 9 or 27"},
		{sgm(1.1, 1, 1), "must be 0 to 1"},
		{sgm(math.NaN(), 1, 1), "must be 0 to 1"},
		{sgm(0.1, -1, 1), "must be 0 or more"},
		{sgm(0.1, math.NaN(), 1), "must be 0 or more"},
		{sgm(0.1, 1, -1), "rounds=-1"},
		{
			Event{Mechanism: Tree, Adjacency: AddRemove, Sampler: None, Noise: 1, Nodes: 5, Rounds: 1},
			"use adjacency zero-out",
		},
	} {
		if _, err := Epsilon(1e-6, Options{}, c.e); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q in it", c.e, err, c.want)
		}
	}
	if _, err := Epsilon(1e-6, Options{Accountant: PLD}, wor(0.1, 1, 10)); err == nil || !strings.Contains(err.Error(),
		"use accountant rdp") {
		t.Errorf("PLD without replacement: %v", err)
	}
	if _, err := Epsilon(1e-6, Options{Accountant: Exact}, sgm(0.1, 1, 10)); err == nil ||
		!strings.Contains(err.Error(), "use accountant rdp or pld") {
		t.Errorf("exact of a sample: %v", err)
	}
	if _, err := Epsilon(1e-6, Options{}, sgm(0.1, 1, 1), wor(0.1, 1, 1)); err == nil || !strings.Contains(err.Error(),
		"one epsilon has one adjacency") {
		t.Errorf("two adjacencies: %v", err)
	}
	for _, o := range []Options{
		{Orders: []float64{1}},
		{Orders: []float64{3, 2}},
		{Orders: []float64{}},
		{Orders: []float64{math.NaN()}},
		{Orders: []float64{1e9}},
		{Conversion: "best"},
		{Accountant: "guess"},
	} {
		if _, err := Epsilon(1e-6, o, sgm(0.1, 1, 1)); err == nil {
			t.Errorf("options %+v are not refused", o)
		}
	}
}

func TestExtremesGiveANumberOrInfinity(t *testing.T) {
	inf := math.Inf(1)
	gauss := func(z float64) Event {
		return Event{Mechanism: Gaussian, Adjacency: ZeroOut, Sampler: None, Noise: z, Rounds: 1}
	}
	pure := Event{Mechanism: Pure, Adjacency: ZeroOut, Sampler: None, Epsilon: 0.25, Rounds: 4}
	for _, c := range []struct {
		name  string
		e     Event
		delta float64
		want  float64
	}{
		{"nobody is sampled", sgm(0, 1, 1e9), 1e-6, 0},
		{"nobody is sampled, no noise", sgm(0, 0, 1e9), 0, 0},
		{"no rounds", sgm(0.5, 0, 0), 0, 0},
		{"no noise", sgm(0.01, 0, 1), 1e-6, inf},
		{"no noise, all delta", sgm(0.01, 0, 1), 1, 0},
		{"all noise", sgm(1, inf, 1e9), 0, 0},
		{"no delta", gauss(5), 0, inf},
		{"no delta, sampled", sgm(0.1, 5, 10), 0, inf},
		{"pure, no delta", pure, 0, 1},
		{"noise too small to square", gauss(1e-200), 1e-6, inf},
		{"noise too large to matter", gauss(1e200), 1e-6, 0},
	} {
		for _, o := range []Options{{}, {Conversion: Classic}, {Accountant: PLD}} {
			r := epsilonOf(t, c.delta, o, c.e)
			if r.Epsilon != c.want && !(o.Conversion == Classic && c.want == 0 && r.Epsilon < 1e-3) {
				t.Errorf("%s, %+v: epsilon %g, want %g", c.name, o, r.Epsilon, c.want)
			}
		}
	}
	for _, delta := range []float64{-1, 1.1, math.NaN(), inf} {
		if _, err := Epsilon(delta, Options{}, gauss(1)); err == nil {
			t.Errorf("delta %v is not refused", delta)
		}
	}
}

func TestMoreRoundsAndUsersCostMoreAndNoiseCostsLess(t *testing.T) {
	for _, o := range []Options{{}, {Conversion: Classic}, {Accountant: PLD}} {
		for _, sampler := range []Sampler{Poisson, WithoutReplacement} {
			if o.Accountant == PLD && sampler != Poisson {
				continue
			}
			eps := func(q, z float64, rounds int64) float64 {
				e := sgm(q, z, rounds)
				if sampler == WithoutReplacement {
					e = wor(q, z, rounds)
				}
				return epsilonOf(t, 1e-6, o, e).Epsilon
			}
			last := [3]float64{0, 0, math.Inf(1)}
			for i := range 6 {
				x := math.Pow(3, float64(i))
				got := [3]float64{eps(0.01, 1, int64(x)), eps(0.002*x, 2, 20), eps(0.05, 0.4*x, 20)}
				if got[0] < last[0] || got[1] < last[1] || got[2] > last[2] {
					t.Errorf("%+v %s: step %d gives %v after %v; want up, up, down", o, sampler, i, got, last)
				}
				last = got
			}
		}
	}
}

func TestSpentIsTheSumOfItsEvents(t *testing.T) {
	var s Spent
	for range 500 {
		for _, e := range []Event{sgm(0.01, 1, 1), sgm(0.02, 1.5, 1)} {
			if err := s.Spend(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := s.Epsilon(1e-6)
	if err != nil {
		t.Fatal(err)
	}
	want := epsilonOf(t, 1e-6, Options{}, sgm(0.01, 1, 500), sgm(0.02, 1.5, 500))
	if got.Epsilon != want.Epsilon || got.Rounds != 1000 || !got.Mixed || len(got.Events) != 2 {
		t.Errorf("round by round %+v, at once %+v", got, want)
	}
	if err := s.Spend(wor(0.1, 1, 1)); err == nil {
		t.Error("another adjacency was added")
	}
	if err := s.Spend(sgm(0.01, 1, math.MaxInt64)); err == nil {
		t.Error("a count that overflows was added")
	}
	after, err := s.Epsilon(1e-6)
	if err != nil || after.Epsilon != got.Epsilon {
		t.Errorf("refused events changed the sum: %g, %v", after.Epsilon, err)
	}
	s.Options = Options{Orders: integers(2, 64), Conversion: Classic}
	if other, err := s.Epsilon(1e-6); err != nil || other.Epsilon <= got.Epsilon {
		t.Errorf("other options give %g, %v; want above %g", other.Epsilon, err, got.Epsilon)
	}
}

func TestWarnsIfTheBestOrderIsAtAnEnd(t *testing.T) {
	if r := epsilonOf(t, 1e-6, Options{Orders: integers(2, 8)}, sgm(0.001, 2, 10)); len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0], "highest") {
		t.Errorf("the highest order is best, and the warnings are %q", r.Warnings)
	}
	if r := epsilonOf(t, 1e-6, Options{Orders: integers(30, 64)}, sgm(0.1, 1, 1000)); len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0], "lowest") {
		t.Errorf("the lowest order is best, and the warnings are %q", r.Warnings)
	}
	// A release of very little has its best order beyond 10^4.
	r := epsilonOf(t, 1e-6, Options{Conversion: Classic}, sgm(1e-5, 50, 10))
	if r.Order < 1<<14 || r.Epsilon > 0.002 {
		t.Errorf("very little: epsilon %g at order %g", r.Epsilon, r.Order)
	}
}

func TestResultsNameTheirAssumptions(t *testing.T) {
	b, err := json.Marshal(epsilonOf(t, 1e-6, Options{}, sgm(0.01, 0, 10)))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"accountant":"rdp","adjacency":"zero-out","conversion":"improved","delta":0.000001,"epsilon":"inf","mechanism":"gaussian","noise":0,"order":null,"q":0.01,"rounds":10,"sampler":"poisson"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	r := epsilonOf(t, 1e-6, Options{Accountant: PLD}, Event{
		Mechanism: Gaussian, Adjacency: ReplaceOne, Sampler: None,
		Noise: 2, Rounds: 4,
	})
	if r.Accountant != Exact || r.Conversion != Direct || r.Sampler != "none" || r.Q != 1 {
		t.Errorf("plain Gaussians by PLD: %+v", r)
	}
}

func TestCalibrationIsRoundedToTheSafeSide(t *testing.T) {
	for _, o := range []Options{{}, {Conversion: Classic}, {Accountant: PLD}} {
		for _, target := range []float64{0.3, 8} {
			if o.Accountant == PLD && target < 1 {
				continue // dear, and nothing new
			}
			build := func(z float64) []Event { return []Event{sgm(0.1, z, 30)} }
			z, r, err := Calibrate(target, 1e-6, o, build)
			if err != nil {
				t.Fatal(err)
			}
			if r.Epsilon > target || r.Epsilon < target*0.999 {
				t.Errorf("%+v: noise %g has epsilon %g, want just below %g", o, z, r.Epsilon, target)
			}
			if short := math.Round(z*1e6) / 1e6; math.Abs(short-z) > 1e-9 {
				t.Errorf("noise %v is not rounded", z)
			}
			if less := epsilonOf(t, 1e-6, o, build(z*0.9995)...); less.Epsilon <= target {
				t.Errorf("%+v: noise %g would have been enough", o, z*0.9995)
			}
		}
	}
	if _, _, err := Calibrate(0.5, 0, Options{}, func(z float64) []Event {
		return []Event{sgm(0.01, z,
			10)}
	}); err == nil || !strings.Contains(err.Error(), "raise the target") {
		t.Errorf("what no noise reaches: %v", err)
	}
	for _, target := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, _, err := Calibrate(target, 1e-6, Options{}, func(z float64) []Event { return nil }); err == nil {
			t.Errorf("target %v is not refused", target)
		}
	}
}
