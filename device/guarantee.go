package device

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
)

// ErrGuarantee means that a plan does not keep the privacy guarantee that it claims, or contradicts the
// one that the device was given before.
var ErrGuarantee = errors.New("the device refuses the coordinator's plan")

// Guarantee is the privacy guarantee of a budget period, as the device itself computed it from the plan.
type Guarantee struct {
	Policy      string  `json:"policy"` // "none" without a guarantee
	Epsilon     float64 `json:"epsilon"`
	Delta       float64 `json:"delta"`
	Against     string  `json:"against"` // against whom it holds, and under which assumption
	Period      uint32  `json:"period"`  // budget period, from 1
	Run         uint32  `json:"run"`     // run of the budget period, from 1
	Runs        uint32  `json:"runs"`    // runs that the guarantee covers
	Rounds      uint32  `json:"rounds"`  // of a run
	Evaluations uint32  `json:"evaluations"`
	Cohort      string  `json:"cohort"`
	Devices     uint32  `json:"devices"` // planned number
	Method      string  `json:"method"`
	Params      string  `json:"params"`
	Masked      bool    `json:"masked"`
	ServerRate  float64 `json:"server_rate"`
}

// policy is the privacy policy as text; none before the first plan.
func (g *Guarantee) policy() string {
	if g == nil {
		return "none"
	}
	return g.Policy
}

// On reports whether there is a guarantee.
func (g *Guarantee) On() bool { return g != nil && g.Policy != "" && g.Policy != "none" }

// String describes the guarantee to the owner of the device.
func (g *Guarantee) String() string {
	if !g.On() {
		return "no differential privacy"
	}
	runs := "1 run"
	if g.Runs != 1 {
		runs = fmt.Sprintf("%d runs", g.Runs)
	}
	return fmt.Sprintf("epsilon %.3g at delta %.3g for %s of %d rounds (budget period %d), computed by this device; "+
		"it holds against %s", g.Epsilon, g.Delta, runs, g.Rounds, g.Period, g.Against)
}

// recomputed is what a device derives from a plan instead of believing the coordinator.
type recomputed struct {
	done  bool
	stack *privacy.Stack // nil without a privacy policy
	err   error
	masks map[maskedSize]secagg.Params // by the size of a masked sum
}

// maskedSize is what the parameters of a masked sum depend on.
type maskedSize struct {
	devices, length int
	largest         int64
	active          bool
}

// guarantee recomputes the privacy guarantee of a plan, once.
func (v *vetted) guarantee() (*privacy.Stack, error) {
	if !v.done {
		v.stack, v.err = v.buildStack()
		v.done = true
	}
	return v.stack, v.err
}

// buildStack builds the stack that the coordinator must have built from the same plan.
func (v *vetted) buildStack() (*privacy.Stack, error) {
	p := v.spec
	if !v.hasPolicy() {
		return nil, nil
	}
	c := round.Config{Rounds: int(p.Rounds)}
	c.Server.Rate = p.ServerRate
	if err := c.DP.UnmarshalText([]byte(p.Policy)); err != nil {
		return nil, fmt.Errorf("%w: its privacy policy is invalid: %w", ErrGuarantee, err)
	}
	if err := c.Cohort.UnmarshalText([]byte(p.Cohort)); err != nil {
		return nil, fmt.Errorf("%w: cohort %q: %w", ErrGuarantee, p.Cohort, err)
	}
	switch {
	case c.DP.Printed || c.DP.NoiseCohort > 0:
		return nil, fmt.Errorf("%w: as-printed and noise-cohort are for simulations: the guarantee would not hold",
			ErrGuarantee)
	case c.DP.Trust == privacy.Local:
		return nil, fmt.Errorf("%w: trust=local is for simulations", ErrGuarantee)
	}
	run := c.PrivacyRun(p.Method, v.plan, int(p.Users), p.Masked, p.Masked, int(p.Evaluations))
	run.Runs = int(p.Runs)
	k, err := privacy.Build(c.DP, run)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: its privacy policy %s does not hold: %w", ErrGuarantee, p.Policy, err)
	case math.IsInf(k.Total.Epsilon, 0) || math.IsNaN(k.Total.Epsilon):
		return nil, fmt.Errorf("%w: its privacy policy %s guarantees nothing: epsilon is infinite", ErrGuarantee,
			p.Policy)
	case c.DP.Mechanism == privacy.Tree && int(p.ReportEvery) < k.Epoch:
		return nil, fmt.Errorf("%w: a device may report once in %d rounds, but the guarantee assumes once in %d",
			ErrGuarantee, p.ReportEvery, k.Epoch)
	}
	return k, nil
}

// describe returns the guarantee of a plan in a budget period.
func (v *vetted) describe(m *pb.Manifest) (*Guarantee, error) {
	k, err := v.guarantee()
	if err != nil {
		return nil, err
	}
	p := v.spec
	g := &Guarantee{
		Policy: "none", Period: m.BudgetPeriod, Run: m.RunInPeriod, Runs: max(p.Runs, 1), Rounds: p.Rounds,
		Evaluations: p.Evaluations, Cohort: p.Cohort, Devices: p.Users, Method: p.Method, Masked: p.Masked,
		ServerRate: p.ServerRate,
	}
	for _, s := range p.Params {
		g.Params += fmt.Sprintf("%s=%q ", s.Key, s.Value)
	}
	g.Params = strings.TrimSpace(g.Params)
	if k != nil {
		g.Policy, g.Epsilon, g.Delta, g.Against = p.Policy, k.Total.Epsilon, k.Delta, k.Against()
	}
	return g, nil
}

