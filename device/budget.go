package device

import (
	"bytes"
	"fmt"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
)

// spending is what a device keeps to hold a coordinator to its guarantee. All of it is saved with the
// report or the model that changes it.
type spending struct {
	Guarantee *Guarantee   `json:"guarantee,omitempty"` // of the newest plan
	Trained   uint32       `json:"trained,omitempty"`   // training reports under a guarantee in this budget period
	Evaluated uint32       `json:"evaluated,omitempty"` // evaluations under a guarantee in this budget period
	Answered  events       `json:"answered,omitempty"`  // cost of both in this budget period
	Limit     *reportLimit `json:"limit,omitempty"`     // of the current run
	Tally     tally        `json:"tally,omitzero"`
}

// reportLimit is the last training report in a run whose plan limits reports to one in every ReportEvery
// rounds. The device enforces the limit itself: a report counts when it is made, whatever the coordinator
// says, and the limits are those of the first report. Runs have increasing numbers, and a device answers
// no task of an earlier run, so it keeps the limit of the current run only.
type reportLimit struct {
	Run         []byte `json:"run"`
	ReportEvery uint32 `json:"every"`
	Rounds      uint32 `json:"rounds"`
	Round       uint32 `json:"round"`
}

// checkOrder returns an error if a manifest goes back: versions and run numbers never decrease, and each
// run number has one run.
func checkOrder(old, m *pb.Manifest) error {
	sameRun := bytes.Equal(m.Run, old.Run)
	switch {
	case m.Version <= old.Version:
		return fmt.Errorf("the coordinator offers model version %d, but the device has version %d: versions must "+
			"increase", m.Version, old.Version)
	case m.RunNumber < old.RunNumber || (m.RunNumber == old.RunNumber) != sameRun:
		return fmt.Errorf("the coordinator offers a model of run %d (%.4x), but the device has one of run %d (%.4x): "+
			"run numbers must increase", m.RunNumber, m.Run, old.RunNumber, old.Run)
	case m.BudgetPeriod < old.BudgetPeriod:
		return fmt.Errorf("the coordinator is in budget period %d, but the device has seen period %d: periods must "+
			"increase", m.BudgetPeriod, old.BudgetPeriod)
	}
	return nil
}

// checkPlan returns an error if the guarantee of a new plan contradicts the one that the device was given
// in the same budget period.
func (s *spending) checkPlan(g *Guarantee) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrGuarantee, fmt.Errorf(format, args...))
	}
	if g.On() && g.Period == 0 {
		return refuse("a privacy policy without a budget period")
	}
	if g.On() && g.Run > g.Runs {
		return refuse("run %d of budget period %d: the guarantee covers %d", g.Run, g.Period, g.Runs)
	}
	old := s.Guarantee
	if !old.On() || old.Period != g.Period {
		return nil
	}
	for _, x := range []struct {
		what        string
		before, now any
	}{
		{"privacy policy", old.Policy, g.Policy},
		{"method", old.Method, g.Method},
		{"parameters", old.Params, g.Params},
		{"number of devices", old.Devices, g.Devices},
		{"cohort", old.Cohort, g.Cohort},
		{"masks", old.Masked, g.Masked},
		{"server's step size", old.ServerRate, g.ServerRate},
		{"number of runs", old.Runs, g.Runs},
		{"number of rounds", old.Rounds, g.Rounds},
		{"number of evaluations", old.Evaluations, g.Evaluations},
		{"run", max(old.Run, g.Run), g.Run},
	} {
		if x.before != x.now {
			return refuse("within budget period %d its %s changed from %v to %v; only a reset of the budget may "+
				"change it", g.Period, x.what, x.before, x.now)
		}
	}
	return nil
}

// adopt notes that the device has the model of a new manifest; old is nil for its first one. It returns
// what the owner should know.
func (s *spending) adopt(old, m *pb.Manifest, g *Guarantee, k *privacy.Stack) (news string) {
	before := s.Guarantee
	s.Tally.release(old, m, before, k)
	s.Guarantee = g
	if old == nil || m.BudgetPeriod <= old.BudgetPeriod {
		return ""
	}
	s.Trained, s.Evaluated, s.Answered = 0, 0, nil
	if old.BudgetPeriod == 0 { // the first run with a privacy guarantee
		return ""
	}
	s.Tally.Resets++
	change := "with the same privacy policy, " + g.Policy
	if before.policy() != g.Policy {
		change = fmt.Sprintf("and the privacy policy changes from %s to %s", before.policy(), g.Policy)
	}
	if !g.On() {
		change += ", so its reports have no privacy guarantee"
	}
	spent := ""
	if before.On() {
		spent = fmt.Sprintf("; what it releases adds to epsilon %.3g of period %d", before.Epsilon, before.Period)
	}
	return fmt.Sprintf("the operator has reset the privacy budget: period %d begins, %s%s", g.Period, change, spent)
}

