package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// told is what a round says, without the times.
func told(events []Event) (out []Event) {
	for _, e := range events {
		e.TrainMS, e.EvalMS = 0, 0
		out = append(out, e)
	}
	return out
}

func TestSameBitsForAnyNumberOfWorkers(t *testing.T) {
	type build struct {
		name  string
		m     func() method.Method
		split *data.Split
		o     func(o *Options)
	}
	lazy := split(t, world(t, "users=40,items=90,mean-rows=12"), "deployed")
	own := func() method.Method { return pfedrec(t, "dim", "6") }
	for _, c := range []build{
		{"plain", own, small(t, "paper"), func(*Options) {}},
		{
			"the coordinator's table", func() method.Method { return pfedrec(t, "infer", "global", "dim", "6") },
			small(t, "temporal"), func(o *Options) { o.EvalUsers = 20 },
		},
		{
			"strangers", func() method.Method { return pfedrec(t, "infer", "random", "dim", "6") },
			small(t, "isolated"),
			func(o *Options) { o.Dropout = 0.2 },
		},
		{"a generated world", own, lazy, func(o *Options) { o.Cohort = round.Cohort{Kind: "poisson", Share: 0.4} }},
		{"mean by row, Adam, drop-outs", own, small(t, "deployed"), func(o *Options) {
			o.Mean, o.Server, o.Dropout, o.Straggle = "row", aggregate.Rule{Kind: "adam", Rate: 0.1}, 0.2, 0.2
		}},
		{"decay and three passes", func() method.Method {
			return pfedrec(t, "decay", "0.00001", "epochs", "3", "dim",
				"6")
		}, small(t, "paper"), func(o *Options) {
			o.Cohort = round.Cohort{Kind: "count", Count: 17}
		}},
		{"private tables", func() method.Method {
			m := &methods.Local{}
			configure(t, m, "dim", "6")
			return m
		}, small(t, "deployed"), func(*Options) {}},
		{
			"rounded private tables", func() method.Method { return fedrap(t, "dim", "6") }, small(t, "deployed"),
			func(o *Options) { o.Keep = "int8" },
		},
	} {
		o := defaults()
		o.Rounds, o.Batch = 4, 32
		c.o(&o)
		one := start(t, c.m(), c.split, o, 1)
		want := told(finish(t, one))
		for _, jobs := range []int{2, 5} {
			r := start(t, c.m(), c.split, o, jobs)
			got := told(finish(t, r))
			if a, b := one.Digest(), r.Digest(); a != b {
				t.Errorf("%s: the digest with 1 worker is %.12s, with %d it is %.12s", c.name, a, jobs, b)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: with %d workers the events are\n%+v\nwant\n%+v", c.name, jobs, got, want)
			}
		}
	}
}