// hasPolicy reports whether the plan has a privacy policy. Then a report must not show that a device
// has no training data.
func (v *vetted) hasPolicy() bool { return v.spec.Policy != "" && v.spec.Policy != "none" }

// minDevices returns the minimum size of a masked sum of a kind. Only the other devices hide a device in
// a sum to which the devices add no noise.
func (v *vetted) minDevices(kind pb.Kind) int {
	n := 2
	if v.stack != nil {
		n = max(n, v.stack.RequiredDevices())
	}
	if v.stack == nil || !v.stack.Drawn || kind != pb.Kind_TRAIN {
		n = max(n, privacy.MinMaskedSum)
	}
	return n
}

// checkGuarantee returns an error if a task protects the device less than its plan claims.
func (v *vetted) checkGuarantee(t *pb.Task) error {
	k, err := v.guarantee()
	if err != nil {
		return err
	}
	if v.spec.Masked && t.Masking == nil {
		return weaker("the plan requires masked updates, but the task has no masking")
	}
	if t.Masking != nil {
		if err := v.checkMasking(t); err != nil {
			return err
		}
	}
	switch {
	case t.Kind == pb.Kind_TRAIN && k != nil:
		return checkNoise(t, k)
	case t.Kind == pb.Kind_COUNT && k != nil:
		return weaker("the plan's privacy policy does not cover item counts")
	case t.Kind == pb.Kind_EVALUATE && k != nil && (k.Trust != privacy.Central || k.Policy.Metrics == 0):
		return weaker("the plan's privacy policy does not cover evaluations")
	case t.Kind == pb.Kind_EVALUATE && k != nil && v.spec.Evaluations == 0:
		return weaker("the plan's privacy guarantee covers no evaluation")
	}
	return nil
}

// checkNoise compares the bound and the noise of a training task with those of the guarantee. More noise
// than required is accepted.
func checkNoise(t *pb.Task, k *privacy.Stack) error {
	at, got := int(t.Round), t.Bound
	want := k.Bound(at)
	var noise, bitNoise, largest int64
	if k.Drawn {
		noise, largest = k.NoiseShare(at), k.MaxInteger(at)
		if want.Bit {
			bitNoise = k.CountNoiseShare(at)
		}
	}
	switch {
	case at >= k.Rounds:
		return weaker("round %d: the guarantee covers %d rounds", at+1, k.Rounds)
	case got.PerSlot:
		return weaker("the task has no clipping bound")
	case got.Noise < noise:
		return weaker("the task requires noise of %d, but the guarantee %d", got.Noise, noise)
	case got.BitNoise < bitNoise:
		return weaker("the task requires noise of %d on the clipping bit, but the guarantee %d", got.BitNoise, bitNoise)
	case got.Clip != want.Clip && !want.Bit:
		return weaker("the task has a clipping bound of %g, the policy %g", got.Clip, want.Clip)
	case got.Levels != want.Levels:
		return weaker("the task has %g levels, the guarantee %g", got.Levels, want.Levels)
	case got.Row != want.RowClip || got.L1 != want.L1 || got.Bit != want.Bit || got.Late != want.BitAfterClip:
		return weaker("the task clips in another way than the policy")
	case got.Max < largest:
		return weaker("the task limits numbers to %d, which cuts the noise off: must be at least %d", got.Max, largest)
	}
	return nil
}

// checkMasking compares a masked sum with the one that both sides must plan for that many devices.
func (v *vetted) checkMasking(t *pb.Task) error {
	m := t.Masking
	want, err := v.planMasks(maskedSize{int(m.Devices), int(m.Length), t.Bound.Max, m.Active})
	if err != nil {
		return weaker("no masked sum of %d devices is safe: %w", m.Devices, err)
	}
	if least := v.minDevices(t.Kind); int(m.MinDevices) < least {
		return weaker("a masked sum of %d devices: must be at least %d", m.MinDevices, least)
	}
	switch {
	case int(m.Degree) != want.Degree:
		return weaker("%d neighbours in a masked sum of %d devices: must be %d", m.Degree, m.Devices, want.Degree)
	case int(m.Threshold) != want.Threshold:
		return weaker("%d shares recover a secret among %d devices: must be %d", m.Threshold, m.Devices, want.Threshold)
	case int(m.MinDevices) < want.MinDevices:
		return weaker("a masked sum of %d of %d devices: must be at least %d", m.MinDevices, m.Devices, want.MinDevices)
	case int(m.Bits) < want.Bits:
		return weaker("%d bits for a masked sum of %d devices: must be at least %d", m.Bits, m.Devices, want.Bits)
	}
	return nil
}

// planMasks is secagg.Plan, which is slow for large sums. All attempts at a round have few sizes.
func (v *vetted) planMasks(size maskedSize) (secagg.Params, error) {
	if p, ok := v.masks[size]; ok {
		return p, nil
	}
	risk := privacy.MaskingRisk
	risk.Active = size.active
	p, err := secagg.Plan(size.devices, size.length, size.largest, risk)
	if err != nil {
		return p, err
	}
	if len(v.masks) >= 64 || v.masks == nil {
		v.masks = map[maskedSize]secagg.Params{}
	}
	v.masks[size] = p
	return p, nil
}
