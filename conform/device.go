package conform

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// alone is one device with a memory of its own.
type alone struct {
	*local.Worker
	plan  *local.Plan
	mem   *local.Memory
	state local.State
	split *data.Split
	part  data.Part
}

func newAlone(build Build, plain bool) (*alone, error) {
	return newDevice(build, local.Options{Plain: plain})
}

// newDevice is one device of the board, with the options that are not the board's.
func newDevice(build Build, o local.Options) (*alone, error) {
	s, err := data.NewSplit(board(), fair, 1)
	if err != nil {
		return nil, err
	}
	features, err := s.Features()
	if err != nil {
		return nil, err
	}
	o.Features, o.Items, o.Users, o.Rounds, o.Batch, o.Negatives, o.Seed = features, s.Items(), s.Users(), 10, 32, 4, 1
	p, err := local.NewPlan(build(), o)
	if err != nil {
		return nil, err
	}
	if p.Central() {
		return nil, doesNotApply("the method is trained in one place: there is no visit")
	}
	m, err := local.NewMemory(p, 1, 1)
	if err != nil {
		return nil, err
	}
	return &alone{Worker: local.NewWorker(m, 0), plan: p, mem: m, state: m.NewState(nil), split: s}, nil
}

func (a *alone) task(u, round int) *local.Task {
	a.split.User(u, &a.part)
	return &local.Task{
		Device: uint32(u), Round: round, Train: a.part.Train, Rows: a.part.Rows,
		Hide: a.split.Hidden(&a.part),
	}
}

// gradient: Back is the derivative of Logits, by central differences, at random
// places of every slot. It is checked for Learners only.
func gradient(build Build) error {
	a, err := newAlone(build, true)
	if err != nil {
		return err
	}
	m, ok := a.plan.Method.(method.Learner)
	if !ok {
		return doesNotApply("the method solves instead of descending")
	}
	w := a.ResolveSamples(&a.state, a.task(3, 0))
	b := w.Batch(0, min(w.BatchSize, len(w.Samples.Item)))
	r := rng.New(rng.Test)
	dz, z := make([]float32, b.N), make([]float32, b.N)
	for x := range dz {
		dz[x] = float32(2*r.Float64() - 1)
	}
	w.ClearGrads(b)
	m.Logits(w, b, z)
	m.Back(w, b, dz)
	value := func() float64 {
		m.Logits(w, b, z)
		s := 0.0
		for x := range z {
			s += float64(dz[x]) * float64(z[x])
		}
		return s
	}
	straight, bent := 0, 0
	for i := range w.View {
		v := &w.View[i]
		val, grad := v.Val, v.Grad
		if v.Slot.PerItem && v.GradRows != nil {
			val, grad = v.Arena[int(v.Local)*v.Stride:][:len(a.Touched())*v.Stride], v.GradRows
		}
		for range min(40, len(val)) {
			k := int(r.Uint32n(uint32(len(val))))
			if k%v.Stride >= v.Slot.Dim {
				continue
			}
			want, bends := difference(&val[k], 1.0/128, value)
			// Kinks on both sides may balance: then the slope is another from closer by.
			for h := float32(1.0 / 2048); !bends && !near(float64(grad[k]), want, 0.01, 0.05) && h > 1e-6; h /= 8 {
				closer, _ := difference(&val[k], h, value)
				bends = near(float64(grad[k]), closer, 0.01, 0.05)
			}
			if bends {
				bent++
				continue
			}
			straight++
			if !near(float64(grad[k]), want, 0.01, 0.05) {
				return fmt.Errorf("slot %q place %d: Back says %g, the finite difference is %g", v.Slot.Name, k,
					grad[k], want)
			}
		}
	}
	if bent > straight {
		return fmt.Errorf("at %d of %d places the finite differences do not settle: nothing is proved", bent, bent+
			straight)
	}
	return nil
}

// difference is the central difference of value by x, with steps of h. It bends where
// a kink, such as that of ReLU, lies between.
func difference(x *float32, h float32, value func() float64) (slope float64, bends bool) {
	old, here := *x, value()
	*x = old + h
	up := value()
	*x = old - h
	down := value()
	*x = old
	step := float64(h)
	return (up - down) / (2 * step), !near((up-here)/step, (here-down)/step, 0.01, 0.05)
}

// staysHome: an update has a part for each slot that is sent and no other, and a
// visit writes to nothing else that other devices read.
func staysHome(build Build) error {
	a, err := newAlone(build, false)
	if err != nil {
		return err
	}
	before := make([][]float32, len(a.plan.Slots))
	for i := range before {
		before[i] = slices.Clone(a.mem.Value(i))
	}
	a.Visit(&a.state, a.task(3, 1), 0, false)
	for i := range before {
		if !slices.Equal(before[i], a.mem.Value(i)) {
			return fmt.Errorf("a visit wrote to the common value of slot %q, past its update", a.plan.Slots[i].Name)
		}
	}
	u := a.Delta(0)
	var got []int
	for _, p := range u.Parts {
		s := a.plan.Slots[p.Slot]
		got = append(got, p.Slot)
		if s.Scope != method.Shared {
			return fmt.Errorf("the update holds slot %q, which is %s", s.Name, s.Scope)
		}
	}
	if want := a.plan.SentSlots(); !slices.Equal(got, want) {
		return fmt.Errorf("the update holds slots %v, want %v", got, want)
	}
	for _, p := range u.Parts {
		for _, x := range p.Data {
			if x-x != 0 {
				return fmt.Errorf("the delta of slot %q holds a number that is not finite", a.plan.Slots[p.Slot].Name)
			}
		}
	}
	return nil
}

