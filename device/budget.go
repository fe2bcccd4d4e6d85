package device

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
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

// Tally is what the device itself counts since it enrolled.
type Tally struct {
	Reports     int `json:"reports"`     // training reports that the device made
	Evaluations int `json:"evaluations"` // evaluations that it answered
	Rounds      int `json:"rounds"`      // rounds that were released, with or without it
	Runs        int `json:"runs"`        // runs that it has seen
	Resets      int `json:"resets"`      // resets of the privacy budget that it has seen
	// Epsilon is an upper bound on what all these releases reveal about the device, at Delta. Both are 0
	// without differential privacy.
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

// tally is a Tally with the releases that its epsilon is computed from.
type tally struct {
	Tally
	Events events `json:"events,omitempty"`
}

// events are releases. A device sees few different ones: the noise of a policy, and one for each reset or
// change of the population.
type events []account.Event

// with returns the events and one more; equal ones are merged.
func (es events) with(e account.Event) events {
	for i, like := range es {
		like.Rounds = e.Rounds
		if like == e {
			es = slices.Clone(es)
			es[i].Rounds += e.Rounds
			return es
		}
	}
	return append(slices.Clip(es), e)
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
	if g.On() && g.Run > g.Runs {
		return refuse("run %d of budget period %d: the guarantee covers %d", g.Run, g.Period, g.Runs)
	}
	old := s.Guarantee
	if !old.On() || old.Period != g.Period {
		return nil
	}
	differs := func(what string, before, now any) error {
		return refuse("within budget period %d its %s changed from %v to %v; only a reset of the budget may change it",
			g.Period, what, before, now)
	}
	switch {
	case g.Policy != old.Policy:
		return differs("privacy policy", old.Policy, g.Policy)
	case g.Cohort != old.Cohort:
		return differs("cohort", old.Cohort, g.Cohort)
	case g.Runs != old.Runs:
		return differs("number of runs", old.Runs, g.Runs)
	case g.Rounds != old.Rounds:
		return differs("number of rounds", old.Rounds, g.Rounds)
	case g.Evaluations != old.Evaluations:
		return differs("number of evaluations", old.Evaluations, g.Evaluations)
	case g.Run < old.Run:
		return differs("run", old.Run, g.Run)
	}
	return nil
}

// adopt notes that the device has the model of a new manifest; old is nil for its first one. It returns
// what the owner should know.
func (s *spending) adopt(old, m *pb.Manifest, g *Guarantee, k *privacy.Stack) (news string) {
	s.Tally.release(old, m, k)
	before := s.Guarantee
	s.Guarantee = g
	if old == nil {
		return ""
	}
	if m.BudgetPeriod > old.BudgetPeriod {
		s.Trained, s.Evaluated, s.Answered = 0, 0, nil
		if old.BudgetPeriod == 0 { // the first run with a privacy guarantee
			return ""
		}
		s.Tally.Resets++
		if before.On() {
			return fmt.Sprintf("the operator has reset the privacy budget: period %d begins, and what it releases "+
				"adds to epsilon %.3g of period %d", g.Period, before.Epsilon, before.Period)
		}
	}
	return ""
}

// release counts the rounds between two manifests. It assumes that every round of a run that the device
// has missed was released.
func (y *tally) release(old, m *pb.Manifest, k *privacy.Stack) {
	rounds := int(m.Round)
	if k != nil {
		rounds = k.Rounds
	}
	switch {
	case old == nil:
		y.Runs++
		y.add(k, int(m.Round), int(m.Round))
	case bytes.Equal(old.Run, m.Run):
		y.add(k, int(old.Round), int(m.Round))
	default:
		y.Runs++
		y.add(k, int(old.Round), rounds)
		y.addRuns(k, rounds, int64(m.RunNumber-old.RunNumber)-1)
		y.add(k, 0, int(m.Round))
	}
}

// addRuns counts whole runs.
func (y *tally) addRuns(k *privacy.Stack, rounds int, runs int64) {
	if runs < 1 {
		return
	}
	one := tally{}
	one.add(k, 0, rounds)
	y.Rounds += one.Rounds * int(runs)
	for _, e := range one.Events {
		e.Rounds *= runs
		y.Events = y.Events.with(e)
	}
}

// add counts rounds from one to before another.
func (y *tally) add(k *privacy.Stack, from, to int) {
	y.Rounds += max(to-from, 0)
	if k == nil {
		return
	}
	if k.Mechanism == privacy.Tree { // a tree is paid for when it starts
		from -= from % k.Epoch
		to = max(to, from+1)
	}
	for t := from; t < to; t++ {
		if e, spends, err := k.Spends(t); err == nil && spends {
			y.Events = y.Events.with(e)
		}
	}
}

// total returns the tally with its epsilon.
func (s *spending) total() Tally {
	out := s.Tally.Tally
	if len(s.Tally.Events) == 0 || !s.Guarantee.On() {
		return out
	}
	options := account.Options{Accountant: account.RDP}
	if r, err := account.Epsilon(s.Guarantee.Delta, options, s.Tally.Events...); err == nil {
		out.Epsilon, out.Delta = r.Epsilon, s.Guarantee.Delta
	}
	return out
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
		return nil
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
	switch ok, err := k.Covers(all...); {
	case err != nil:
		return fmt.Errorf("cannot compute the cost of a report: %w", err)
	case !ok:
		return weaker("with a report in round %d its answers in this budget period cost more than epsilon %.4g, which "+
			"the guarantee covers", t.Round+1, k.Limit())
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
