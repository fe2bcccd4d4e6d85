package coordinator

import (
	"bytes"
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

// Settings are what a run trains, and how. They are fixed when it begins.
type Settings struct {
	Name   string            `json:"name"`
	Method string            `json:"method"` // in the registry, with plug-ins
	Params map[string]string `json:"params"`
	round.Config
	// with DP, or a method that says how large its numbers are: masks need a bound
	Masked bool `json:"masked"`

	// GroupSize is how many devices a masked sum is over, about; 0 for the whole cohort. A sum
	// of few can be checked more closely, and hides each among fewer.
	GroupSize int `json:"bucket,omitempty"`

	// Devices is N: the run begins when so many are enrolled. Who comes later gets
	// models and is in no sum.
	Devices int `json:"devices"`
	// Goal is the share of a cohort with which a round ends at once, and Least the one
	// without which it does not end at its deadline. Under DP a round ends at its deadline
	// with whoever came, if a sum of so few may be released: absent counts as zero.
	Goal     float64       `json:"goal"`
	Minimum  float64       `json:"least"`
	Deadline time.Duration `json:"deadline"`

	// EvalEvery is how many rounds lie between evaluations by devices; 0 for none.
	EvalEvery int `json:"readout"`
	// Deterministic takes all that is random from Seed, which devices are told: for tests that
	// compare with a simulation. Real devices refuse it.
	Deterministic bool   `json:"rehearsal"`
	Seed          uint64 `json:"seed"`

	// Features are columns that a Featured method reads. Devices have the values of their
	// users and of what those did; the coordinator has none.
	Features *rows.Features `json:"-"`

	methods *method.Registry // the coordinator's; nil means methods.Default()
}

// Check reports the first setting that makes no sense.
func (s *Settings) Check() error {
	share := func(x float64) bool { return x > 0 && x <= 1 }
	if err := s.Config.Check(); err != nil {
		return err
	}
	switch {
	case s.Devices < 1 || s.Devices > 1<<24:
		return fmt.Errorf("devices = %d: want 1 to %d", s.Devices, 1<<24)
	case s.Cohort.Exceeds(s.Devices):
		return fmt.Errorf("cohort = %d: the run is for %d devices; take fewer, or --cohort all", s.Cohort.Count,
			s.Devices)
	case !share(s.Goal) || !share(s.Minimum) || s.Minimum > s.Goal:
		return fmt.Errorf("goal = %g, least = %g: want shares above 0 and up to 1, and least no more than goal",
			s.Goal, s.Minimum)
	case s.Deadline < time.Second/10:
		return fmt.Errorf("deadline = %v: want a tenth of a second or more", s.Deadline)
	case s.Mean != aggregate.PerCohort && s.Mean != aggregate.Fixed:
		return fmt.Errorf("mean = %s: over a network nobody counts rows; want cohort or fixed", s.Mean)
	case s.Masked && s.Cohort.Kind == "poisson":
		return errors.New("masks with cohort=poisson: a masked sum needs enough devices, so that there is one tells " +
			"of the sample, which an epsilon takes for secret; " +
			"take a cohort of a fixed size, such as --cohort 100, or leave --secagg out")
	case s.maskedOnly() && s.fewest() < privacy.MinMaskedGroup:
		return fmt.Errorf("masks without dp and rounds of %d devices: nothing but the others hides a device in such "+
			"a sum; a round takes %d or more, of which a third may leave: "+
			"a larger cohort, or leave --secagg out", s.fewest(), privacy.MinMaskedGroup)
	case s.maskedOnly() && s.GroupSize > 0 && s.GroupSize < privacy.MinMaskedGroup:
		return fmt.Errorf("bucket = %d: without dp a masked sum is of %d devices or more; take %d, so that a third "+
			"may leave", s.GroupSize, privacy.MinMaskedSum, privacy.MinMaskedGroup)
	case s.Cohort.Check(s.Devices) != nil:
		return s.Cohort.Check(s.Devices)
	case s.GroupSize < 0 || s.GroupSize > 0 && !s.Masked:
		return fmt.Errorf("bucket = %d: want 0 or more, and with masks only", s.GroupSize)
	case s.DP.On() && s.DP.Trust == privacy.Local:
		return errors.New("trust=local: a device's own noise is simulated only; take trust=distributed with " +
			"--secagg on")
	}
	return s.readable()
}

// readable reports why evaluations by devices could never be had.
func (s *Settings) readable() error {
	switch {
	case s.EvalEvery < 0:
		return fmt.Errorf("readout = %d: want rounds between evaluations, or 0 for none", s.EvalEvery)
	case s.EvalEvery == 0:
	case s.Devices < privacy.MinMaskedSum:
		return fmt.Errorf("readout = %d: an evaluation is a sum over %d devices or more, and the run is for %d; "+
			"leave --readout out", s.EvalEvery, privacy.MinMaskedSum, s.Devices)
	case s.DP.On() && s.DP.Trust != privacy.Central:
		return fmt.Errorf("readout = %d with trust=%s: the coordinator would see the sums without their noise; "+
			"leave --readout out, or take trust=central", s.EvalEvery, s.DP.Trust)
	case s.DP.On() && s.DP.Metrics == 0:
		return fmt.Errorf("readout = %d with dp: the promise covers no metrics; add metrics=Z to --dp, such as "+
			"metrics=5, or leave --readout out", s.EvalEvery)
	}
	return nil
}

// evaluatesAfter reports whether devices evaluate the model after round t.
func (s *Settings) evaluatesAfter(t int) bool {
	return s.EvalEvery > 0 && ((t+1)%s.EvalEvery == 0 || t+1 == s.Rounds)
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
		return nil, fmt.Errorf("%s is trained where all rows are: it has no devices to wait for", s.Method)
	}
	return m, method.Check(m)
}

