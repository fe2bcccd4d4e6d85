package conform

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
)

// bench creates devices that bound their updates, in a federation after two rounds: some
// methods, such as FCF, send nothing in the first.
type bench struct {
	build Build
	value [][]float32
	most  float64 // the largest norm of a delta
}

// newBench measures the deltas of all devices. It does not apply to a method that sends nothing.
func newBench(build Build) (*bench, error) {
	k := &bench{build: build}
	a, err := newAlone(build, false)
	if err != nil {
		return nil, err
	}
	if len(a.plan.SentSlots()) == 0 {
		return nil, doesNotApply("the method sends nothing: there is nothing to bound")
	}
	r, err := finish(build, options(2), 2)
	if err != nil {
		return nil, err
	}
	for i := range r.Slots() {
		k.value = append(k.value, r.Value(i))
	}
	if a, err = k.device(privacy.Bound{Clip: 1, Levels: 1 << 20}); err != nil {
		return nil, err
	}
	for u := range boardSize {
		state := a.mem.NewState(nil)
		k.most = math.Max(k.most, a.Visit(&state, a.task(u, 2), 0, false).Norm)
	}
	if !(k.most > 0) {
		return nil, fmt.Errorf("no device sends anything in the third round")
	}
	return k, nil
}

func (k *bench) device(b privacy.Bound) (*alone, error) {
	a, err := newDevice(k.build, local.Options{Integers: true})
	if err != nil {
		return nil, err
	}
	for i := range k.value {
		if a.plan.Slots[i].Scope == method.Shared {
			copy(a.mem.Value(i), k.value[i])
		}
	}
	a.mem.SetBound(b)
	return a, nil
}

// update returns the encoded update of a new device.
func (k *bench) update(a *alone, u, shard int) []int64 {
	state, sum := a.mem.NewState(nil), make([]int64, a.plan.UpdateLength(2)+1)
	a.Visit(&state, a.task(u, 2), shard, false)
	a.mem.TakeSum(sum)
	return sum
}

// withPolicy returns o with the given privacy policy.
func withPolicy(o sim.Options, format string, args ...any) (sim.Options, error) {
	return o, o.DP.UnmarshalText(fmt.Appendf(nil, format, args...))
}

// loosePrivacy checks that with a clipping bound above every norm and almost no noise, the
// coordinator receives and computes the same as without privacy, up to integer rounding.
func loosePrivacy(build Build) error {
	k, err := newBench(build)
	if err != nil {
		return err
	}
	open := options(3)
	loose, err := withPolicy(open, "noise=1e-9,clip=%g", 30*k.most)
	if err != nil {
		return err
	}
	_, own := method.As[method.Updater](build())
	if !own {
		open.Mean = "fixed"
	}
	with, err := start(build, loose, 2)
	if err != nil {
		return err
	}
	without, err := start(build, open, 2)
	if err != nil {
		return err
	}
	if err := errors.Join(steps(with, 1), steps(without, 1), sameSums(with, without)); err != nil {
		return err
	}
	// A method's own server step may amplify small noise, as Adam does.
	tolerance := 0.05
	if own {
		tolerance = 0.5
	}
	born, err := start(build, open, 1)
	if err != nil {
		return err
	}
	if err := errors.Join(steps(with, 2), steps(without, 2)); err != nil {
		return err
	}
	off, moved := 0.0, 0.0
	for _, i := range with.Plan().SentSlots() {
		o, m := apart(with.Value(i), without.Value(i), born.Value(i))
		off, moved = math.Hypot(off, o), math.Hypot(moved, m)
	}
	if !(off <= tolerance*moved) {
		return fmt.Errorf("after 3 rounds the model has moved by %.3g; with loose clipping and almost no noise "+
			"it is off by "+
			"%.3g", moved, off)
	}
	return nil
}

