package privacy

import (
	"errors"
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/privacy/account"
)

// Setting is the run that a policy is for.
type Setting struct {
	Method   string
	Central  bool // it is trained where all rows are
	Sends    bool // devices send something at all
	Users    int
	Expected float64 // devices of a round, by the sampler
	Sampler  account.Sampler
	Q        float64
	Epoch    int  // rounds in which each device comes once at most: of a cycle, and where devices choose; else 0
	Chosen   bool // by the devices: when they come
	Rounds   int
	Numbers  int      // of an update, what travels beside the rows included
	Mean     string   // cohort, row or fixed
	Step     float64  // rate of the coordinator's step
	Masked   bool     // sums are masked (secure aggregation)
	Drawn    bool     // each device draws its own noise; else a simulation draws the sum of them
	Metrics  int      // evaluations whose metrics are released, where they are
	Rationed bool     // the method says how rounds share a budget
	Each     []Ration // by round, where rounds differ; nil where all are alike
}

// Stack is a policy that holds for a run. Clip moves from round to round where it
// adapts; all else is fixed.
type Stack struct {
	Policy
	Setting
	Cover     Cover
	Adjacency account.Adjacency
	Noise     float64 // multiplier of a whole release, the clipping bit included
	Vector    float64 // multiplier of the update alone
	Bit       float64 // deviation on the count of unclipped devices
	Stages    []Stage
	Clip      float64 // the bound of the next round
	// Whole is what all rounds cost, with the metrics that are released.
	Whole  account.Result
	rounds []terms // by round, or one for all
}

// Build checks a policy against a run and finds its noise.
func Build(p Policy, s Setting) (*Stack, error) {
	k := &Stack{Policy: p, Setting: s, Clip: p.Clip}
	var err error
	if k.Cover, err = p.Covers(); err != nil {
		return nil, fmt.Errorf("privacy: %w", err)
	}
	if err := errors.Join(k.refuse(), k.shares()); err != nil {
		return nil, fmt.Errorf("privacy: %w", err)
	}
	k.Stages = k.stages()
	if err := Check(p.Against, k.Stages...); err != nil {
		return nil, err
	}
	k.Adjacency = account.ZeroOut
	if p.Adjacency == "replace-one" || p.Adjacency == "" && k.sampler() == account.WithoutReplacement {
		k.Adjacency = account.ReplaceOne
	}
	if err := k.calibrate(); err != nil {
		return nil, err
	}
	return k, k.settle()
}

// refuse says what of the run does not go together with the policy.
func (k *Stack) refuse() error {
	p, s := &k.Policy, &k.Setting
	switch {
	case s.Central:
		return fmt.Errorf("%s is trained where all rows are: nothing of it is a sum over devices, and no noise on a "+
			"sum covers it; take a federated method", s.Method)
	case !s.Sends:
		return fmt.Errorf("%s sends nothing, so it spends nothing: leave dp out", s.Method)
	case s.Mean != "fixed":
		return fmt.Errorf("mean=%s divides by a count that is not public: with dp it is mean=fixed", s.Mean)
	case p.Delta*float64(s.Users) >= 1:
		return fmt.Errorf("delta is %g, and there are %d users: a release that shows one of them at random would "+
			"pass; want less than 1/users, such as %.0e", p.Delta, s.Users,
			math.Pow(10, math.Floor(-math.Log10(10*float64(s.Users)))))
	case p.Against == Distributed && !s.Masked:
		return errors.New("a device's share of the noise hides nobody by itself: against=distributed wants masks; " +
			"add --secagg on, or --secagg assumed to take their outcome for granted")
	case p.Mechanism == Tree && s.Epoch == 0:
		return errors.New("mechanism=tree wants devices that come once in so many rounds: add cohort=cycle:100 (in " +
			"turn), or cohort=come:100/20 (when they like)")
	case p.Mechanism != Tree && s.Chosen:
		return errors.New("cohort=come: devices choose when they come, so no sampling may be claimed: add " +
			"mechanism=tree")
	case p.Mechanism != Tree && s.Epoch != 0:
		return errors.New("cohort=cycle is no sampling, so noise on single rounds gains nothing from it: add " +
			"mechanism=tree, or take cohort=poisson:0.1")
	case p.Against == Distributed && float64(k.Fewest()) > s.Expected:
		return fmt.Errorf("least=%d honest devices, beside %.0f %% that may collude with the coordinator, and a "+
			"round has about %.0f", p.Least, 100*Colluding, s.Expected)
	case p.Least > 1 && k.sampler() == account.Poisson:
		return fmt.Errorf("least=%d: whether so many came tells of the sample, and with cohort=poisson the epsilon "+
			"takes that for secret; leave least out, or take a cohort of a fixed size", p.Least)
	case p.Mechanism == Tree && s.Each != nil:
		return fmt.Errorf("mechanism=tree adds rounds up, and those of %s send different things: take mechanism=gauss",
			s.Method)
	case p.NoiseCohort > 0 && float64(p.NoiseCohort) < s.Expected:
		return fmt.Errorf("noise-cohort=%d is smaller than the cohort of about %.0f", p.NoiseCohort, s.Expected)
	}
	return nil
}

