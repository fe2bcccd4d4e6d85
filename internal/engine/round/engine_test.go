package round

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// fake are devices whose sums are made up in advance.
type fake struct {
	users   int
	rep     Report
	err     error
	sum     map[int][]float32
	shrunk  map[int]float64
	touched []uint32
	cohorts [][]uint32
	plan    *local.Plan
}

func (f *fake) Count() int { return f.users }

func (f *fake) Round(_ context.Context, t Task) (Aggregate, Report, error) {
	f.cohorts = append(f.cohorts, slices.Clone(t.Cohort))
	n := len(f.plan.Slots)
	sum := Aggregate{Sums: make([][]float32, n), Shrunk: make([]float64, n), Touched: f.touched}
	for _, i := range f.plan.SentSlots() {
		s := &f.plan.Slots[i]
		sum.Sums[i] = make([]float32, s.Rows*vec.Pad(s.Dim))
		copy(sum.Sums[i], f.sum[i])
		sum.Shrunk[i] = f.shrunk[i]
	}
	return sum, f.rep, f.err
}

// none is a method without a server step of its own.
type none struct {
	method.Method
	slots []method.Slot
}

func (m none) Slots(int) []method.Slot { return m.slots }

func (m none) Visit(int) method.Visit { return method.Visit{} }

func planOf(t testing.TB, m method.Method, rounds int) *local.Plan {
	t.Helper()
	p, err := local.NewPlan(m, local.Options{Items: 3, Rounds: rounds})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const stride = 8

// padded makes padded rows of two numbers.
func padded(xs ...float32) []float32 {
	out := make([]float32, len(xs)/2*stride)
	for i, x := range xs {
		out[i/2*stride+i%2] = x
	}
	return out
}

// A table of three items, a plain slot, one that is only broadcast, a statistic
// and one that never leaves the coordinator.
func slots() []method.Slot {
	return []method.Slot{
		{Name: "item", Scope: method.Shared, PerItem: true, Rows: 3, Dim: 2},
		{Name: "plain", Scope: method.Shared, Rows: 1, Dim: 2},
		{Name: "cast", Scope: method.Shared, Upload: method.Broadcast, Rows: 1, Dim: 2},
		{Name: "stat", Scope: method.Shared, Upload: method.Sum, Rows: 1, Dim: 2},
		{Name: "own", Scope: method.Private, Rows: 1, Dim: 2},
		{Name: "server", Scope: method.Server, Rows: 1, Dim: 2},
	}
}

func engine(t testing.TB, f *fake, mean aggregate.Mean) *Engine {
	t.Helper()
	return engineOf(t, f, mean, none{slots: slots()})
}

func engineOf(t testing.TB, f *fake, mean aggregate.Mean, m method.Method) *Engine {
	t.Helper()
	f.plan = planOf(t, m, 9)
	value := [][]float32{padded(1, 2, 3, 4, 5, 6), padded(7, 8), padded(9, 9), padded(0, 0), padded(5, 5), padded(6, 6)}
	return New(Config{Mean: mean, Server: aggregate.Rule{Kind: "sgd", Rate: 1}}, f.plan, f, value, 0)
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-6*math.Max(1, math.Abs(float64(want[i]))) {
			t.Errorf("%s is %v, want %v", what, got, want)
			return
		}
	}
}