// sameSums compares the sums of a second round with and without privacy, starting from the same
// model.
func sameSums(with, without *sim.Run) error {
	everybody := make([]uint32, boardSize)
	for u := range everybody {
		everybody[u] = uint32(u)
	}
	bound := with.Stack().Bound(1)
	for i := range with.Slots() {
		copy(with.Value(i), without.Value(i))
	}
	sum := func(r *sim.Run, bound *privacy.Bound) (round.Aggregate, error) {
		var state bytes.Buffer // training changes the devices' state, which must be restored
		if err := r.Save(&state, "x"); err != nil {
			return round.Aggregate{}, err
		}
		task := round.Task{Round: 1, Phase: r.Plan().Phase(1), Cohort: everybody, Bound: bound}
		sum, _, err := r.TrainCohort(context.Background(), task)
		if err != nil {
			return sum, err
		}
		return sum, r.Load(&state, "x")
	}
	integers, err := sum(with, &bound)
	if err != nil {
		return err
	}
	floats, err := sum(without, nil)
	if err != nil {
		return err
	}
	for _, i := range with.Plan().SentSlots() {
		n := len(without.Value(i))
		got, want := make([]float32, n), floats.Sums[i]
		with.Plan().Decode(1, i, integers.Integers, bound.Unit(), got)
		vec.Axpy(float32(floats.Shrunk[i]), without.Value(i), want)
		rounded := boardSize / 2 * bound.Unit() * math.Sqrt(float64(n))
		if off, length := apart(got, want, make([]float32, n)); !(off <= 0.001*length+rounded) {
			return fmt.Errorf("the sum of slot %q has norm %.3g; with loose clipping and almost no noise it is off "+
				"by %.3g", with.Slots()[i].Name, length, off)
		}
	}
	return nil
}

// apart returns the distance between got and want, and the distance between want and zero.
func apart(got, want, zero []float32) (off, length float64) {
	for k, x := range want {
		d, m := float64(got[k]-x), float64(x-zero[k])
		off, length = off+d*d, length+m*m
	}
	return math.Sqrt(off), math.Sqrt(length)
}

// bounded checks that the integers a device sends never exceed the sensitivity that the noise is
// calibrated for, and that they do not depend on devices that the worker trained before.
func bounded(build Build) error {
	k, err := newBench(build)
	if err != nil {
		return err
	}
	for _, b := range []privacy.Bound{
		{Clip: k.most / 7, Levels: 1 << 20, Bit: true},
		{Clip: k.most / 3, Levels: 1 << 20, L1: true},
		{Clip: k.most / 2, Levels: 1 << 10, RowClip: k.most / 40, Bit: true},
	} {
		if err := k.boundedBy(b); err != nil {
			return err
		}
	}
	return nil
}

func (k *bench) boundedBy(b privacy.Bound) error {
	busy, err := k.device(b)
	if err != nil {
		return err
	}
	n := busy.plan.UpdateLength(2)
	for u := range 6 {
		k.update(busy, 10+u, local.NotCounted) // a late device, which must not contribute
		got := k.update(busy, u, 0)
		length := 0.0
		for _, x := range got[:n] {
			if b.L1 {
				length += math.Abs(float64(x))
			} else {
				length += float64(x) * float64(x)
			}
		}
		if !b.L1 {
			length = math.Sqrt(length)
		}
		if limit := b.Sensitivity(n); length > limit || length == 0 {
			return fmt.Errorf("device %d sends integers of norm %.6g; must be above 0 and at most the "+
				"sensitivity %.6g (%+v)", u,
				length, limit, b)
		}
		if bit := got[n]; b.Bit && bit != privacy.BitLevels/2 && bit != -privacy.BitLevels/2 || !b.Bit && bit != 0 {
			return fmt.Errorf("device %d contributes %d to the count of unclipped devices", u, bit)
		}
		fresh, err := k.device(b)
		if err != nil {
			return err
		}
		if !slices.Equal(got, k.update(fresh, u, 0)) {
			return fmt.Errorf("device %d sends another update if the worker trained other devices before",
				u)
		}
	}
	return nil
}

