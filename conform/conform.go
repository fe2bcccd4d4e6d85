// Package conform is the conformance suite that every method must pass. A method's test is one
// line: conform.Method(t, build). The suite runs methods on a small synthetic data set, the
// board; it never reads files or real data.
package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// Build returns a new method with its parameters set.
type Build func() method.Method

// check is one rule of the contract. Its name states the rule.
type check struct {
	name string
	run  func(Build) error
}

var checks = []check{
	{"OptionalMethodsAreSpeltRight", optionalMethods},
	{"MethodsKeepNoState", keepsNoState},
	{"FindsTheHeldOutItem", findsHeldOut},
	{"GradientIsTheFiniteDifference", gradient},
	{"GradientOfEveryLossTermIsTheFiniteDifference", termGradients},
	{"SameBitsForAnyWorkerCount", sameBits},
	{"ResumesWithTheSameBits", resumes},
	{"PrivateSlotsStayOnTheDevice", staysOnDevice},
	{"LocalTrainingDoesNotAllocate", noAllocation},
	{"DevicesDoNotWriteToBroadcastSlots", readsBroadcast},
	{"ServerStepsChangeOnlyDeclaredSlots", changesDeclared},
	{"FusedStepEqualsDescend", fusedIsPlain},
	{"ScoreAndScoreAllAgree", scoresAlike},
	{"TheRoundsSumEqualsTheSumOfDeltas", sumIsRound},
	{"LooseClippingAndTinyNoiseChangeNothing", loosePrivacy},
	{"NoUpdateExceedsItsSensitivity", bounded},
	{"SameBitsUnderPrivacy", sameBitsPrivate},
	{"HostileDevicesDoNotPoisonTheModel", unpoisoned},
	{"AGuaranteeRequiresAFederatedMethod", needsFederation},
}

// private lists the checks that a privacy guarantee relies on.
var private = checks[len(checks)-5:]

// doesNotApply is the result of a check that does not apply to a method; it holds the reason.
type doesNotApply string

func (d doesNotApply) Error() string { return string(d) }

// Method checks a method against every rule of the contract.
func Method(t *testing.T, build Build) {
	t.Helper()
	run(t, build, checks)
}

// Gradients checks the gradients of a method and of its losses. Method includes these checks.
func Gradients(t *testing.T, build Build) {
	t.Helper()
	run(t, build, []check{
		{"GradientIsTheFiniteDifference", gradient},
		{"GradientOfEveryLossTermIsTheFiniteDifference", termGradients},
	})
}

// Private checks the rules that a privacy guarantee relies on. Method includes these checks.
func Private(t *testing.T, build Build) {
	t.Helper()
	run(t, build, private)
}