// maskedOnly reports whether sums are masked and have no noise: what hides a device in one is the
// others alone.
func (s *Settings) maskedOnly() bool { return s.Masked && !s.DP.On() }

// fewest is the smallest cohort that is drawn: the last of a cycle has what is left.
func (s *Settings) fewest() int {
	n := int(s.Cohort.Expected(s.Devices))
	if s.Cohort.Kind == "cycle" && n > 0 && s.Devices%n > 0 {
		return s.Devices % n
	}
	return n
}

// bits are those of sums without a promise.
func (s *Settings) bits() int {
	if s.DP.On() {
		return 0
	}
	return s.Bits
}

// every is how many rounds have one answer of a device at most, to which devices hold by
// themselves: where they choose when they come, and where a promise rests on it.
func (s *Settings) every() int {
	if s.Cohort.ByCheckIn() || s.DP.Mechanism == privacy.Tree {
		return s.Cohort.Epoch(s.Devices)
	}
	return 0
}

// narrow reports whether bits change the sums over a catalogue of so many items.
func (s *Settings) narrow(items int) bool {
	m, err := s.build()
	if err != nil {
		return false
	}
	p, err := s.plan(m, items)
	return err == nil && p.Bound(s.Devices) != privacy.WideBound(s.Devices)
}

// resumes reports whether a run that was begun with other settings goes on with these. The seed
// is the run's own, unless it is a rehearsal. Bits under a promise are none. A run without may be
// from before there were any: it goes on without, whatever is asked for.
func (s *Settings) resumes(begun *Settings) bool {
	now, then := *s, *begun
	if !now.Deterministic {
		now.Seed = then.Seed
	}
	if now.Bits, then.Bits = now.bits(), then.bits(); then.Bits == 0 {
		now.Bits = 0
	}
	return bytes.Equal(now.text(), then.text())
}

// plan makes the device's plan of a method for a catalogue.
func (s *Settings) plan(m method.Method, items int) (*local.Plan, error) {
	o, err := s.Local(items, s.Devices, s.Seed)
	if err != nil {
		return nil, err
	}
	o.Features, o.Dense, o.Integers = s.Features, true, true
	return local.NewPlan(m, o)
}

// MaxInteger is how many integers a device's numbers have on either side of 0 where sums are
// narrow, of a run that may begin; 0 where they are not.
func (s *Settings) MaxInteger(items int) (int64, error) {
	m, err := s.build()
	if err != nil {
		return 0, err
	}
	p, err := s.plan(m, items)
	if err != nil {
		return 0, err
	}
	return p.MaxInteger(), nil
}

// message is the plan as devices get it.
func (s *Settings) message(p *local.Plan, holds string) *pb.Plan {
	text, _ := s.DP.MarshalText()
	out := &pb.Plan{
		Method: s.Method, Items: uint32(p.Items), Users: uint32(s.Devices), Rounds: uint32(s.Rounds),
		Batch: uint32(s.Batch), Negatives: uint32(s.Negatives),
		Seed: s.Seed, Keep: s.Keep, Cover: "dense", Masked: s.Masked, Policy: string(text), Guarantee: holds,
		Bits:        uint32(s.bits()),
		ReportEvery: uint32(s.every()),
	}
	for _, k := range sorted(s.Params) {
		out.Params = append(out.Params, &pb.Setting{Key: k, Value: s.Params[k]})
	}
	if s.Features != nil {
		for _, side := range [][]rows.Column{s.Features.User, s.Features.Item, s.Features.Row} {
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

func (s *Settings) text() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // all of its fields have a form
	}
	return b
}

// differs names what another run's settings have otherwise, by its key.
func (s *Settings) differs(other *Settings) string {
	values := func(text []byte) map[string]json.RawMessage {
		out := map[string]json.RawMessage{}
		_ = json.Unmarshal(text, &out) // ours
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
			what = append(what, fmt.Sprintf("%s is %s and not %s", k, a[k], b[k]))
		}
	}
	if len(what) == 0 {
		return "it has other settings"
	}
	if more := len(what) - 3; more > 0 {
		what = append(what[:3], fmt.Sprintf("and %d more", more))
	}
	return "its " + strings.Join(what, ", ")
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