// sameBitsPrivate checks that with active clipping, noise and an adaptive bound, neither the
// number of workers nor an interruption changes the result or the budget spent.
func sameBitsPrivate(build Build) error {
	k, err := newBench(build)
	if err != nil {
		return err
	}
	o, err := withPolicy(options(4), "noise=0.5,clip=%g,adaptive=geometric", k.most/4)
	if err != nil {
		return err
	}
	o.Dropout, o.Straggle = 0.1, 0.1
	one, err := finish(build, o, 1)
	if err != nil {
		return err
	}
	half, again, err := interrupted(build, o, 4, 3)
	if err != nil {
		return err
	}
	if err := errors.Join(steps(half, 2), steps(again, 2)); err != nil {
		return err
	}
	whole, _, err := one.Spent()
	if err != nil {
		return err
	}
	for _, r := range []*sim.Run{half, again} {
		if a, b := one.Digest(), r.Digest(); a != b {
			return fmt.Errorf("digest with 1 worker is %s, with other workers or resumed %s; they must be equal", a, b)
		}
		if spent, _, err := r.Spent(); err != nil || spent.Epsilon != whole.Epsilon {
			return fmt.Errorf("a run spends epsilon %g, resumed or with other workers %g (%v)", whole.Epsilon,
				spent.Epsilon,
				err)
		}
	}
	return nil
}

// hostile wraps a method so that one device in five sends arbitrary values.
type hostile struct {
	method.Method
	send []float32
}

func (h hostile) Unwrap() method.Method { return h.Method }

func (h hostile) Rewrap(inner method.Method) method.Method { return hostile{inner, h.send} }

func (h hostile) Visit(items int) method.Visit {
	v := h.Method.Visit(items)
	run := v.Run
	v.Run = func(w *method.Work) {
		run(w)
		if w.Device%5 == 0 {
			h.poison(w, h.send[int(w.Device/5)%len(h.send)])
		}
	}
	return v
}

func (h hostile) poison(w *method.Work, x float32) {
	for i := range w.View {
		v := &w.View[i]
		if v.Slot.Scope != method.Shared || v.Slot.Upload == method.Broadcast {
			continue
		}
		for _, r := range w.Samples.Wr[i] {
			row := v.Row(r)
			for k := range v.Slot.Dim {
				row[k] = x
			}
		}
		to := v.Val
		if v.Slot.Sparse {
			to = v.Values
		}
		if v.Slot.Upload == method.Gradient {
			to = v.Sent
		}
		for k := range to {
			to[k] = x
		}
	}
}

// unpoisoned checks that updates with NaN, infinities or huge values neither stop a run nor make
// the model non-finite.
func unpoisoned(build Build) error {
	k, err := newBench(build)
	if err != nil {
		return err
	}
	inf := float32(math.Inf(1))
	bad := func() method.Method {
		return hostile{build(), []float32{float32(math.NaN()), inf, -inf, math.MaxFloat32, -math.MaxFloat32}}
	}
	o, err := withPolicy(options(passRounds(build(), 3)), "noise=0.01,clip=%g", k.most)
	if err != nil {
		return err
	}
	r, err := finish(bad, o, 2)
	if err != nil {
		return fmt.Errorf("hostile devices stop the run: %w", err)
	}
	for _, i := range r.Plan().SentSlots() {
		for _, x := range r.Value(i) {
			if x-x != 0 {
				return fmt.Errorf("slot %q of the model contains %g", r.Slots()[i].Name, x)
			}
		}
	}
	return nil
}

// needsFederation checks that a privacy policy for a central method is rejected with the
// method's name: noise on a sum over devices does not cover it. Every other method that sends
// something accepts a policy.
func needsFederation(build Build) error {
	o, err := withPolicy(options(3), "epsilon=8")
	if err != nil {
		return err
	}
	o.Name = "the method's name"
	r, err := start(build, o, 1)
	if federated(build) {
		if err != nil && strings.Contains(err.Error(), "sends nothing") {
			return doesNotApply("the method sends nothing: there is nothing to protect")
		}
		return err
	}
	if r != nil || !strings.Contains(err.Error(), o.Name+" trains on pooled data") {
		return fmt.Errorf("a privacy policy for a method that trains centrally must be rejected: %w",
			cmp.Or(err, errors.New("it was accepted")))
	}
	return nil
}