func TestAnotherSeedIsAnotherRun(t *testing.T) {
	o := defaults()
	o.Rounds = 1
	a := start(t, pfedrec(t), small(t, "paper"), o, 2)
	b, err := New(pfedrec(t), small(t, "paper"), o, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	finish(t, a)
	finish(t, b)
	if a.Digest() == b.Digest() {
		t.Error("seeds 1 and 2 end with the same bits")
	}
}

// Both shares are drawn per device and round. 40 devices in 60 rounds: five standard
// deviations are passed by chance once in 800,000 seeds for either count.
func TestDropOutsAndStragglersAreAsManyAsAsked(t *testing.T) {
	o := defaults()
	o.Rounds, o.Dropout, o.Straggle, o.EvalEvery = 60, 0.25, 0.1, 100
	r := start(t, pfedrec(t, "dim", "4"), small(t, "paper"), o, 2)
	dropped, late := 0, 0
	for _, e := range finish(t, r) {
		if e.Devices+e.Dropped+e.Late != 40 {
			t.Fatalf("round %d: %d devices, %d dropped, %d late, want 40 in all", e.Round, e.Devices, e.Dropped, e.Late)
		}
		dropped, late = dropped+e.Dropped, late+e.Late
	}
	for what, c := range map[string][3]float64{
		"dropped": {float64(dropped), 2400, 0.25},
		"late":    {float64(late), float64(2400 - dropped), 0.1},
	} {
		if z := (c[0] - c[1]*c[2]) / math.Sqrt(c[1]*c[2]*(1-c[2])); math.Abs(z) > 5 {
			t.Errorf("%g of %g are %s, want a share of %g: %.1f standard deviations off", c[0], c[1], what, c[2], z)
		}
	}
	if r.Dropped != dropped || r.Late != late || r.Devices != 2400-dropped-late {
		t.Errorf("the run has counted %d dropped, %d late and %d devices", r.Dropped, r.Late, r.Devices)
	}
	visits := 0
	for u := range r.fleet.state {
		visits += int(r.fleet.state[u].Visits)
	}
	if visits != 2400-dropped {
		t.Errorf("%d visits were made, want %d: a late device was visited, a dropped one not", visits, 2400-dropped)
	}
}

// almost is a share that everybody falls under.
const almost = 1 - 1e-12

func TestDropoutsDoNotTrainAndLateDevicesDoNotCount(t *testing.T) {
	for what, c := range map[string]struct {
		o      func(o *Options)
		visits uint32
	}{
		"dropped": {func(o *Options) { o.Dropout = almost }, 0},
		"late":    {func(o *Options) { o.Straggle = almost }, 3},
	} {
		o := defaults()
		o.Rounds = 3
		c.o(&o)
		r := start(t, pfedrec(t, "dim", "4"), small(t, "paper"), o, 2)
		table, state := slices.Clone(r.engine.Value[0]), slices.Clone(r.fleet.state[7].Plain)
		for _, e := range finish(t, r) {
			if e.Devices != 0 || e.BytesUp != 0 || e.Samples != 0 {
				t.Errorf("all %s: %d devices, %d bytes, %d samples count, want none", what, e.Devices, e.BytesUp,
					e.Samples)
			}
		}
		if !slices.Equal(r.engine.Value[0], table) {
			t.Errorf("all %s: the shared table has changed", what)
		}
		if got := r.fleet.state[7]; got.Visits != c.visits || slices.Equal(got.Plain, state) != (c.visits == 0) {
			t.Errorf("all %s: a device has %d visits, want %d, and a state to match", what, got.Visits, c.visits)
		}
	}
}

func TestADivergingRateIsAnErrorAndNotACrash(t *testing.T) {
	for _, protocol := range []string{"paper", "deployed"} {
		for _, settings := range [][]string{
			{"lr", "1e30"},
			{"lr", "1e30", "infer", "global"},
			{"lr", "1e30", "infer", "random"},
			{"lr", "1e18", "epochs", "2"},
		} {
			o := defaults()
			o.Rounds = 20
			r := start(t, pfedrec(t, settings...), small(t, protocol), o, 2)
			var err error
			var e Event
			for err == nil && !r.Done() {
				e, err = r.Step(context.Background())
			}
			if !errors.Is(err, ErrDiverged) {
				t.Errorf("%s, %v: got %v, want ErrDiverged", protocol, settings, err)
			}
			if e.Test != nil && e.Test.Sampled["hr@10"] > 0.6 {
				t.Errorf("%s, %v: a model of no numbers has HR@10 %g", protocol, settings, e.Test.Sampled["hr@10"])
			}
		}
	}
}

func TestARoundIsEvaluatedWhenItIsItsTurn(t *testing.T) {
	for _, settings := range [][]string{nil, {"infer", "global"}, {"infer", "random"}} {
		o := defaults()
		o.Rounds, o.EvalEvery = 7, 3
		r := start(t, pfedrec(t, settings...), small(t, "deployed"), o, 2)
		var turns []int
		for _, e := range finish(t, r) {
			if e.Valid != nil {
				turns = append(turns, e.Round)
				if e.Valid.Sampled["users"] != 40 || e.Test.Full["users"] != 40 {
					t.Errorf("%v: round %d is of %g and %g users, want 40", settings, e.Round,
						e.Valid.Sampled["users"], e.Test.Full["users"])
				}
			}
		}
		if !slices.Equal(turns, []int{3, 6, 7}) {
			t.Errorf("%v: rounds %v are evaluated, want 3, 6 and the last", settings, turns)
		}
	}
}

// What is measured must not depend on how often: a device that sits a round out
// stands where its last visit left it.
func TestLastRoundDoesNotDependOnEvalEvery(t *testing.T) {
	for name, set := range map[string]func(o *Options){
		"everyone": func(*Options) {},
		"dropouts": func(o *Options) { o.Dropout = 0.5 },
		"a cohort": func(o *Options) { o.Cohort = round.Cohort{Kind: "count", Count: 9} },
	} {
		var want *Ranks
		for _, every := range []int{1, 2, 5, 100} {
			o := defaults()
			o.Rounds, o.EvalEvery = 5, every
			set(&o)
			r := start(t, pfedrec(t, "dim", "8"), small(t, "deployed"), o, 2)
			finish(t, r)
			if want == nil {
				want = r.eval.now
			}
			if !reflect.DeepEqual(r.eval.now, want) {
				t.Errorf("%s: looking every %d rounds the last round is measured differently", name, every)
			}
		}
	}
}

func TestAbsentUsersKeepTheirRanks(t *testing.T) {
	o := defaults()
	o.Rounds, o.Cohort = 6, round.Cohort{Kind: "count", Count: 8}
	r := start(t, pfedrec(t, "dim", "8"), small(t, "deployed"), o, 2)
	for u, p := range r.eval.now.Test {
		if p.Above == metrics.NotRanked {
			t.Fatalf("user %d has no place before the first round, want that of a device as it was born", u)
		}
	}
	for t0 := range o.Rounds {
		before := newPlaces(r.fleet.split)
		r.eval.now.copyTo(before)
		e := step(t, r)
		if e.Test.Sampled["users"] != 40 {
			t.Errorf("round %d measures %g users, want all 40", e.Round, e.Test.Sampled["users"])
		}
		cohort := o.Cohort.Draw(1, t0, 40, nil)
		moved := 0
		for u := range uint32(40) {
			same := before.Test[u] == r.eval.now.Test[u] && before.ValidFull[u] == r.eval.now.ValidFull[u] &&
				slices.Equal(before.Top[u*topK:(u+1)*topK], r.eval.now.Top[u*topK:(u+1)*topK])
			if !same {
				moved++
			}
			if !same && !slices.Contains(cohort, u) {
				t.Errorf("round %d: user %d was not visited and has moved", e.Round, u)
			}
		}
		if moved == 0 {
			t.Errorf("round %d: nobody of the cohort has moved", e.Round)
		}
	}
}

func TestEvalUsersMeasuresASubsetDrawnOnce(t *testing.T) {
	measured := func(seed uint64, settings ...string) (users []int) {
		o := defaults()
		o.Rounds, o.EvalUsers = 2, 11
		r, err := New(pfedrec(t, settings...), small(t, "deployed"), o, seed, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range finish(t, r) {
			if e.Test.Sampled["users"] != 11 || e.Valid.Full["users"] != 11 {
				t.Fatalf("%g users are measured, want 11", e.Test.Sampled["users"])
			}
		}
		for u, p := range r.Best.Test {
			if p.Above != metrics.NotRanked {
				users = append(users, u)
			}
		}
		return users
	}
	a, b, c := measured(1), measured(1, "infer", "global"), measured(2)
	if len(a) != 11 || !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("users %v, for another table %v, for another seed %v; want the same, and others", a, b, c)
	}
	o := defaults()
	o.Rounds, o.EvalUsers = 1, 1000
	r := start(t, pfedrec(t), small(t, "paper"), o, 1)
	if e := step(t, r); e.Test.Sampled["users"] != 40 {
		t.Errorf("of 1000 users asked for %g are measured, want the 40 there are", e.Test.Sampled["users"])
	}
}

func TestTheSelectedRoundIsTheLatestOfTheBestByValidation(t *testing.T) {
	o := defaults()
	o.Rounds = 12
	r := start(t, pfedrec(t), small(t, "deployed"), o, 2)
	best, at := -1.0, 0
	var want *Ranks
	for !r.Done() {
		e := step(t, r)
		hr := e.Valid.Sampled["hr@10"]
		if e.Best != (hr >= best) {
			t.Errorf("round %d with %g after %g is best: %v", e.Round, hr, best, e.Best)
		}
		if hr >= best {
			best, at, want = hr, e.Round, newPlaces(r.fleet.split)
			r.eval.now.copyTo(want)
		}
	}
	if r.Selected != at || r.BestHR != best || !reflect.DeepEqual(r.Best, want) {
		t.Errorf("round %d with %g is selected, want %d with %g", r.Selected, r.BestHR, at, best)
	}
}

func TestOtherTablesRequireTheWholeCohort(t *testing.T) {
	o := defaults()
	o.Cohort = round.Cohort{Kind: "count", Count: 5}
	const want = "infer=random requires cohort=all and a score function without hidden layers: " +
		"omit infer=random or layers"
	if _, err := New(pfedrec(t, "infer", "random"), small(t, "paper"), o, 1, 1); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestWrongOptionsSayWhy(t *testing.T) {
	for want, set := range map[string]func(o *Options){
		"rounds = 0: must be 1 to 1000000":                func(o *Options) { o.Rounds = 0 },
		"rounds = 1000001: must be 1 to 1000000":          func(o *Options) { o.Rounds = 1000001 },
		"batch = 0: must be 1 to 1048576":                 func(o *Options) { o.Batch = 0 },
		"negatives = -1: must be 0 to 1000":               func(o *Options) { o.Negatives = -1 },
		"dropout = 1: must be at least 0 and below 1":     func(o *Options) { o.Dropout = 1 },
		"straggle = NaN: must be at least 0 and below 1":  func(o *Options) { o.Straggle = math.NaN() },
		"straggle = -0.1: must be at least 0 and below 1": func(o *Options) { o.Straggle = -0.1 },
		"eval-every = 0: must be 1 or more":               func(o *Options) { o.EvalEvery = 0 },
		"eval-users = -1: must be 0 or more":              func(o *Options) { o.EvalUsers = -1 },
	} {
		o := defaults()
		set(&o)
		if _, err := New(pfedrec(t), small(t, "paper"), o, 1, 1); err == nil || err.Error() != want {
			t.Errorf("got %v, want sim: %s", err, want)
		}
	}
	if _, err := New(pfedrec(t, "dim", "0"), small(t, "paper"), defaults(), 1, 1); err == nil ||
		!strings.Contains(err.Error(), "dim = 0") {
		t.Errorf("a method that does not fit: got %v", err)
	}
}

func TestShardsDependOnTheDataAlone(t *testing.T) {
	for _, jobs := range []int{1, 3, 500} {
		r := start(t, pfedrec(t), small(t, "paper"), defaults(), jobs)
		if got := r.fleet.mem.Shards; got != 16 {
			t.Errorf("%d workers: %d shards, want 16", jobs, got)
		}
	}
	p := start(t, pfedrec(t), small(t, "paper"), defaults(), 1).fleet.plan
	for _, c := range []struct{ samples, items, want int }{
		{0, 100, 16}, {490_000, 1682, 16}, {5_000_000, 3706, 64}, {1 << 30, 100, 64}, {0, 4_000_000, 0},
	} {
		got := shardCount(c.samples, c.items, p)
		if c.want > 0 && got != c.want || got < 1 || got&(got-1) != 0 {
			t.Errorf("%d samples of %d items: %d shards, want %d", c.samples, c.items, got, c.want)
		}
		if bytes := got * 4 * 32 * c.items; got > 2 && bytes > 512<<20 {
			t.Errorf("%d items: the sums take %d bytes, want at most half a gigabyte", c.items, bytes)
		}
	}
}

func TestTheMedianIsOfTheRounds(t *testing.T) {
	for want, xs := range map[float64][]float64{0: nil, 3: {3}, 5: {9, 1, 5}, 4: {4, 2, 1, 8}} {
		if got := (&Totals{RoundMS: xs}).MedianRoundMS(); got != want {
			t.Errorf("the median of %v is %g, want %g", xs, got, want)
		}
	}
}

func TestEveryProtocolRuns(t *testing.T) {
	for _, p := range data.Protocols() {
		for _, ties := range []string{"against", "expected"} {
			o := defaults()
			o.Rounds, o.Ties = 2, ties
			r := start(t, pfedrec(t, "dim", "4"), small(t, p.Name), o, 2)
			e := finish(t, r)[1]
			if (e.Test.Full != nil) != p.Full || e.Loss == nil || !(*e.Loss > 0) {
				t.Errorf("%s: full ranking %v, loss %v", p.Name, e.Test.Full, e.Loss)
			}
			if fmt.Sprint(o.TieRule()) != map[string]string{"against": "0", "expected": "1"}[ties] {
				t.Errorf("ties=%s is rule %v", ties, o.TieRule())
			}
		}
	}
}

// What devices download is counted as it stands at the start of each round; the dense
// count does not depend on it.
func TestSparseDownloadsAreCountedRoundByRound(t *testing.T) {
	o := defaults()
	o.Rounds, o.Encode = 4, "sparse"
	m := fedrap(t, "dim", "6", "regular", "prox", "mu", "300", "row-lr", "1")
	r := start(t, m, small(t, "deployed"), o, 2)
	total, devices := 0, 0
	for i, e := range finish(t, r) {
		if i > 0 != (e.Zeros > 0) {
			t.Errorf("round %d: %g of what is sent are zeros", e.Round, e.Zeros)
		}
		total, devices = total+e.Down, devices+e.Devices
	}
	dense := start(t, m, small(t, "deployed"), defaults(), 2)
	if got := r.BytesDown(); got != float64(total)/float64(devices) || got >= dense.BytesDown() ||
		dense.BytesDown() != 4*6*90 {
		t.Errorf("%g bytes down, want %d/%d, less than %g", got, total, devices, dense.BytesDown())
	}
}
