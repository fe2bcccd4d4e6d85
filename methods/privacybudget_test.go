package methods_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/methods/internal/testworld"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/sim"
)

// budgeted returns the methods for differential privacy, with small settings.
func budgeted(t *testing.T) map[string]method.Method {
	small := []string{"head-items=20", "rank=6"}
	return map[string]method.Method{
		"oneshot":        with(t, &methods.OneShot{}, append(small, "flat=0.4")...),
		"norm-grad":      with(t, &methods.NormGrad{}, "dim=5"),
		"norm-grad-next": with(t, &methods.NormGradNext{}, "dim=5"),
		"tacit-private":  with(t, &methods.TacitPrivate{}, append(small, "dim=5")...),
	}
}

// device is a device with a privacy bound whose coordinator sends arbitrary values.
type device struct {
	*local.Worker
	plan *local.Plan
	mem  *local.Memory
}

func newDevice(t *testing.T, m method.Method, items int, wild float64) *device {
	t.Helper()
	p, err := local.NewPlan(m, local.Options{
		Items: items, Users: 9, Negatives: 3, Rounds: 4, Batch: 32, Seed: 1,
		Integers: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	mem.SetBound(privacy.Bound{Clip: 1, Levels: 1 << 20})
	r := rng.New(rng.Test, 3)
	for i := range p.Slots {
		if p.Slots[i].Scope != method.Shared || wild == 0 {
			continue
		}
		// a matrix that can be inverted
		if name := p.Slots[i].Name; (name == "gram" || name == "g-gram") && !p.Slots[i].Sparse {
			for k := range p.Slots[i].Rows {
				mem.Value(i)[k*8+k] = float32(float64(wild * wild))
			}
			continue
		} else if name != "place" {
			for k := range mem.Value(i) {
				mem.Value(i)[k] = float32(wild * r.Norm())
			}
			continue
		}
		for id := range items { // positions in the head are valid, weights are arbitrary
			row := mem.Value(i)[id*8:]
			if row[0] = 0; id < 20 {
				row[0], row[1] = float32(id+1), float32(wild*math.Abs(r.Norm()))
			}
		}
	}
	return &device{local.NewWorker(mem, 0), p, mem}
}

func (l *device) send(train []uint32, user uint32, round int) (local.Outcome, []int64) {
	state, flat := l.mem.NewState(nil), make([]int64, l.plan.UpdateLength(round)+1)
	out := l.Visit(&state, &local.Task{Device: user, Round: round, Train: train}, 0, false)
	l.mem.TakeSum(flat)
	return out, flat
}

func extremes(items int) map[string][]uint32 {
	out := map[string][]uint32{"none": nil, "one": {3}, "one outside the head": {35}, "some": {1, 30, 2, 19, 4}}
	for k := range 5000 {
		out["one, often"] = append(out["one, often"], 7)
		out["all but one, often"] = append(out["all but one, often"], uint32(k%(items-1)))
	}
	for i := range items {
		out["all"] = append(out["all"], uint32(i))
	}
	return out
}

// For any history and any download, the update has norm 1 or 0 before clipping, in every
// phase, and the norm of the integers that are sent is at most the sensitivity.
func TestUpdateNormIsAtMostOneForAnyHistory(t *testing.T) {
	const items = 40
	for name, m := range budgeted(t) {
		for _, wild := range []float64{1e-12, 1, 1e12} {
			l := newDevice(t, m, items, wild)
			for what, train := range extremes(items) {
				for round := range 3 {
					out, flat := l.send(train, 1, round)
					if out.Norm != 0 && math.Abs(out.Norm-1) > 1e-5 {
						t.Errorf("%s, values around %g, round %d, history %q: the update has norm %g, want 1 "+
							"or 0", name, wild, round+1, what, out.Norm)
					}
					if what == "some" && wild == 1 && out.Norm == 0 {
						t.Errorf("%s, round %d: the update is empty", name, round+1)
					}
					square, n := 0.0, l.plan.UpdateLength(round)
					for _, x := range flat[:n] {
						square += float64(x) * float64(x)
					}
					b := privacy.Bound{Clip: 1, Levels: 1 << 20}
					if got, most := math.Sqrt(square), b.Sensitivity(n); got > most {
						t.Errorf("%s, round %d, history %q: integers have norm %.0f, the sensitivity is %.0f",
							name, round+1, what, got, most)
					}
				}
			}
		}
	}
}

// Removing one device changes the sum by at most the sensitivity.
func TestOneDeviceChangesTheSumByAtMostTheSensitivity(t *testing.T) {
	const items, users, gone = 40, 9, 4
	r := rng.New(rng.Test, 8)
	train := make([][]uint32, users)
	for u := range train {
		for range 1 + r.Uint32n(60) {
			train[u] = append(train[u], r.Uint32n(items-1))
		}
	}
	for name, m := range budgeted(t) {
		for round := range 3 {
			l := newDevice(t, m, items, 1)
			n := l.plan.UpdateLength(round)
			diff := make([]int64, n+1)
			for _, sign := range []int64{1, -1} {
				for u, own := range train {
					if sign < 0 && u == gone {
						own = nil
					}
					_, flat := l.send(own, uint32(u), round)
					for i, x := range flat {
						diff[i] += sign * x
					}
				}
			}
			square := 0.0
			for _, x := range diff {
				square += float64(x) * float64(x)
			}
			b := privacy.Bound{Clip: 1, Levels: 1 << 20}
			if got, most := math.Sqrt(square), b.Sensitivity(n); got > most || got < 0.99*b.Levels {
				t.Errorf("%s, round %d: the sum changes by %.0f, want about %.0f and at most %.0f", name, round+1,
					got, b.Levels, most)
			}
		}
	}
}

// Once a worker has trained on a history of the same size, local training allocates nothing.
func TestPrivateLocalTrainingDoesNotAllocate(t *testing.T) {
	for name, m := range budgeted(t) {
		l := newDevice(t, m, 40, 1)
		state, round := l.mem.NewState(nil), 0
		task := &local.Task{Train: []uint32{1, 30, 2, 19, 4}}
		visit := func() {
			task.Round = round % 3
			round++
			l.Visit(&state, task, 0, false)
		}
		for range 6 {
			visit()
		}
		if n := testing.AllocsPerRun(30, visit); n != 0 {
			t.Errorf("%s: local training allocates %g times", name, n)
		}
	}
}

func smallWorld(t *testing.T) *data.Split {
	t.Helper()
	s := &data.Set{NumItems: 60, Start: []int{0}, Meta: data.Info{Name: "groups", TimeKind: data.OrderOnly}}
	for u := range 90 {
		r := rng.New(rng.Test, uint64(u), 77)
		for k := range 12 {
			s.Item = append(s.Item, (r.Uint32n(20)*3+uint32(u)%3)%60)
			s.Time = append(s.Time, int64(k))
		}
		s.Start = append(s.Start, len(s.Item))
	}
	return testworld.Deployed(t, s)
}

func budgetRun(t *testing.T, split *data.Split, m method.Method, dp string, rounds, jobs int) (*sim.Run, error) {
	t.Helper()
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.Negatives = rounds, 1
	if err := o.DP.UnmarshalText([]byte(dp)); err != nil {
		t.Fatal(err)
	}
	return sim.New(m, split, o, 1, jobs)
}

func toTheEnd(r *sim.Run) error {
	var err error
	for err == nil && !r.Done() {
		_, err = r.Step(context.Background())
	}
	return err
}

// The ledger of a complete run costs the requested epsilon to four digits, and not more.
// A run that is interrupted and resumed with another number of workers spends the same and
// ends with the same bits.
func TestRunSpendsItsPrivacyBudgetExactly(t *testing.T) {
	split := smallWorld(t)
	kinds := map[string]int{"oneshot": 2, "norm-grad": 1, "norm-grad-next": 1, "tacit-private": 3}
	for name, m := range budgeted(t) {
		one, err := budgetRun(t, split, m, "epsilon=3,delta=1e-4", 5, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := toTheEnd(one); err != nil {
			t.Fatal(err)
		}
		spent, _, err := one.Spent()
		if err != nil || spent.Epsilon > 3 || spent.Epsilon < 2.999 || one.RoundsRun() != 5 ||
			string(spent.Accountant) != "exact" {
			t.Errorf("%s: %d rounds cost %v by %s (%v), want 5 that cost 3", name, one.RoundsRun(), spent.Epsilon,
				spent.Accountant, err)
		}
		if got := len(one.Ledger().Events()); got != kinds[name] {
			t.Errorf("%s: the ledger has %d kinds of events, want %d", name, got, kinds[name])
		}
		var file bytes.Buffer
		half, _ := budgetRun(t, split, m, "epsilon=3,delta=1e-4", 5, 3)
		for range 2 {
			if _, err := half.Step(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		again, _ := budgetRun(t, split, m, "epsilon=3,delta=1e-4", 5, 2)
		if err := errors.Join(half.Save(&file, "x"), again.Load(&file, "x"), toTheEnd(again)); err != nil {
			t.Fatal(err)
		}
		if paid, _, err := again.Spent(); err != nil || paid.Epsilon != spent.Epsilon ||
			again.Digest() != one.Digest() {
			t.Errorf("%s: resumed, it spent %v (%v) and has the digest %s; want %v and %s", name, paid.Epsilon, err,
				again.Digest(), spent.Epsilon, one.Digest())
		}
	}
}

// Secure aggregation with distributed noise works in every phase.
func TestDistributedTrustWorksInEveryPhase(t *testing.T) {
	split := smallWorld(t)
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.Negatives, o.Secagg, o.EvalEvery = 3, 1, "on", 1000
	err := errors.Join(o.DP.UnmarshalText([]byte("epsilon=8,delta=1e-4,trust=distributed,min-devices=8")),
		o.Cohort.UnmarshalText([]byte("16")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.New(budgeted(t)["tacit-private"], split, o, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := toTheEnd(r); err != nil {
		t.Fatal(err)
	}
	if spent, _, err := r.Spent(); err != nil || spent.Epsilon > 8 || spent.Epsilon < 7.99 || r.Discarded > 0 {
		t.Errorf("the run spent %v (%v), and %d rounds were discarded", spent.Epsilon, err, r.Discarded)
	}
}

// With epsilon 10 and few users each method beats popularity on real data. One standard
// error of HR@10 is .016 here.
func TestPrivateMethodsBeatPopularityAtEpsilonTen(t *testing.T) {
	if os.Getenv("TACIT_DATA") == "" {
		t.Skip("$TACIT_DATA is not set: the test requires ml-100k")
	}
	var s experiment.Settings
	s.Data, s.MinRows, s.Dedup, s.Header = "ml-100k", 3, "none", "auto"
	src, err := experiment.OpenData(&s, os.Getenv("TACIT_DATA"))
	if err != nil {
		t.Fatal(err)
	}
	split := testworld.Deployed(t, src)
	for name, m := range map[string]method.Method{
		"oneshot":        with(t, &methods.OneShot{}, "head-items=500"),
		"norm-grad":      with(t, &methods.NormGrad{}),
		"norm-grad-next": with(t, &methods.NormGradNext{}),
	} {
		rounds := map[string]int{"oneshot": 2, "norm-grad": 10, "norm-grad-next": 10}[name]
		r, err := budgetRun(t, split, m, "epsilon=10", rounds, 2)
		if err != nil {
			t.Fatal(err)
		}
		r.EvalEvery = 1000
		if err := toTheEnd(r); err != nil {
			t.Fatal(err)
		}
		valid, _ := r.Best.Summaries(r.TieRule(), split.Items())
		if hr := valid.Sampled["hr@10"]; hr < 0.48 { // popularity has .41 on test
			t.Errorf("%s: HR@10 on validation is %.3f, want at least .48", name, hr)
		}
	}
}

func TestPrivateMethodsRejectInvalidSettings(t *testing.T) {
	for _, c := range []struct {
		m     method.Method
		words []string
	}{
		{&methods.OneShot{}, []string{"count-share=0"}},
		{&methods.OneShot{}, []string{"rank=0"}},
		{&methods.OneShot{}, []string{"fade=1.5"}},
		{&methods.NormGrad{}, []string{"lr=0"}},
		{&methods.NormGrad{}, []string{"boost=0", "base=0"}},
		{&methods.TacitPrivate{}, []string{"grad-share=1"}},
		{&methods.TacitPrivate{}, []string{"blend=2"}},
		{&methods.TacitPrivate{}, []string{"reg=0"}},
	} {
		if err := method.Check(with(t, c.m, c.words...)); err == nil {
			t.Errorf("%T with %v is accepted", c.m, c.words)
		}
	}
	if !slices.ContainsFunc(methods.Default().Entries(),
		func(e method.Entry) bool { return e.Name == "tacit-private" }) {
		t.Error("tacit-private is not registered")
	}
}
