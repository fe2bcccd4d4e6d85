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

// alone is one device with its own worker and memory.
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

// newDevice returns a device of the board. The board overrides the options that it determines.
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
		return nil, doesNotApply("the method trains centrally, without local training")
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

// gradient checks that Back is the derivative of Logits, by central differences at random
// elements of every slot. It applies to Learners only.
func gradient(build Build) error {
	a, err := newAlone(build, true)
	if err != nil {
		return err
	}
	m, ok := a.plan.Method.(method.Learner)
	if !ok {
		return doesNotApply("the method is not gradient-based")
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
			// Kinks on both sides may cancel out; a smaller step then gives another slope.
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
				return fmt.Errorf("slot %q element %d: Back returns %g, the finite difference is %g", v.Slot.Name, k,
					grad[k], want)
			}
		}
	}
	if bent > straight {
		return fmt.Errorf("at %d of %d elements the finite differences do not converge: the check is inconclusive",
			bent, bent+
				straight)
	}
	return nil
}

// difference returns the central difference of value by x with step h. bends reports a kink,
// such as that of ReLU, within the step.
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

// staysOnDevice checks that a delta has one part for each slot that is sent and no other, and
// that local training does not write to the shared values directly.
func staysOnDevice(build Build) error {
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
			return fmt.Errorf("local training wrote to the shared value of slot %q; must change only its delta",
				a.plan.Slots[i].Name)
		}
	}
	u := a.Delta(0)
	var got []int
	for _, p := range u.Parts {
		s := a.plan.Slots[p.Slot]
		got = append(got, p.Slot)
		if s.Scope != method.Shared {
			return fmt.Errorf("the delta contains slot %q, which is %s; must be shared", s.Name, s.Scope)
		}
	}
	if want := a.plan.SentSlots(); !slices.Equal(got, want) {
		return fmt.Errorf("the delta contains slots %v, expected %v", got, want)
	}
	for _, p := range u.Parts {
		for _, x := range p.Data {
			if x-x != 0 {
				return fmt.Errorf("the delta of slot %q contains NaN or an infinity", a.plan.Slots[p.Slot].Name)
			}
		}
	}
	return nil
}

// noAllocation checks that training and scoring a device again allocates nothing. A private
// table may grow at first, so the check fills it before it counts.
func noAllocation(build Build) error {
	for _, hasBound := range []bool{false, true} {
		if err := noAllocationIn(build, hasBound); err != nil {
			return err
		}
	}
	return nil
}

func noAllocationIn(build Build, hasBound bool) error {
	a, err := newDevice(build, local.Options{Integers: hasBound})
	if err != nil {
		return err
	}
	a.mem.SetBound(privacy.Bound{Clip: 1, Levels: 1 << 20})
	task := a.task(3, 1)
	all := make([]float32, a.split.Items())
	round := 0
	visit := func() {
		task.Round = 1 + round%3 // repeats the samples, so that a private table is complete
		round++
		a.Visit(&a.state, task, 0, false)
		a.ScoreAll(all)
	}
	for range 6 {
		visit()
	}
	if n := testing.AllocsPerRun(20, visit); n > 0 && !solves(a.plan) {
		return fmt.Errorf("local training allocates %g times (with a bound on its update: %t); must be 0", n, hasBound)
	}
	return nil
}

// solves reports whether a method is not a Learner. Its solver may allocate.
func solves(p *local.Plan) bool {
	_, learns := p.Method.(method.Learner)
	return !learns
}

// fusedIsPlain checks that fused and plain steps give the same result, up to rounding.
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
		return fmt.Errorf("%s: %d numbers, expected %d", what, len(x), len(y))
	}
	for i := range x {
		if !near(float64(x[i]), float64(y[i]), 1e-3, 0.1) {
			return fmt.Errorf("%s, element %d: %g, expected %g", what, i, x[i], y[i])
		}
	}
	return nil
}

// scoresAlike checks that Score and ScoreAll agree, after local training and without it.
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
				return fmt.Errorf("%s: Score gives item %d %g, ScoreAll gives it %g", when, i, some[x], all[i])
			}
		}
		return nil
	}
	a.Visit(&a.state, a.task(9, 1), 0, false)
	if err := check("after local training"); err != nil {
		return err
	}
	a.Prepare(&a.state, a.task(9, 2))
	return check("without local training")
}

// sumIsRound checks that the deltas of single devices add up to the sum of the simulated round,
// so that devices on a network get the same result.
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
				return fmt.Errorf("slot %q element %d: the round's sum is %g, the sum of the devices' deltas is %g",
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
