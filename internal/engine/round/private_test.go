package round

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
	"github.com/tacit-rec/tacit/vec"
)

// bounded are devices that all send the same: one slot of wide numbers.
type bounded struct {
	fake
	wide int
	each []float32 // what a device sends; nil for zeros
}

func (v *bounded) Round(ctx context.Context, t Task) (Aggregate, Report, error) {
	_, rep, err := v.fake.Round(ctx, t)
	sum := make([]int64, v.wide+1)
	if v.each != nil {
		for range rep.Devices {
			t.Bound.Encode(&privacy.Delta{Rows: [][]float32{v.each}, At: []int{0}, BitAt: v.wide}, sum)
		}
	}
	return Aggregate{Integers: sum}, rep, err
}

// guarded returns an engine with a policy on that many devices. All devices of a cohort take
// part.
func guarded(t testing.TB, policy, cohort string, users, wide int) (*Engine, *bounded) {
	t.Helper()
	v := &bounded{fake: fake{users: users}, wide: wide}
	v.plan = planOf(t, none{slots: []method.Slot{{Name: "plain", Scope: method.Shared, Rows: 1, Dim: wide}}}, 64)
	c := Config{Mean: aggregate.Fixed, Server: aggregate.Rule{Kind: "sgd", Rate: 1}}
	e := New(c, v.plan, v, [][]float32{make([]float32, vec.Pad(wide))}, 1)
	e.Ledger = &account.Spent{}
	if err := e.Cohort.UnmarshalText([]byte(cohort)); err != nil {
		t.Fatal(err)
	}
	expected := e.Cohort.Expected(users)
	v.rep.Devices = int(expected)
	s := privacy.Run{
		Sends: true, Users: users, Expected: expected, Sampler: account.None, Q: 1, Epoch: e.Cohort.Epoch(users),
		SelfSelected: e.Cohort.ByCheckIn(), Rounds: e.Plan.Rounds,
		Numbers: wide, Mean: "fixed", Step: 1, Metrics: e.Plan.Rounds,
	}
	if e.Cohort.Kind == "poisson" {
		s.Sampler, s.Q = account.Poisson, e.Cohort.Share
	}
	var p privacy.Policy
	if err := p.UnmarshalText([]byte(policy)); err != nil {
		t.Fatal(err)
	}
	s.Masked = p.Trust == privacy.Distributed
	var err error
	if e.Stack, err = privacy.Build(p, s); err != nil {
		t.Fatal(err)
	}
	e.Random = seeds(1)
	return e, v
}

// seeds are streams by name.
func seeds(seed uint64) func(n privacy.Node, piece int) io.Reader {
	return func(n privacy.Node, piece int) io.Reader {
		var key [32]byte
		for i, x := range []uint64{seed, uint64(n.Tree), uint64(n.Level)<<32 | uint64(n.Index), uint64(piece)} {
			for k := range 8 {
				key[8*i+k] = byte(x >> (8 * k))
			}
		}
		return rand.NewChaCha8(key)
	}
}