func TestTheMeanChangeIsAdded(t *testing.T) {
	for _, c := range []struct {
		mean        aggregate.Mean
		item, plain []float32
	}{
		{aggregate.PerCohort, padded(1+8/4, 2, 3, 4+4.0/4, 5, 6), padded(7+2.0/4, 8)},
		{aggregate.PerRow, padded(1+8.0/2, 2, 3, 4+4, 5, 6), padded(7+2.0/4, 8)},
		{aggregate.Fixed, padded(1+8.0/10, 2, 3, 4+4.0/10, 5, 6), padded(7+2.0/10, 8)},
	} {
		f := &fake{
			users: 50, rep: Report{Devices: 4}, touched: []uint32{2, 1, 0},
			sum: map[int][]float32{0: padded(8, 0, 0, 4, 0, 0), 1: padded(2, 0), 3: padded(1, 1)},
		}
		e := engine(t, f, c.mean)
		e.Cohort = Cohort{Kind: "count", Count: 10}
		rep, err := e.Step(context.Background())
		if err != nil || rep.Devices != 4 || e.Next != 1 || len(f.cohorts[0]) != 10 {
			t.Errorf("%s: %+v, %v, next round %d, a cohort of %d", c.mean, rep, err, e.Next, len(f.cohorts[0]))
		}
		same(t, string(c.mean)+": the table", e.Value[0], c.item)
		same(t, string(c.mean)+": the plain slot", e.Value[1], c.plain)
		same(t, string(c.mean)+": what is broadcast", e.Value[2], padded(9, 9))
		same(t, string(c.mean)+": a statistic without a server step", e.Value[3], padded(0, 0))
		same(t, string(c.mean)+": the private slot", e.Value[4], padded(5, 5))
		same(t, string(c.mean)+": the server's slot", e.Value[5], padded(6, 6))
	}
}

// Four devices shrank the whole table, by 0.5 in sum: every row of the mean must
// show it, touched or not. The fixed mean divides it as it divides the rest.
func TestShrinkageOfEveryRowIsPartOfTheMean(t *testing.T) {
	for mean, by := range map[aggregate.Mean]float32{
		aggregate.PerCohort: -0.5 / 4, aggregate.PerRow: -0.5 / 4,
		aggregate.Fixed: -0.5 / 10,
	} {
		f := &fake{users: 50, rep: Report{Devices: 4}, touched: make([]uint32, 3), shrunk: map[int]float64{0: -0.5}}
		e := engine(t, f, mean)
		e.Cohort = Cohort{Kind: "count", Count: 10}
		if _, err := e.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		k := 1 + by
		same(t, string(mean)+": the table", e.Value[0], padded(1*k, 2*k, 3*k, 4*k, 5*k, 6*k))
		same(t, string(mean)+": the plain slot", e.Value[1], padded(7, 8))
	}
}

