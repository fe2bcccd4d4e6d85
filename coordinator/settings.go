package coordinator

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy"
)

// Settings say what a run trains and how. They are fixed when the run begins.
type Settings struct {
	Name   string            `json:"name"`
	Method string            `json:"method"` // a name in the registry of methods
	Params map[string]string `json:"params"`
	round.Config
	// Masked masks all sums. It requires DP, or a method with known ranges: masks need a bound.
	Masked bool `json:"masked"`

	// GroupSize is the approximate number of devices of a masked sum; 0 for the whole cohort. A
	// smaller group limits the damage of a lying device, and hides each device among fewer.
	GroupSize int `json:"group_size,omitempty"`

	// Devices is the number of active devices with which the first round begins, and the population that the
	// privacy accountant plans with. Devices that enrol later take part as well.
	Devices int `json:"devices"`
	// Goal is the share of a cohort whose reports end a round at once, and Minimum the share without
	// which a round does not end at its deadline. With DP a round ends at its deadline if its sum may
	// be released; absent devices contribute zero.
	Goal     float64       `json:"goal"`
	Minimum  float64       `json:"min_share"`
	Deadline time.Duration `json:"deadline"`

	// Runs is the number of runs that share the privacy budget; 0 means 1. Their releases together cost
	// at most the policy's epsilon.
	Runs int `json:"runs,omitempty"`

	// EvalEvery is the number of rounds between evaluations by devices; 0 for none.
	EvalEvery int `json:"eval_every"`
	// CountItems lets devices count their items once in a run, in a masked sum, also without evaluations:
	// devices without a history then recommend popular items. It is for methods that do not count items
	// themselves, and not possible with DP.
	CountItems bool `json:"count_items,omitempty"`
	// Deterministic takes all randomness from Seed, which devices know. It is for tests that compare
	// with a simulation; real devices refuse it.
	Deterministic bool   `json:"deterministic"`
	Seed          uint64 `json:"seed"`

	// Features are the columns that a Featured method reads, when a run begins. Begin keeps their
	// public part in the catalogue; only devices have the values of users and of their interactions.
	Features *rows.Features `json:"-"`

	methods *method.Registry // the coordinator's; nil means methods.Default()
}

// Check reports the first invalid setting.
func (s *Settings) Check() error {
	share := func(x float64) bool { return x > 0 && x <= 1 }
	if err := s.Config.Check(); err != nil {
		return err
	}
	switch {
	case s.Devices < 1 || s.Devices > 1<<24:
		return fmt.Errorf("devices = %d: must be 1 to %d", s.Devices, 1<<24)
	case s.Cohort.Exceeds(s.Devices):
		return fmt.Errorf("cohort = %d: must be at most devices = %d; choose fewer, or --cohort all", s.Cohort.Count,
			s.Devices)
	case s.Runs < 0 || s.Runs > 1 && !s.DP.On():
		return fmt.Errorf("runs = %d: must be 1 or more, and more than 1 requires --dp: without a privacy budget "+
			"any number of runs may follow each other", s.Runs)
	case !share(s.Goal) || !share(s.Minimum) || s.Minimum > s.Goal:
		return fmt.Errorf("goal = %g, min-share = %g: both must be above 0 and at most 1, and min-share at most goal",
			s.Goal, s.Minimum)
	case s.Deadline < time.Second/10:
		return fmt.Errorf("deadline = %v: must be at least 100ms", s.Deadline)
	case s.Mean != aggregate.PerCohort && s.Mean != aggregate.Fixed:
		return fmt.Errorf("mean = %s: a coordinator cannot count the devices of a row; must be cohort or fixed", s.Mean)
	case s.Masked && s.Cohort.Kind == "poisson":
		return errors.New("masks with cohort=poisson: a masked sum requires enough devices, so its existence would " +
			"reveal the size of the sample, which must stay secret; " +
			"choose a fixed size, such as --cohort 100, or omit --secagg")
	case s.Masked && s.DP.CheckMaskedGroup("cohort", s.Cohort.Smallest(s.Devices)) != nil:
		return s.DP.CheckMaskedGroup("cohort", s.Cohort.Smallest(s.Devices))
	case s.Masked && s.GroupSize > 0 && s.DP.CheckMaskedGroup("group-size", s.GroupSize) != nil:
		return s.DP.CheckMaskedGroup("group-size", s.GroupSize)
	case s.Cohort.Check(s.Devices) != nil:
		return s.Cohort.Check(s.Devices)
	case s.GroupSize < 0 || s.GroupSize > 0 && !s.Masked:
		return fmt.Errorf("group-size = %d: must be 0 or more, and requires --secagg", s.GroupSize)
	case s.DP.On() && s.DP.Trust == privacy.Local:
		return errors.New("trust=local: only simulations support it; use trust=distributed with --secagg on")
	case s.DP.On() && (s.DP.Printed || s.DP.NoiseCohort > 0):
		return errors.New("as-printed and noise-cohort are for simulations: the guarantee would not hold, and " +
			"devices refuse it")
	}
	return s.checkEvaluation()
}