func step(t testing.TB, e *Engine) Report {
	t.Helper()
	rep, err := e.Step(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// full is a ledger that takes no more.
type full struct{ account.Spent }

func (*full) Spend(account.Event) error { return errors.New("the disk is full") }

func TestNothingIsReleasedThatIsNotInTheLedger(t *testing.T) {
	e, v := guarded(t, "noise=1e-6", "all", 8, 4)
	v.each = []float32{0.5, 0, 0, 0}
	e.Ledger = &full{}
	for range 3 {
		if _, err := e.Step(context.Background()); err == nil {
			t.Fatal("the ledger fails, and the round does not")
		}
	}
	if e.Next != 0 || slices.Max(e.Value[0]) != 0 || slices.Min(e.Value[0]) != 0 {
		t.Errorf("the ledger fails, and round %d has the values %v", e.Next, e.Value[0])
	}
	e.Ledger = &account.Spent{}
	step(t, e)
	if got := float64(e.Value[0][0]); math.Abs(got-0.5) > 1e-3 {
		t.Errorf("the first round that is paid for moves the value by %g, want 0.5: what failed before is in it", got)
	}
}

func TestARoundThatFailsLeavesNothingToTheNext(t *testing.T) {
	e, v := guarded(t, "noise=1e-6", "all", 8, 4)
	v.each, v.err = []float32{0.5, 0, 0, 0}, errors.New("the network is gone")
	if _, err := e.Step(context.Background()); err == nil {
		t.Fatal("the fleet fails, and the round does not")
	}
	v.err = nil
	step(t, e)
	if got := float64(e.Value[0][0]); math.Abs(got-0.5) > 1e-3 {
		t.Errorf("the value moves by %g, want 0.5", got)
	}
}

func TestTheBudgetStopsBeforeItWouldBePassed(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector, which runs with -short, has nothing to find here")
	}
	for _, policy := range []string{"noise=1,epsilon=3", "noise=2,epsilon=1.5,accountant=pld", "epsilon=3"} {
		e, _ := guarded(t, policy, "poisson:0.1", 100, 4)
		g := e.Stack
		for {
			if _, err := e.Step(context.Background()); errors.Is(err, ErrBudgetSpent) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if e.Next > 10_000 {
				t.Fatalf("%s: no end after %d rounds", policy, e.Next)
			}
		}
		cost := func(rounds int) float64 {
			events, _ := g.Events(g.Noise, rounds)
			r, err := account.Epsilon(g.Delta, g.Options(), events...)
			if err != nil {
				t.Fatal(err)
			}
			return r.Epsilon
		}
		if cost(e.Next) > g.Epsilon*(1+1e-9) || cost(e.Next+1) <= g.Epsilon || e.Next < e.Plan.Rounds &&
			policy == "epsilon=3" {
			t.Errorf("%s stops after %d rounds, which cost %g, and one more %g", policy, e.Next, cost(e.Next),
				cost(e.Next+1))
		}
	}
}

func TestSumOfTooFewDevicesIsDiscardedAndSpent(t *testing.T) {
	e, v := guarded(t, "noise=1,min-devices=6", "all", 8, 4)
	v.each, v.rep = []float32{0.5, 0, 0, 0}, Report{Devices: 5}
	if rep := step(t, e); !rep.Discarded || e.Next != 1 || slices.Max(e.Value[0]) != 0 ||
		rounds(e.Ledger.Events()) != 1 {
		t.Errorf("5 of 6: %+v, round %d, values %v, %d paid", rep, e.Next, e.Value[0], rounds(e.Ledger.Events()))
	}
	v.rep = Report{Devices: 5, Idle: 1} // that one had nothing to learn from must not show
	if rep := step(t, e); rep.Discarded || slices.Max(e.Value[0]) == 0 {
		t.Errorf("5 and one that sends zeros: %+v, values %v", rep, e.Value[0])
	}
	e, v = guarded(t, "noise=1", "poisson:0.01", 100, 4) // how many come is secret: noise alone is released
	v.rep = Report{}
	if rep := step(t, e); rep.Discarded || slices.Max(e.Value[0]) == 0 {
		t.Errorf("nobody came: %+v, values %v", rep, e.Value[0])
	}
}

// A model that is rejected has cost its budget all the same.
func TestARejectedModelIsPaidFor(t *testing.T) {
	for _, policy := range []string{"noise=1", "noise=1,mechanism=tree"} {
		cohort := "all"
		if policy != "noise=1" {
			cohort = "cycle:4"
		}
		e, v := guarded(t, policy, cohort, 8, 4)
		v.each, v.rep = []float32{0.5, 0, 0, 0}, Report{Devices: 8}
		e.Plan.Slots[0].Limit = 1e-9
		if rep := step(t, e); !rep.Discarded || rep.Rejected == "" || e.Next != 1 || slices.Max(e.Value[0]) != 0 ||
			len(e.Ledger.Events()) == 0 {
			t.Errorf("%s: %+v, round %d, values %v, %d paid", policy, rep, e.Next, e.Value[0], len(e.Ledger.Events()))
		}
		e.Plan.Slots[0].Limit = 0
		if rep := step(t, e); rep.Discarded || slices.Max(e.Value[0]) == 0 {
			t.Errorf("%s: the next round: %+v, values %v", policy, rep, e.Value[0])
		}
	}
}

// The noise in the model after n rounds of a tree is that of the nodes which cover
// them: its variance is their number times that of one. With 20,000 numbers the
// ratio has a deviation of 0.01; it is 6 of them off with a chance below 2e-9.
func TestTreeNoiseInTheModelIsThatOfItsNodes(t *testing.T) {
	for _, cohort := range []string{"cycle:10", "checkin:10/13"} {
		t.Run(cohort, func(t *testing.T) { treeNoise(t, cohort) })
	}
}

func treeNoise(t *testing.T, cohort string) {
	const wide = 20_000
	e, v := guarded(t, "noise=4,mechanism=tree,min-devices=5", cohort, 130, wide)
	g, sum := e.Stack, 0.0
	e.Plan.Rounds = 16
	for round := range 16 {
		if v.rep.Devices = 10; round == 4 {
			v.rep.Devices = 2 // kept back: the noise of later rounds must not suffer
		}
		step(t, e)
		scale := e.Cohort.Expected(130) / g.Unit(round)
		square := 0.0
		for _, x := range e.Value[0] {
			square += float64(x) * scale * float64(x) * scale / wide
		}
		dev := float64(g.NoiseParts(round, 10)[0].Deviation)
		want := float64(bits.OnesCount(uint(round%13 + 1)))
		if round >= 13 { // a new tree: the noise of the first stays
			want += float64(bits.OnesCount(13))
		}
		if ratio := square / (want * dev * dev); math.Abs(ratio-1) > 0.06 {
			t.Errorf("round %d: the variance is %.3f of that of %g nodes", round, ratio, want)
		}
		sum += square
	}
	if sum == 0 {
		t.Error("the model has no noise")
	}
}

// Two independent columns of n numbers correlate by more than 6/sqrt(n) with a chance
// below 2e-9; there are 45 pairs of rounds and pieces.
func TestNoNoiseIsUsedTwice(t *testing.T) {
	const piece, pieces, many = 4096, 2, 5
	e, _ := guarded(t, "noise=1,adaptive=geometric", "all", 200, piece*pieces)
	seen := map[string]bool{}
	inner := e.Random
	var mu sync.Mutex
	e.Random = func(n privacy.Node, p int) io.Reader {
		r := inner(n, p)
		b := make([]byte, 16)
		io.ReadFull(r, b)
		mu.Lock()
		defer mu.Unlock()
		if seen[string(b)] {
			t.Errorf("the stream of %+v, piece %d, was used before", n, p)
		}
		seen[string(b)] = true
		return inner(n, p)
	}
	e.Stack.Rate = 0 // a bound that stays
	var columns [][]float64
	before := make([]float32, piece*pieces)
	for range many {
		step(t, e)
		for p := range pieces {
			column := make([]float64, piece)
			for i := range column {
				column[i] = float64(e.Value[0][p*piece+i] - before[p*piece+i])
			}
			columns = append(columns, column)
		}
		copy(before, e.Value[0])
	}
	for i := range columns {
		for k := range i {
			ab, aa, bb := 0.0, 0.0, 0.0
			for x := range piece {
				ab += columns[i][x] * columns[k][x]
				aa += columns[i][x] * columns[i][x]
				bb += columns[k][x] * columns[k][x]
			}
			if r := ab / math.Sqrt(aa*bb); math.Abs(r) > 6/math.Sqrt(piece) {
				t.Errorf("columns %d and %d correlate by %.3f", i, k, r)
			}
		}
	}
}

// audit is a lower bound on the epsilon of one release, by playing in and out with a
// device whose update is as long as it may be (Steinke, Nasr and Jagielski 2023). It is above
// the true epsilon with a chance of 1e-6.
func audit(t *testing.T, policy string, weaken float64) (lower, claimed float64) {
	const plays, guesses = 20_000, 1200
	cohort := "all"
	if strings.Contains(policy, "tree") {
		cohort = "cycle:8"
	}
	whole, _ := guarded(t, policy, cohort, 8, 3)
	r, err := account.Epsilon(whole.Stack.Delta, whole.Stack.Options(), mustEvents(t, whole.Stack)...)
	if err != nil {
		t.Fatal(err)
	}
	e, v := guarded(t, strings.Replace(policy, "noise=2", fmt.Sprintf("noise=%g", 2/weaken), 1), cohort, 8, 3)
	e.Plan.Rounds = 1
	type play struct {
		score float64
		in    bool
	}
	coin, all := rand.New(rand.NewPCG(7, 7)), make([]play, plays)
	for i := range all {
		e.Random, e.Next, e.Ledger = seeds(uint64(i)+100), 0, &account.Spent{}
		clear(e.Value[0])
		v.rep, v.each = Report{Devices: 1, Idle: 7}, nil
		if all[i].in = coin.IntN(2) == 1; all[i].in {
			v.each = []float32{1, 0, 0} // as long as the bound
		}
		step(t, e)
		all[i].score = float64(e.Value[0][0])
	}
	sort.Slice(all, func(a, b int) bool { return all[a].score < all[b].score })
	right := 0
	for k := range guesses / 2 {
		if !all[k].in {
			right++
		}
		if all[plays-1-k].in {
			right++
		}
	}
	if lower, err = account.AuditLower(plays, guesses, right, e.Stack.Delta, 1-1e-6); err != nil {
		t.Fatal(err)
	}
	return lower, r.Epsilon
}

func mustEvents(t *testing.T, g *privacy.Stack) []account.Event {
	t.Helper()
	events, err := g.Events(g.Noise, 1)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestAnAuditFindsNoMoreThanIsClaimedAndCatchesTooLittleNoise(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector, which runs with -short, has nothing to find here")
	}
	for _, policy := range []string{
		"noise=2,delta=1e-9,accountant=pld",
		"noise=2,delta=1e-9,adjacency=replace-one,accountant=pld",
		"noise=2,delta=1e-9,mechanism=tree,accountant=pld",
		"noise=2,delta=1e-9,trust=distributed,min-devices=7,accountant=pld",
	} {
		lower, claimed := audit(t, policy, 1)
		t.Logf("%s: at least %.2f, claimed %.2f", policy, lower, claimed)
		if lower > claimed || lower == 0 {
			t.Errorf("%s: epsilon is at least %.2f by an audit, and %.2f is claimed", policy, lower, claimed)
		}
		factor := 4.0
		if strings.Contains(policy, "replace-one") {
			factor = 8 // in and out is half of what it covers
		}
		if weak, _ := audit(t, policy, factor); weak <= claimed {
			t.Errorf("%s: with %g times too little noise an audit finds %.2f, and %.2f is claimed: it is not caught",
				policy, factor, weak, claimed)
		}
	}
}