func (k *Stack) stages() []Stage {
	var out []Stage
	if k.Row > 0 {
		out = append(out, RowClip)
	}
	out = append(out, Clip, Quantise)
	if k.Cover.Kind == "dense" {
		out = append(out, Dense)
	}
	switch k.Against {
	case Distributed:
		if out = append(out, Share); k.Masked {
			out = append(out, Mask)
		}
		out = append(out, Sum)
	case Local:
		out = append(out, OwnNoise, Sum)
	default:
		if k.Masked {
			out = append(out, Mask)
		}
		out = append(out, Sum, Noise)
	}
	return append(out, Divide)
}

// sampler is the one that may be claimed: against who sees the cohort, none.
func (k *Stack) sampler() account.Sampler {
	if k.Against != Central || k.Mechanism == Tree {
		return account.None
	}
	return k.Setting.Sampler
}

// Events are what so many rounds of a noise multiplier cost.
func (k *Stack) Events(noise float64, rounds int) ([]account.Event, error) {
	e := k.event(noise, rounds)
	if k.Each != nil {
		return k.eachEvent(e, rounds), nil
	}
	if k.Mechanism == Tree {
		var steps []int64
		for left := rounds; left > 0; left -= k.Epoch {
			steps = append(steps, int64(min(left, k.Epoch)))
		}
		nodes, err := account.TreeRestarts(steps...)
		if err != nil {
			return nil, err
		}
		e.Mechanism, e.Nodes, e.Rounds = account.Tree, nodes, 1
	}
	return []account.Event{e}, nil
}

// event is so many releases of one multiplier, each on its own.
func (k *Stack) event(noise float64, rounds int) account.Event {
	e := account.Event{
		Mechanism: account.Gaussian, Adjacency: k.Adjacency, Sampler: k.sampler(), Q: 1, Noise: noise,
		Rounds: int64(rounds),
	}
	if e.Sampler != account.None {
		e.Q = k.Q
	}
	if k.Mechanism == Laplace {
		e.Mechanism = account.Laplace
	}
	return e
}

// OnPlan reports whether events are no more than what the noise was calibrated for,
// before round t, with so many releases of metrics to come: then that round, and all
// after it, are paid for.
func (k *Stack) OnPlan(t, metrics int, events []account.Event) bool {
	if k.Policy.Noise > 0 {
		return false
	}
	for _, e := range events {
		most := k.like(t, e.Noise)
		switch {
		case k.IsMetric(e):
			most = int64(k.Setting.Metrics - metrics)
		case k.Mechanism == Tree:
			most = int64((t + k.Epoch - 1) / k.Epoch)
		}
		if e.Rounds > most {
			return false
		}
	}
	return true
}

// Options are those of the accountant. A method with rations is made for a budget: where
// its rounds are plain Gaussian releases, they are one, and its exact curve is known.
func (k *Stack) Options() account.Options {
	if k.Rationed && k.Mechanism == Gauss && k.sampler() == account.None {
		return account.Options{Accountant: account.Exact}
	}
	return account.Options{Accountant: account.Accountant(k.Accountant)}
}

// calibrate finds the noise multiplier of a release.
func (k *Stack) calibrate() error {
	if k.Noise = k.Policy.Noise; k.Noise > 0 {
		return k.given()
	}
	var bad, err error
	k.Noise, k.Whole, err = account.Calibrate(k.Epsilon, k.Delta, k.Options(), func(noise float64) []account.Event {
		e, err := k.planned(noise, k.Rounds, k.Setting.Metrics)
		if err != nil {
			bad = err
		}
		return e
	})
	if err = errors.Join(bad, err); err != nil {
		return fmt.Errorf("privacy: no noise keeps epsilon=%g for %d rounds: %w", k.Epsilon, k.Rounds, err)
	}
	return nil
}

// planned are the events of so many rounds and so many releases of metrics.
func (k *Stack) planned(noise float64, rounds, metrics int) ([]account.Event, error) {
	e, err := k.Events(noise, rounds)
	if k.Policy.Metrics > 0 && metrics > 0 {
		m := k.MetricEvent()
		m.Rounds = int64(metrics)
		e = append(e, m)
	}
	return e, err
}

// given says what is wrong with a noise that was not calibrated: an accountant that
// does not know it, or a budget that has no room for one round.
func (k *Stack) given() error {
	cost := func(rounds, metrics int) (account.Result, error) {
		e, err := k.planned(k.Noise, rounds, metrics)
		if err != nil {
			return account.Result{}, err
		}
		return account.Epsilon(k.Delta, k.Options(), e...)
	}
	var err error
	if k.Whole, err = cost(k.Rounds, k.Setting.Metrics); err != nil {
		return fmt.Errorf("privacy: noise=%g: %w", k.Noise, err)
	}
	if k.Epsilon == 0 {
		return nil
	}
	first := 1
	if k.Mechanism == Tree { // it is paid for when it is begun
		first = min(k.Epoch, k.Rounds)
	}
	if r, err := cost(first, 1); err != nil || r.Epsilon > k.Epsilon {
		return errors.Join(err, fmt.Errorf("privacy: noise=%g costs epsilon %.4g in the first release, and the "+
			"budget is %g: more noise, or a larger epsilon", k.Noise, r.Epsilon, k.Epsilon))
	}
	return nil
}