func run(t *testing.T, build Build, checks []check) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			err := c.run(build)
			if no := doesNotApply(""); errors.As(err, &no) {
				t.Skip(err)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

const (
	boardSize   = 80
	boardGroups = 4
)

// board returns a data set in which user u likes the items of one group: i with i = u mod 4.
// Item u is held out, and methods must find it. One user feature and one item feature give the
// group; the others carry no information.
func board() *data.Set {
	s := &data.Set{NumItems: boardSize, Start: []int{0}, Meta: data.Info{Name: "board", TimeKind: data.OrderOnly}}
	f := &s.Meta.Features
	f.User = []rows.Column{{Name: "group", Card: boardGroups}}
	f.Item = []rows.Column{{Name: "kind", Card: boardGroups + 2, Start: []uint32{0}}, {Name: "size"}}
	f.Row = []rows.Column{{Name: "hour", Card: 3}}
	for i := range uint32(boardSize) {
		f.User[0].Code = append(f.User[0].Code, i%boardGroups)
		f.Item[0].Code = append(f.Item[0].Code, i%boardGroups, boardGroups+i/boardGroups%2)
		f.Item[0].Start = append(f.Item[0].Start, 2*i+2)
		f.Item[1].Value = append(f.Item[1].Value, float32(i/8%5)/5)
	}
	for u := range boardSize {
		r := rng.New(rng.Test, uint64(u))
		var own []uint32
		for i := u % boardGroups; i < boardSize; i += boardGroups {
			if i != u {
				own = append(own, uint32(i))
			}
		}
		r.Shuffle(own)
		s.Item = append(append(s.Item, own...), uint32(u))
		for k := range len(own) + 1 {
			s.Time = append(s.Time, int64(k))
			f.Row[0].Code = append(f.Row[0].Code, r.Uint32n(3))
		}
		s.Start = append(s.Start, len(s.Item))
	}
	return s
}

// fair ranks the held-out item against ten candidates, none of which is drawn as a negative.
var fair = data.Protocol{Name: "board", Hide: data.HideCandidates, Sampled: 10}

func options(rounds int) sim.Options {
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.Batch = rounds, 32
	return o
}

// start prepares a run on the board.
func start(build Build, o sim.Options, jobs int) (*sim.Run, error) {
	s, err := data.NewSplit(board(), fair, 1)
	if err != nil {
		return nil, err
	}
	return sim.New(build(), s, o, 1, jobs)
}

// finish starts a run and runs it to its end.
func finish(build Build, o sim.Options, jobs int) (*sim.Run, error) {
	r, err := start(build, o, jobs)
	if err == nil {
		err = steps(r, o.Rounds)
	}
	return r, err
}

func steps(r *sim.Run, n int) error {
	for range n {
		if _, err := r.Step(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// findsHeldOut checks that for nearly every user the method ranks the held-out item above items
// of other groups. By chance it would for 1 user in 11. The check does not apply to a method
// that shares nothing: a device alone cannot know the item.
func findsHeldOut(build Build) error {
	r, err := finish(build, options(60), 2)
	if err != nil {
		return err
	}
	if !shares(r.Plan()) {
		return doesNotApply("the method shares nothing, so a device cannot know the held-out item")
	}
	first := 0
	for _, p := range r.Best.Test {
		if p.Above+p.Ties == 0 {
			first++
		}
	}
	if share := float64(first) / boardSize; share < 0.9 {
		return fmt.Errorf("the held-out item ranks first for %.0f%% of users; must be at least 90%%", 100*share)
	}
	return nil
}

func shares(p *local.Plan) bool {
	for _, s := range p.Slots {
		if s.Scope == method.Shared {
			return true
		}
	}
	return p.Central()
}

// federated reports whether the method trains on devices. Only such a method has dropouts and
// stragglers.
func federated(build Build) bool {
	_, central := method.As[method.Central](build())
	return !central
}

func sameBits(build Build) error {
	o := options(passRounds(build(), 3))
	if federated(build) {
		o.Dropout, o.Straggle = 0.1, 0.1
	}
	one, err := finish(build, o, 1)
	if err != nil {
		return err
	}
	three, err := finish(build, o, 3)
	if err != nil {
		return err
	}
	if a, b := one.Digest(), three.Digest(); a != b {
		return fmt.Errorf("digest with 1 worker is %s, with 3 workers %s; they must be equal", a, b)
	}
	return nil
}

// interrupted runs two rounds, saves a checkpoint, and loads it into another run with a
// different number of workers.
func interrupted(build Build, o sim.Options, first, then int) (half, again *sim.Run, err error) {
	if half, err = start(build, o, first); err != nil {
		return nil, nil, err
	}
	var file bytes.Buffer
	if err := errors.Join(steps(half, 2), half.Save(&file, "x")); err != nil {
		return nil, nil, err
	}
	if again, err = start(build, o, then); err != nil {
		return nil, nil, err
	}
	return half, again, again.Load(&file, "x")
}

func resumes(build Build) error {
	o := options(passRounds(build(), 4))
	if probe, err := start(build, o, 1); err != nil {
		return err
	} else if !probe.Plan().Serves(method.ServeOther) && federated(build) {
		o.Cohort.Kind, o.Cohort.Share = "share", 0.5
	}
	whole, err := finish(build, o, 2)
	if err != nil {
		return err
	}
	_, again, err := interrupted(build, o, 2, 1)
	if err != nil {
		return err
	}
	// The context interrupts the third evaluation, unless local training performs it.
	if _, err := again.Step(&soon{Context: context.Background()}); err != nil && again.Unevaluated == nil {
		return err
	}
	if err := steps(again, o.Rounds-again.EvaluatedRounds()); err != nil {
		return err
	}
	if a, b := whole.Digest(), again.Digest(); a != b {
		return fmt.Errorf("digest of the uninterrupted run is %s, of the resumed run %s; they must be equal", a, b)
	}
	return nil
}

// soon is a context that is cancelled from the second call of Err on.
type soon struct {
	context.Context
	asked atomic.Bool
}

func (s *soon) Err() error {
	if s.asked.Swap(true) {
		return context.Canceled
	}
	return nil
}