// mayReport returns an error if a new report would exceed what the guarantee covers.
func (s *spending) mayReport(t *pb.Task, v *vetted) error {
	k, err := v.guarantee()
	if err != nil {
		return err
	}
	switch t.Kind {
	case pb.Kind_COUNT:
		return nil
	case pb.Kind_EVALUATE:
		if most := v.spec.Evaluations * max(v.spec.Runs, 1); k != nil && s.Evaluated >= most {
			return weaker("it has answered %d evaluations in this budget period: the guarantee covers %d", s.Evaluated,
				most)
		}
		if k == nil || k.Policy.Metrics == 0 {
			return nil
		}
		return within(k, s.Answered.with(k.MetricEvent()), "an evaluation")
	}
	if err := s.covers(t, v); err != nil {
		return err
	}
	return s.Limit.mayReport(t, v.spec)
}

// covers returns an error if the guarantee does not cover one more training report. Calibrated noise
// covers the planned number of reports, and rounds may differ in their noise, so their cost counts as well:
// by rollbacks a coordinator chooses which rounds it repeats. Noise that the operator set covers what epsilon
// allows, which may be fewer reports or, after a rollback, more.
func (s *spending) covers(t *pb.Task, v *vetted) error {
	k := v.stack
	if k == nil {
		return nil
	}
	most := v.spec.Rounds * max(v.spec.Runs, 1)
	if s.Trained >= most && (k.Policy.Noise == 0 || k.Epsilon == 0) {
		return weaker("it has reported %d times in this budget period: the guarantee covers %d", s.Trained, most)
	}
	all, err := s.Answered.withReport(t, k)
	if err != nil {
		return err
	}
	return within(k, all, fmt.Sprintf("a report in round %d", t.Round+1))
}

// within returns an error if the answers of a budget period cost more than the guarantee covers.
func within(k *privacy.Stack, answered events, added string) error {
	switch ok, err := k.Covers(answered...); {
	case err != nil:
		return fmt.Errorf("cannot compute the cost of %s: %w", added, err)
	case !ok:
		return weaker("with %s its answers in this budget period cost more than epsilon %.4g, which the guarantee "+
			"covers", added, k.Limit())
	}
	return nil
}

// withReport returns the events with the cost of a training report. A tree is paid for when it starts.
func (es events) withReport(t *pb.Task, k *privacy.Stack) (events, error) {
	at := int(t.Round)
	if k.Mechanism == privacy.Tree {
		at -= at % k.Epoch
	}
	e, _, err := k.Spends(at)
	return es.with(e), err
}

func (l *reportLimit) mayReport(t *pb.Task, p *pb.Plan) error {
	switch {
	case l == nil || !bytes.Equal(l.Run, t.Run):
		return nil
	case p.ReportEvery != l.ReportEvery || p.Rounds != l.Rounds:
		return weaker("the plan has changed from %d rounds with one report in %d to %d rounds with one in %d",
			l.Rounds, l.ReportEvery, p.Rounds, p.ReportEvery)
	case t.Round/l.ReportEvery <= l.Round/l.ReportEvery:
		return fmt.Errorf("%w: it reported in round %d and reports once in %d rounds: the next report is in round "+
			"%d or later", errDeclined, l.Round+1, l.ReportEvery, (l.Round/l.ReportEvery+1)*l.ReportEvery+1)
	}
	return nil
}

// noteReport counts a report, or returns an error if it exceeds what the guarantee covers.
func (s *spending) noteReport(t *pb.Task, v *vetted) error {
	if err := s.mayReport(t, v); err != nil {
		return err
	}
	switch t.Kind {
	case pb.Kind_TRAIN:
		s.Tally.Reports++
		if v.stack != nil { // a run without a guarantee uses nothing of it
			s.Trained++
			all, err := s.Answered.withReport(t, v.stack)
			if err != nil {
				return err
			}
			s.Answered = all
		}
		if s.Limit = nil; v.spec.ReportEvery > 0 {
			s.Limit = &reportLimit{t.Run, v.spec.ReportEvery, v.spec.Rounds, t.Round}
		}
	case pb.Kind_EVALUATE:
		s.Tally.Evaluations++
		if v.stack != nil {
			s.Evaluated++
		}
		if v.stack != nil && v.stack.Policy.Metrics > 0 {
			s.Tally.Events = s.Tally.Events.with(v.stack.MetricEvent())
			s.Answered = s.Answered.with(v.stack.MetricEvent())
		}
	}
	return nil
}

// check returns an error if saved limits are inconsistent.
func (s *spending) check() error {
	if l := s.Limit; l != nil && (len(l.Run) != 16 || l.ReportEvery == 0) {
		return corrupt("invalid limits on reports")
	}
	return nil
}

// noteDeclined puts the reason for which the device declined a task or refused a plan into its log, once.
func (r *record) noteDeclined(kind, run string, round uint32, reason string, now time.Time) (isNew bool) {
	for i := len(r.Log) - 1; i >= 0 && i >= len(r.Log)-8; i-- {
		if e := &r.Log[i]; e.State == declined && e.Kind == kind && e.Run == run && e.Reason == reason {
			return false
		}
	}
	r.log(LogEntry{
		CreatedAt: now, SettledAt: now, Kind: kind, Run: run, Round: round, State: declined, Reason: reason,
	})
	return true
}