// checkEvaluation reports why devices could never evaluate the model.
func (s *Settings) checkEvaluation() error {
	switch {
	case s.EvalEvery < 0:
		return fmt.Errorf("eval-every = %d: must be 0 or more", s.EvalEvery)
	case s.CountItems && s.DP.On():
		return errors.New("count-items with dp: no guarantee would cover the counts; omit --count-items, and use a " +
			"method that counts items while it trains (tacit-private, ials)")
	case s.CountItems && s.Devices < privacy.MinMaskedSum:
		return fmt.Errorf("count-items: a masked sum requires at least %d devices, and the run is for %d; omit "+
			"--count-items", privacy.MinMaskedSum, s.Devices)
	case s.EvalEvery == 0:
	case s.Devices < privacy.MinMaskedSum:
		return fmt.Errorf("eval-every = %d: an evaluation requires at least %d devices, and the run is for %d; "+
			"omit --eval-every", s.EvalEvery, privacy.MinMaskedSum, s.Devices)
	case s.DP.On() && s.DP.Trust != privacy.Central:
		return fmt.Errorf("eval-every = %d with trust=%s: the coordinator would see the sums without noise; "+
			"omit --eval-every, or use trust=central", s.EvalEvery, s.DP.Trust)
	case s.DP.On() && s.DP.Metrics == 0:
		return fmt.Errorf("eval-every = %d with dp: the guarantee covers no metrics; add metrics=5 to --dp "+
			"(a noise multiplier), or omit --eval-every", s.EvalEvery)
	}
	return nil
}

// evaluatesAfter reports whether devices evaluate the model after round t.
func (s *Settings) evaluatesAfter(t int) bool {
	return s.EvalEvery > 0 && ((t+1)%s.EvalEvery == 0 || t+1 == s.Rounds)
}

// evaluations is the number of evaluations of a run, which the privacy guarantee covers.
func (s *Settings) evaluations() int {
	if s.EvalEvery <= 0 {
		return 0
	}
	return (s.Rounds + s.EvalEvery - 1) / s.EvalEvery
}

// build makes the method.
func (s *Settings) build() (method.Method, error) {
	registry := s.methods
	if registry == nil {
		registry = methods.Default()
	}
	e, err := registry.Lookup(s.Method)
	if err != nil {
		return nil, err
	}
	m := e.Build()
	for k, v := range s.Params {
		if err := param.Set(m, k, v); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Method, err)
		}
	}
	if _, central := method.As[method.Central](m); central {
		return nil, fmt.Errorf("%s is a central method: it trains on all rows in one place and cannot run on devices",
			s.Method)
	}
	return m, method.Check(m)
}

// maskedOnly reports whether sums are masked and have no noise: only the other devices hide a device.
func (s *Settings) maskedOnly() bool { return s.Masked && !s.DP.On() }

// bits is the width of the numbers of a sum without DP; 0 with DP, which decides it.
func (s *Settings) bits() int {
	if s.DP.On() {
		return 0
	}
	return s.Bits
}