// noAllocation: once a worker has seen a device, visiting and scoring it again
// allocates nothing. A private table may still grow: it is full before.
func noAllocation(build Build) error {
	for _, guarded := range []bool{false, true} {
		if err := noAllocationIn(build, guarded); err != nil {
			return err
		}
	}
	return nil
}

func noAllocationIn(build Build, guarded bool) error {
	a, err := newDevice(build, local.Options{Integers: guarded})
	if err != nil {
		return err
	}
	a.mem.SetBound(privacy.Bound{Clip: 1, Levels: 1 << 20})
	task := a.task(3, 1)
	all := make([]float32, a.split.Items())
	round := 0
	visit := func() {
		task.Round = 1 + round%3 // the same samples come back, so a private table has seen them
		round++
		a.Visit(&a.state, task, 0, false)
		a.ScoreAll(all)
	}
	for range 6 {
		visit()
	}
	if n := testing.AllocsPerRun(20, visit); n > 0 && !solves(a.plan) {
		return fmt.Errorf("a visit allocates %g times (with a bound on its update: %t)", n, guarded)
	}
	return nil
}

// solves lets off a method that is not a Learner: what its solver allocates is
// the solver's affair.
func solves(p *local.Plan) bool {
	_, learns := p.Method.(method.Learner)
	return !learns
}

// fusedIsPlain: the fast path and the oracle end at the same place, up to
// rounding.
func fusedIsPlain(build Build) error {
	fast, err := newAlone(build, false)
	if err != nil {
		return err
	}
	plain, err := newAlone(build, true)
	if err != nil {
		return err
	}
	x, y := make([]float32, boardSize), make([]float32, boardSize)
	for round := range 3 {
		fast.Visit(&fast.state, fast.task(5, round), 0, false)
		plain.Visit(&plain.state, plain.task(5, round), 0, false)
		fast.ScoreAll(x)
		plain.ScoreAll(y)
		if err := same("score", x, y); err != nil {
			return err
		}
		a, b := fast.Delta(0), plain.Delta(0)
		for i := range a.Parts {
			if err := same("update", a.Parts[i].Data, b.Parts[i].Data); err != nil {
				return err
			}
		}
	}
	return same("private state", fast.state.Plain, plain.state.Plain)
}

func same(what string, x, y []float32) error {
	if len(x) != len(y) {
		return fmt.Errorf("%s: %d numbers, want %d", what, len(x), len(y))
	}
	for i := range x {
		if !near(float64(x[i]), float64(y[i]), 1e-3, 0.1) {
			return fmt.Errorf("%s, place %d: %g, want %g", what, i, x[i], y[i])
		}
	}
	return nil
}

// scoresAlike: Score and ScoreAll agree after a visit and without one.
func scoresAlike(build Build) error {
	a, err := newAlone(build, false)
	if err != nil {
		return err
	}
	items := []uint32{0, 7, 33, 12, 79, 41}
	some, all := make([]float32, len(items)), make([]float32, boardSize)
	check := func(when string) error {
		a.Score(items, some)
		a.ScoreAll(all)
		for x, i := range items {
			if math.Float32bits(some[x]) != math.Float32bits(all[i]) {
				return fmt.Errorf("%s: item %d scores %g in a list, %g among all", when, i, some[x], all[i])
			}
		}
		return nil
	}
	a.Visit(&a.state, a.task(9, 1), 0, false)
	if err := check("after a visit"); err != nil {
		return err
	}
	a.Prepare(&a.state, a.task(9, 2))
	return check("without a visit")
}

// sumIsRound: what devices send one by one adds up to what the simulated round
// collects, so a fleet on a network does the same as this one.
func sumIsRound(build Build) error {
	r, err := start(build, options(2), 2)
	if err != nil {
		return err
	}
	a, err := newAlone(build, false)
	if err != nil {
		return err
	}
	all := make([]uint32, boardSize)
	want := make([][]float64, len(a.plan.Slots))
	for u := range all {
		all[u] = uint32(u)
		state := a.mem.NewState(nil)
		a.Visit(&state, a.task(u, 0), 0, false)
		for _, p := range a.Delta(0).Parts {
			if want[p.Slot] == nil {
				want[p.Slot] = make([]float64, len(r.Value(p.Slot)))
			}
			scatter(&p, vec.Pad(p.Dim), want[p.Slot])
		}
	}
	sum, _, err := r.TrainCohort(context.Background(), round.Task{Phase: r.Plan().Phase(0), Cohort: all})
	if err != nil {
		return err
	}
	for slot, w := range want {
		if w == nil {
			continue
		}
		got := sum.Sums[slot]
		for i := range got {
			if !near(float64(got[i]), w[i], 1e-3, 0.1) {
				return fmt.Errorf("slot %q place %d: the round's sum is %g, the devices' is %g",
					a.plan.Slots[slot].Name, i, got[i], w[i])
			}
		}
	}
	return nil
}

// scatter adds the rows of a part to padded rows.
func scatter(p *local.Part, stride int, dst []float64) {
	for k := range len(p.Data) / p.Dim {
		row := k
		if p.IDs != nil {
			row = int(p.IDs[k])
		}
		for i, x := range p.Data[k*p.Dim : (k+1)*p.Dim] {
			dst[row*stride+i] += float64(x)
		}
	}
}

// near reports whether got is within tol of want, relative to the larger of the
// two and floor.
func near(got, want, tol, floor float64) bool {
	return math.Abs(got-want) <= tol*math.Max(floor, math.Max(math.Abs(got), math.Abs(want)))
}
