package privacy

import (
	"errors"
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/privacy/account"
)

// Run describes the training run that a policy is checked against.
type Run struct {
	Method       string
	Central      bool // the method trains on pooled data
	Sends        bool // devices send updates
	Users        int
	Expected     float64 // expected cohort size
	Sampler      account.Sampler
	Q            float64
	Epoch        int  // each device takes part at most once in this many rounds; 0 if unlimited
	SelfSelected bool // devices choose when they take part (checkin cohorts)
	Rounds       int
	Runs         int          // runs that share the budget; 0 means 1
	Numbers      int          // length of an update
	Mean         string       // cohort, row or fixed
	Step         float64      // server learning rate
	Masked       bool         // secure aggregation is on
	Drawn        bool         // each device draws its own noise; otherwise a simulation draws their sum
	Metrics      int          // evaluations of a run whose metrics are released
	SplitsBudget bool         // the method splits the budget between rounds
	PerRound     []RoundShare // by round; nil if all rounds are alike
}

// Stack is a policy that was checked against a run, with its noise. Adaptive clipping
// moves Clip from round to round; everything else is fixed.
type Stack struct {
	Policy
	Run
	Cover       Cover
	Adjacency   account.Adjacency
	Noise       float64 // noise multiplier of a whole release, including the clipping bit
	UpdateNoise float64 // noise multiplier of the update alone
	CountNoise  float64 // deviation of the noise on the count of unclipped devices
	stageList   []stage
	Clip        float64 // clipping bound of the next round
	// Total is what all rounds of all runs cost, with the metrics that are released.
	Total  account.Result
	rounds []terms // by round, or one for all rounds
}

// Build checks a policy against a run and calibrates its noise.
func Build(p Policy, s Run) (*Stack, error) {
	k := &Stack{Policy: p, Run: s, Clip: p.Clip}
	var err error
	if k.Cover, err = p.Covers(); err != nil {
		return nil, err
	}
	if err := errors.Join(k.checkRun(), k.checkShares()); err != nil {
		return nil, err
	}
	k.stageList = k.stages()
	if err := checkStages(p.Trust, k.stageList...); err != nil {
		return nil, err
	}
	k.Adjacency = account.ZeroOut
	if p.Adjacency == "replace-one" || p.Adjacency == "" && k.sampler() == account.WithoutReplacement {
		k.Adjacency = account.ReplaceOne
	}
	if err := k.calibrate(); err != nil {
		return nil, err
	}
	return k, k.setRounds()
}

// maxRuns is ten runs a day for more than a century.
const maxRuns = 1 << 19

// checkRun reports the first contradiction between the run and the policy.
func (k *Stack) checkRun() error {
	p, s := &k.Policy, &k.Run
	switch {
	case s.Central:
		return fmt.Errorf("%s trains on pooled data, so no noise on a sum over devices protects anyone; use a "+
			"federated method", s.Method)
	case !s.Sends:
		return fmt.Errorf("%s sends nothing, so it spends no privacy budget: remove dp", s.Method)
	case s.Mean != "fixed":
		return fmt.Errorf("mean=%s divides by a count that is not public; dp requires mean=fixed", s.Mean)
	case s.Runs < 0 || s.Runs > maxRuns:
		return fmt.Errorf("runs=%d: must be 1 to %d", s.Runs, maxRuns)
	case p.Delta*float64(s.Users) >= 1:
		return fmt.Errorf("delta=%g with %d users: revealing one user at random would satisfy it; delta must be "+
			"below 1/users, such as %.0e", p.Delta, s.Users,
			math.Pow(10, math.Floor(-math.Log10(10*float64(s.Users)))))
	case p.Trust == Distributed && !s.Masked:
		return errors.New("trust=distributed requires secure aggregation, because one device's share of the noise " +
			"hides " +
			"nothing; add --secagg on, or --secagg assumed to simulate its outcome")
	case p.Mechanism == Tree && s.Epoch == 0:
		return errors.New("mechanism=tree requires a limit on participation: add cohort=cycle:100 (devices take " +
			"turns), " +
			"or cohort=checkin:100/20 (at most once in 20 rounds)")
	case p.Mechanism != Tree && s.SelfSelected:
		return errors.New("cohort=checkin: devices choose when they take part, so the accountant cannot assume " +
			"sampling: " +
			"add mechanism=tree")
	case p.Mechanism != Tree && s.Epoch != 0:
		return errors.New("cohort=cycle is not random sampling and does not amplify privacy: add mechanism=tree, " +
			"or use cohort=poisson:0.1")
	case p.Trust == Distributed && float64(k.RequiredDevices()) > s.Expected:
		return fmt.Errorf("min-devices=%d honest devices plus %.0f %% that may collude with the coordinator exceed "+
			"the cohort of about %.0f", p.MinDevices, 100*colludingShare, s.Expected)
	case s.Masked && p.CheckMaskedGroup("secagg", int(s.Expected)) != nil:
		return p.CheckMaskedGroup("secagg", int(s.Expected))
	case p.MinDevices > 1 && k.sampler() == account.Poisson:
		return fmt.Errorf("min-devices=%d: whether enough devices took part reveals the sample, which cohort=poisson "+
			"requires to be secret; remove min-devices, or use a cohort of a fixed size", p.MinDevices)
	case p.Mechanism == Tree && s.PerRound != nil:
		return fmt.Errorf("mechanism=tree requires rounds that send the same slots, and those of %s differ: use "+
			"mechanism=gauss", s.Method)
	case p.NoiseCohort > 0 && float64(p.NoiseCohort) < s.Expected:
		return fmt.Errorf("noise-cohort=%d is smaller than the cohort of about %.0f", p.NoiseCohort, s.Expected)
	}
	return nil
}