// bitSensitivity is how far one device can move the count of unclipped ones: each
// sends its bit less one half.
func (k *Stack) bitSensitivity() float64 {
	if k.Adjacency == account.ReplaceOne {
		return 1
	}
	return 0.5
}

// split shares the noise of a release between the update and the clipping bit: two
// Gaussian queries on one sample are one with the joint multiplier.
func (k *Stack) split(noise float64) (vector, bit float64, err error) {
	if k.Adaptive == "off" {
		return noise, 0, nil
	}
	sens := k.bitSensitivity()
	if h := k.Balance; h > 0 {
		if k.Printed {
			sens = 2 // as the paper has it; one device moves the count by 1 at most
		}
		return noise / math.Sqrt(1-h), noise / math.Sqrt(h) * sens, nil
	}
	if bit = k.BitNoise; bit == 0 {
		bit = k.Expected / 20
	}
	w := bit / sens
	if w <= noise {
		return 0, 0, fmt.Errorf("the count of unclipped devices has noise of %.3g, which alone costs more than the "+
			"whole release may: add bit-noise=%.3g", bit, 2*noise*sens)
	}
	return 1 / math.Sqrt(1/(noise*noise)-1/(w*w)), bit, nil
}

// grid chooses the integers of a round: as fine as the exact sampler, and 32-bit sums
// under masks, allow.
func (k *Stack) grid(r *terms) error {
	for bits := 20; bits > 6 && r.levels == 0; bits-- {
		levels := math.Ldexp(1, bits)
		d := float64(k.deviation(r, levels))
		limit := float64(maxSigma)
		if k.Mechanism == Laplace {
			limit = 1 << 40
		}
		// what a device may send: under masks the sum must fit in 32 bits, and without them it is the same
		each := levels
		if k.Against == Distributed {
			each += 12 * d / math.Sqrt(float64(k.Least))
		}
		if d*math.Sqrt(k.most()) <= limit && k.Crowd()*each < 1<<31 {
			r.levels = levels
		}
	}
	if r.levels == 0 {
		return fmt.Errorf("privacy: noise of %.3g times the bound is too wide for exact integers: a larger epsilon, "+
			"fewer rounds, or a smaller cohort", r.vector)
	}
	bit := float64(bitDeviation(r.bit))
	if k.Against == Distributed && k.Adaptive != "off" &&
		k.Crowd()*(BitLevels+12*math.Ceil(bit/math.Sqrt(float64(k.Least)))) >= 1<<31 || bit > maxSigma {
		return fmt.Errorf("privacy: noise of %.3g on the count of unclipped devices is too wide for exact integers: "+
			"a smaller bit-noise", r.bit)
	}
	r.deviation = k.deviation(r, r.levels)
	if per := float64(r.deviation) / math.Sqrt(float64(k.Least)); k.Against == Distributed && per < 10 {
		return fmt.Errorf("privacy: a device's share of the noise has a deviation of %.1f integers: their sum is "+
			"not known to be as private as one draw below 10; lower least", per)
	}
	return nil
}

// Crowd is the most devices that a round can have, but for a chance below 1e-30.
func (k *Stack) Crowd() float64 {
	return math.Min(float64(k.Users), math.Ceil(k.Expected+12*math.Sqrt(k.Expected)+12))
}

// most is how often a deviation is in the sum, at most: once where the coordinator
// draws it.
func (k *Stack) most() float64 {
	switch k.Against {
	case Distributed:
		return math.Max(1, k.Crowd()/float64(k.Least))
	case Local:
		return math.Max(1, k.Crowd())
	}
	return 1
}

// deviation is that of a round's noise in integers, for so many levels, rounded up.
func (k *Stack) deviation(r *terms, levels float64) int64 {
	b := Bound{L1: k.Mechanism == Laplace, Levels: levels}
	sens := b.Sensitivity(r.numbers)
	if k.Adjacency == account.ReplaceOne {
		sens *= 2
	}
	x := r.vector * sens
	if k.NoiseCohort > 0 {
		x *= k.Expected / float64(k.NoiseCohort)
	}
	if k.Printed && k.Step > 0 {
		x /= k.Step // the coordinator's step multiplies what the paper adds after it
	}
	return max(1, ceil(x))
}

// Bound is what the devices of a round are told.
func (k *Stack) Bound(round int) Bound {
	return Bound{
		Clip: k.Clip, L1: k.Mechanism == Laplace, Row: k.Row, Levels: k.at(round).levels,
		Bit: k.Adaptive != "off", Late: k.Printed,
	}
}

// Unit is what an integer of a round's sums is worth.
func (k *Stack) Unit(round int) float64 {
	b := k.Bound(round)
	return b.Unit()
}