// Devices that each send base*(s-1) for every row, or s alone: the same round.
func TestShrinkingIsSendingTheShrunkTable(t *testing.T) {
	for _, mean := range []aggregate.Mean{aggregate.PerCohort, aggregate.Fixed} {
		dense := &fake{
			users: 50, rep: Report{Devices: 4},
			sum: map[int][]float32{0: padded(-0.5, -1, -1.5, -2, -2.5, -3)},
		}
		lazy := &fake{users: 50, rep: Report{Devices: 4}, shrunk: map[int]float64{0: -0.5}}
		a, b := engine(t, dense, mean), engine(t, lazy, mean)
		for _, e := range []*Engine{a, b} {
			e.Cohort = Cohort{Kind: "count", Count: 10}
			if _, err := e.Step(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		same(t, string(mean)+": the table of lazy devices", b.Value[0], a.Value[0])
	}
}

func TestARoundWithoutDevicesLeavesTheValuesAlone(t *testing.T) {
	for _, rule := range []aggregate.Rule{{Kind: "sgd", Rate: 1}, {Kind: "adam", Rate: 1}} {
		f := &fake{users: 5, rep: Report{Dropped: 5}, sum: map[int][]float32{0: padded(1, 1, 1, 1, 1, 1)}}
		e := engine(t, f, aggregate.PerCohort)
		e.Server = rule
		if _, err := e.Step(context.Background()); err != nil || e.Next != 1 {
			t.Errorf("%s: %v, next round %d, want 1", rule.Kind, err, e.Next)
		}
		same(t, rule.Kind+": the table", e.Value[0], padded(1, 2, 3, 4, 5, 6))
		if e.State[0].Steps != 0 {
			t.Errorf("%s: the rule counts %d steps, want 0", rule.Kind, e.State[0].Steps)
		}
	}
}

func TestTheServerRuleKeepsItsStateFromRoundToRound(t *testing.T) {
	f := &fake{users: 5, rep: Report{Devices: 2}, sum: map[int][]float32{0: padded(2, 0, 0, 0, 0, 0)}}
	e := engine(t, f, aggregate.PerCohort)
	e.Server = aggregate.Rule{Kind: "adam", Rate: 0.1}
	want, st := padded(1, 2, 3, 4, 5, 6), aggregate.State{}
	for range 3 {
		if _, err := e.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		e.Server.Apply(padded(1, 0, 0, 0, 0, 0), &st, want)
	}
	same(t, "after three rounds the table", e.Value[0], want)
	if e.State[0].Steps != 3 || e.State[3].Steps != 0 {
		t.Errorf("steps of the table %d, of the statistic %d; want 3 and 0", e.State[0].Steps, e.State[3].Steps)
	}
}

func TestAnErrorLeavesTheValuesOfTheRoundBefore(t *testing.T) {
	broken := errors.New("the line is down")
	f := &fake{users: 5, rep: Report{Devices: 2}, err: broken, sum: map[int][]float32{0: padded(2, 0, 0, 0, 0, 0)}}
	e := engine(t, f, aggregate.PerCohort)
	if _, err := e.Step(context.Background()); !errors.Is(err, broken) || err.Error() != "round 1: the line is down" ||
		e.Next != 0 {
		t.Errorf("got %v, next round %d", err, e.Next)
	}
	f.err = nil
	e.BeforeUpdate = func(round int) error { return broken }
	if _, err := e.Step(context.Background()); !errors.Is(err, broken) || e.Next != 0 {
		t.Errorf("got %v, next round %d", err, e.Next)
	}
	same(t, "the table", e.Value[0], padded(1, 2, 3, 4, 5, 6))
}

// own has a server step of its own, in phases.
type own struct {
	none
	got []method.Global
}

func (m *own) Phase(round, rounds int) (int, string) { return round*10 + rounds, "any" }

func (m *own) Update(g *method.Global) {
	m.got = append(m.got, *g)
	g.Value[5][0] += g.Aggregate[0][0] // a server slot is its own affair
	g.Value[0][0] = 42
}

func TestAnUpdaterGetsTheSums(t *testing.T) {
	f := &fake{users: 5, rep: Report{Devices: 2}, sum: map[int][]float32{0: padded(8, 0, 0, 4, 0, 0), 3: padded(3, 1)}}
	m := &own{none: none{slots: slots()}}
	e := engineOf(t, f, aggregate.PerCohort, m)
	for range 2 {
		if _, err := e.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	g := m.got[1]
	if g.Round != 1 || g.Rounds != 9 || g.Phase != 19 || g.Items != 3 || g.Devices != 2 || g.Users != 5 ||
		!slices.Equal(g.Stride, []int{8, 8, 8, 8, 8, 8}) {
		t.Errorf("the second round's view is %+v", g)
	}
	same(t, "the sum of the table", g.Aggregate[0], padded(8, 0, 0, 4, 0, 0)) // of this round alone, and not divided
	same(t, "the statistic", g.Aggregate[3], padded(3, 1))
	if g.Aggregate[2] != nil || g.Aggregate[4] != nil || g.Aggregate[5] != nil {
		t.Error("slots of which nothing is sent have a sum")
	}
	same(t, "the table", e.Value[0], padded(42, 2, 3, 4, 5, 6))
	same(t, "the server's slot", e.Value[5], padded(6+16, 6))
}

// gatherer also updates after rounds without reports.
type gatherer struct {
	own
	off bool
}

func (m *gatherer) UpdatesEmptyRounds() bool { return !m.off }

func (m *gatherer) Update(g *method.Global) {
	m.got = append(m.got, *g)
	g.Value[5][0] += g.Aggregate[0][0] + 1
}

func TestAnEmptyUpdaterUpdatesWithoutReports(t *testing.T) {
	sums := map[int][]float32{0: padded(8, 0, 0, 4, 0, 0)}
	for name, rep := range map[string]Report{"nobody came": {}, "discarded": {Devices: 3, Discarded: true}} {
		for _, off := range []bool{false, true} {
			m := &gatherer{own: own{none: none{slots: slots()}}, off: off}
			e := engineOf(t, &fake{users: 5, rep: rep, sum: sums}, aggregate.PerCohort, m)
			if _, err := e.Step(context.Background()); err != nil || e.Next != 1 {
				t.Fatalf("%s: %v, next round %d", name, err, e.Next)
			}
			if off {
				if len(m.got) != 0 {
					t.Errorf("%s: Update is called although UpdatesEmptyRounds is false", name)
				}
				continue
			}
			if len(m.got) != 1 || m.got[0].Devices != 0 || m.got[0].Rounds != 9 {
				t.Fatalf("%s: the updates are %+v, want one of a round of 9 without devices", name, m.got)
			}
			same(t, name+": the server's slot", e.Value[5], padded(7, 6))
			same(t, name+": the sum", m.got[0].Aggregate[0], padded(0, 0, 0, 0, 0, 0))
		}
	}
}

// partial declares which slots it changes.
type partial struct{ own }

func (m *partial) Updates(round, _, slot int) bool { return slot == 5 || slot == 0 && round == 0 }

func (m *partial) Update(g *method.Global) {
	g.Value[5][0] = 3
	if g.Round == 0 {
		g.Value[0][0] = float32(math.Inf(1))
	}
}

// Of a rejected model all slots that the method changes come back; others are not copied.
func TestAPartialUpdaterKeepsOnlyItsSlots(t *testing.T) {
	m := &partial{own: own{none: none{slots: slots()}}}
	e := engineOf(t, &fake{users: 5, rep: Report{Devices: 2}}, aggregate.PerCohort, m)
	for round, rejected := range []bool{true, false} {
		rep, err := e.Step(context.Background())
		if err != nil || (rep.Rejected != "") != rejected {
			t.Fatalf("round %d: %+v, %v", round, rep, err)
		}
		if len(e.kept.value[1]) != 0 || len(e.kept.value[5]) == 0 || (len(e.kept.value[0]) != 0) != (round == 0) {
			t.Errorf("round %d keeps %v", round, e.kept.value)
		}
		want := padded(3, 6)
		if rejected {
			want = padded(6, 6)
		}
		same(t, "the server's slot", e.Value[5], want)
		same(t, "the table", e.Value[0], padded(1, 2, 3, 4, 5, 6))
	}
}

// A round whose sum makes the model implausible has no usable reports.
func TestAnEmptyUpdaterUpdatesAfterARejection(t *testing.T) {
	m := &gatherer{own: own{none: none{slots: slots()}}}
	f := &fake{users: 5, rep: Report{Devices: 2}, sum: map[int][]float32{0: padded(float32(math.Inf(1)), 0)}}
	e := engineOf(t, f, aggregate.PerCohort, m)
	rep, err := e.Step(context.Background())
	if err != nil || rep.Rejected == "" || !rep.Discarded || len(m.got) != 2 {
		t.Fatalf("%+v, %v, %d updates; want a rejection and 2 updates", rep, err, len(m.got))
	}
	same(t, "the server's slot", e.Value[5], padded(7, 6))
}

func TestACohortIsDrawnForEachRound(t *testing.T) {
	f := &fake{users: 40, rep: Report{Devices: 1}}
	e := engine(t, f, aggregate.PerCohort)
	e.Cohort, e.Seed = Cohort{Kind: "count", Count: 5}, 3
	for round := range 4 {
		if _, err := e.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		if want := e.Cohort.Draw(3, round, 40, nil); !slices.Equal(f.cohorts[round], want) {
			t.Errorf("round %d visits %v, want %v", round, f.cohorts[round], want)
		}
	}
}