func (k *Stack) stages() []stage {
	var out []stage
	if k.RowClip > 0 {
		out = append(out, stageRowClip)
	}
	out = append(out, stageClip, stageQuantise)
	if k.Cover.Kind == "dense" {
		out = append(out, stageDense)
	}
	switch k.Trust {
	case Distributed:
		if out = append(out, stageNoiseShare); k.Masked {
			out = append(out, stageMask)
		}
		out = append(out, stageSum)
	case Local:
		out = append(out, stageOwnNoise, stageSum)
	default:
		if k.Masked {
			out = append(out, stageMask)
		}
		out = append(out, stageSum, stageNoise)
	}
	return append(out, stageDivide)
}

// sampler is the sampler that the accountant may assume: none if an observer sees the cohort.
func (k *Stack) sampler() account.Sampler {
	if k.Trust != Central || k.Mechanism == Tree {
		return account.None
	}
	return k.Run.Sampler
}

// Events lists what the given number of rounds costs at a noise multiplier.
func (k *Stack) Events(noise float64, rounds int) ([]account.Event, error) {
	e := k.event(noise, rounds)
	if k.PerRound != nil {
		return k.perRoundEvents(e, rounds), nil
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

// event is a number of independent releases at one noise multiplier.
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

// OnPlan reports whether the events spent before round t of a run, and those of the rounds from t on
// with the given number of metric releases, are at most those that the noise was calibrated for.
// Then the budget covers that round and all later ones of the run. The events are those of all runs
// that share the budget.
func (k *Stack) OnPlan(t, metrics int, events []account.Event) bool {
	return k.Policy.Noise == 0 && k.within(t, metrics, events)
}

// within is OnPlan whether or not the noise was calibrated.
func (k *Stack) within(t, metrics int, events []account.Event) bool {
	runs := int64(k.runs())
	for _, e := range events {
		var most int64
		switch {
		case k.IsMetric(e):
			most = runs*int64(k.Run.Metrics) - int64(metrics)
		default:
			all, left := k.countLike(e, 0), k.countLike(e, t)
			most = runs*all - left
		}
		if e.Rounds > most {
			return false
		}
	}
	return true
}

// runs is the number of runs that share the budget.
func (k *Stack) runs() int { return max(k.Runs, 1) }

// Options returns the accountant's options. If a method splits the budget itself and its
// rounds are plain Gaussian releases, they compose to one Gaussian, whose exact curve is known.
func (k *Stack) Options() account.Options {
	if k.SplitsBudget && k.Mechanism == Gauss && k.sampler() == account.None {
		return account.Options{Accountant: account.Exact}
	}
	return account.Options{Accountant: account.Accountant(k.Accountant)}
}

// calibrate sets the noise multiplier of a release.
func (k *Stack) calibrate() error {
	if k.Noise = k.Policy.Noise; k.Noise > 0 {
		return k.checkGivenNoise()
	}
	var bad, err error
	k.Noise, k.Total, err = account.Calibrate(k.Epsilon, k.Delta, k.Options(), func(noise float64) []account.Event {
		e, err := k.planned(noise, k.Rounds, k.Run.Metrics, k.runs())
		if err != nil {
			bad = err
		}
		return e
	})
	if err = errors.Join(bad, err); err != nil {
		return fmt.Errorf("no noise multiplier keeps epsilon=%g for %d rounds of %d runs: %w", k.Epsilon, k.Rounds,
			k.runs(), err)
	}
	return nil
}

// planned lists the events of a number of runs, each of a number of rounds and of metric releases.
func (k *Stack) planned(noise float64, rounds, metrics, runs int) ([]account.Event, error) {
	e, err := k.Events(noise, rounds)
	if k.Policy.Metrics > 0 && metrics > 0 {
		m := k.MetricEvent()
		m.Rounds = int64(metrics)
		e = append(e, m)
	}
	for i := range e {
		e[i].Rounds *= int64(runs)
	}
	return e, err
}

// checkGivenNoise checks a noise multiplier that the user set: the accountant must support it
// and the budget must cover at least one round.
func (k *Stack) checkGivenNoise() error {
	cost := func(rounds, metrics, runs int) (account.Result, error) {
		e, err := k.planned(k.Noise, rounds, metrics, runs)
		if err != nil {
			return account.Result{}, err
		}
		return account.Epsilon(k.Delta, k.Options(), e...)
	}
	var err error
	if k.Total, err = cost(k.Rounds, k.Run.Metrics, k.runs()); err != nil {
		return fmt.Errorf("noise=%g: %w", k.Noise, err)
	}
	if k.Epsilon == 0 {
		return nil
	}
	first := 1
	if k.Mechanism == Tree { // a tree is paid for when it starts
		first = min(k.Epoch, k.Rounds)
	}
	if r, err := cost(first, 1, 1); err != nil || r.Epsilon > k.Epsilon {
		return errors.Join(err, fmt.Errorf("noise=%g costs epsilon %.4g in the first release and exceeds the "+
			"budget of %g; raise noise or epsilon", k.Noise, r.Epsilon, k.Epsilon))
	}
	return nil
}

// bitSensitivity is how far one device can move the count of unclipped devices: each
// sends its bit minus one half.
func (k *Stack) bitSensitivity() float64 {
	if k.Adjacency == account.ReplaceOne {
		return 1
	}
	return 0.5
}

// split divides the noise of a release between the update and the clipping bit: two
// Gaussian queries on one sample are one query with the joint multiplier.
func (k *Stack) split(noise float64) (vector, bit float64, err error) {
	if k.Adaptive == "off" {
		return noise, 0, nil
	}
	sens := k.bitSensitivity()
	if h := k.Balance; h > 0 {
		if k.Printed {
			sens = 2 // the paper's value; one device moves the count by at most 1
		}
		return noise / math.Sqrt(1-h), noise / math.Sqrt(h) * sens, nil
	}
	if bit = k.BitNoise; bit == 0 {
		bit = k.Expected / 20
	}
	w := bit / sens
	if w <= noise {
		return 0, 0, fmt.Errorf("bit-noise=%.3g on the count of unclipped devices costs more than a whole release "+
			"may: add bit-noise=%.3g", bit, 2*noise*sens)
	}
	return 1 / math.Sqrt(1/(noise*noise)-1/(w*w)), bit, nil
}

// grid chooses the quantisation of a round: as fine as the exact sampler and 32-bit masked
// sums allow.
func (k *Stack) grid(r *terms) error {
	for bits := 20; bits > 6 && r.levels == 0; bits-- {
		levels := math.Ldexp(1, bits)
		d := float64(k.deviation(r, levels))
		limit := float64(maxSigma)
		if k.Mechanism == Laplace {
			limit = 1 << 40
		}
		// the largest integer a device may send; masked or not, the sum must fit in 32 bits
		each := levels
		if k.Trust == Distributed {
			each += 12 * d / math.Sqrt(float64(k.MinDevices))
		}
		if d*math.Sqrt(k.maxDraws()) <= limit && k.MaxCohort()*each < 1<<31 {
			r.levels = levels
		}
	}
	if r.levels == 0 {
		return fmt.Errorf("noise of %.3g times the clipping bound exceeds the range of exact integers; use a larger "+
			"epsilon, fewer rounds, or a smaller cohort", r.vector)
	}
	bit := float64(bitDeviation(r.bit))
	if k.Trust == Distributed && k.Adaptive != "off" &&
		k.MaxCohort()*(BitLevels+float64(12*math.Ceil(bit/math.Sqrt(float64(k.MinDevices))))) >= 1<<31 ||
		bit*math.Sqrt(k.maxDraws()) > maxSigma {
		return fmt.Errorf("bit-noise=%.3g exceeds the range of exact integers; use a smaller bit-noise", r.bit)
	}
	r.deviation = k.deviation(r, r.levels)
	if per := float64(r.deviation) / math.Sqrt(float64(k.MinDevices)); k.Trust == Distributed && per < 10 {
		return fmt.Errorf("a device's share of the noise has a deviation of %.1f integers, and below 10 their sum is "+
			"not proven to be as private as one draw; lower min-devices", per)
	}
	return nil
}

// MaxCohort is the largest cohort of a round, except with probability below 1e-30.
func (k *Stack) MaxCohort() float64 {
	return math.Min(float64(k.Users), math.Ceil(k.Expected+float64(12*math.Sqrt(k.Expected))+12))
}

// maxDraws is the largest number of noise draws in one sum: 1 if the coordinator draws it.
func (k *Stack) maxDraws() float64 {
	switch k.Trust {
	case Distributed:
		return math.Max(1, k.MaxCohort()/float64(k.MinDevices))
	case Local:
		return math.Max(1, k.MaxCohort())
	}
	return 1
}

// deviation is the deviation of a round's noise in integers at a number of levels, rounded up.
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
		x /= k.Step // the paper adds the noise after the server step
	}
	return max(1, ceil(x))
}

// Bound is what the devices of a round must enforce.
func (k *Stack) Bound(round int) Bound {
	return Bound{
		Clip: k.Clip, L1: k.Mechanism == Laplace, RowClip: k.RowClip, Levels: k.at(round).levels,
		Bit: k.Adaptive != "off", BitAfterClip: k.Printed,
	}
}

// Unit is the value of one integer step of a round's sums.
func (k *Stack) Unit(round int) float64 {
	b := k.Bound(round)
	return b.Unit()
}