// reportEvery is the number of rounds in which a device reports at most once; 0 for no limit. Devices
// enforce it if they choose when to check in, or if the privacy guarantee depends on it.
func (s *Settings) reportEvery() int {
	if s.Cohort.ByCheckIn() || s.DP.Mechanism == privacy.Tree {
		return s.Cohort.Epoch(s.Devices)
	}
	return 0
}

// resumes reports whether a run that began with other settings continues with these. The run keeps
// its seed, unless it is deterministic.
func (s *Settings) resumes(begun *Settings) bool {
	now, then := *s, *begun
	if !now.Deterministic {
		now.Seed = then.Seed
	}
	now.Bits, then.Bits = now.bits(), then.bits()
	return bytes.Equal(now.text(), then.text())
}

// plan makes the plan of local training for a number of items and their features.
func (s *Settings) plan(m method.Method, items int, features *rows.Features) (*local.Plan, error) {
	o, err := s.Local(items, s.Devices, s.Seed)
	if err != nil {
		return nil, err
	}
	o.Features, o.Dense, o.Integers = features, true, true
	return local.NewPlan(m, o)
}

// MaxInteger is the largest magnitude of a device's numbers if bits limit the sums; otherwise 0.
func (s *Settings) MaxInteger(items int) (int64, error) {
	m, err := s.build()
	if err != nil {
		return 0, err
	}
	p, err := s.plan(m, items, s.Features)
	if err != nil {
		return 0, err
	}
	return p.MaxInteger(), nil
}

// message is the plan as devices receive it.
func (s *Settings) message(p *local.Plan, features *rows.Features) *pb.Plan {
	out := &pb.Plan{
		Method: s.Method, Items: uint32(p.Items), Users: uint32(s.Devices), Rounds: uint32(s.Rounds),
		Batch: uint32(s.Batch), Negatives: uint32(s.Negatives),
		Seed: s.Seed, Keep: s.Keep, Cover: "dense", Masked: s.Masked,
		Bits:        uint32(s.bits()),
		ReportEvery: uint32(s.reportEvery()),
		Policy:      textOf(s.DP), Cohort: textOf(s.Cohort), ServerRate: s.Server.Rate,
		Evaluations: uint32(s.evaluations()), GroupSize: uint32(s.GroupSize), Runs: uint32(max(s.Runs, 1)),
	}
	for _, k := range slices.Sorted(maps.Keys(s.Params)) {
		out.Params = append(out.Params, &pb.Setting{Key: k, Value: s.Params[k]})
	}
	if features != nil {
		for _, side := range [][]rows.Column{features.User, features.Item, features.Row} {
			for i := range side {
				out.Features = append(out.Features, side[i].Name)
			}
		}
	}
	for i := range p.Slots {
		out.Shape = append(out.Shape, uint64(p.Slots[i].Rows), uint64(p.Slots[i].Dim))
	}
	return out
}

// textOf is the text form of a setting.
func textOf(m encoding.TextMarshaler) string {
	b, err := m.MarshalText()
	if err != nil {
		panic(err) // every policy and every cohort has a text form
	}
	return string(b)
}

func (s *Settings) text() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // every field has a JSON form
	}
	return b
}

// differs names the settings in which another run differs, by their keys.
func (s *Settings) differs(other *Settings) string {
	values := func(text []byte) map[string]json.RawMessage {
		out := map[string]json.RawMessage{}
		_ = json.Unmarshal(text, &out) // text wrote it
		params := map[string]json.RawMessage{}
		_ = json.Unmarshal(out["params"], &params)
		delete(out, "params")
		maps.Copy(out, params)
		return out
	}
	a, b := values(s.text()), values(other.text())
	var what []string
	for _, k := range slices.Sorted(maps.Keys(a)) {
		if string(a[k]) != string(b[k]) && b[k] != nil {
			what = append(what, fmt.Sprintf("%s = %s, not %s", k, a[k], b[k]))
		}
	}
	if len(what) == 0 {
		return "its settings differ"
	}
	if more := len(what) - 3; more > 0 {
		what = append(what[:3], fmt.Sprintf("and %d more", more))
	}
	return "it has " + strings.Join(what, ", ")
}
