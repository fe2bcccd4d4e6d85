package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
)

// The privacy budget of a policy covers a budget period: the runs of the federation from one reset of
// the budget to the next. What the budget depends on is the same for all runs of a period, and
// devices enforce it.

const resetHint = "tacit admin reset-budget --reason TEXT begins a new budget period"

// checkPeriod reports why a run with these settings does not belong to the budget period.
func (c *Coordinator) checkPeriod(s *Settings) error {
	_, runs := c.budget.Period()
	if runs == 0 { // no run with a privacy guarantee in this period
		return nil
	}
	now := &c.latest.Load().given
	for _, x := range []struct {
		what, was, is string
	}{
		{"dp", textOf(now.DP), textOf(s.DP)},
		{"method", now.Method, s.Method},
		{"params", paramsText(now.Params), paramsText(s.Params)},
		{"secagg", fmt.Sprint(now.Masked), fmt.Sprint(s.Masked)},
		{"server rate", fmt.Sprint(now.Server.Rate), fmt.Sprint(s.Server.Rate)},
		{"runs", fmt.Sprint(max(1, now.Runs)), fmt.Sprint(max(1, s.Runs))},
		{"rounds", fmt.Sprint(now.Rounds), fmt.Sprint(s.Rounds)},
		{"cohort", textOf(now.Cohort), textOf(s.Cohort)},
		{"devices", fmt.Sprint(now.Devices), fmt.Sprint(s.Devices)},
		{"eval-every", fmt.Sprint(now.EvalEvery), fmt.Sprint(s.EvalEvery)},
	} {
		if now.DP.On() && x.was != x.is {
			return fmt.Errorf("%s = %s: the privacy budget of this period was planned with %s; %s", x.what, x.is, x.was,
				resetHint)
		}
	}
	if most := max(1, s.Runs); s.DP.On() && runs >= most {
		return fmt.Errorf("the privacy budget covers %d of %d runs of this period already; %s", runs, most, resetHint)
	}
	return nil
}

// paramsText is the text of a method's parameters.
func paramsText(params map[string]string) string {
	if len(params) == 0 {
		return "default"
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(params)) {
		out = append(out, k+"="+params[k])
	}
	return strings.Join(out, ",")
}

// checkStart reports why a prepared run cannot begin.
func (c *Coordinator) checkStart(b *start) error {
	e := b.engine
	if e.Stack == nil {
		return nil
	}
	if b.budget.Lost() {
		return errors.New(lostMessage)
	}
	ok, err := e.Affords(0, 0)
	if err == nil && !ok {
		err = fmt.Errorf("the privacy budget of epsilon %g is spent; %s", b.settings.DP.Epsilon, resetHint)
	}
	if err != nil {
		return err
	}
	c.warnBudget(e.Stack.Total.Epsilon, &b.settings)
	return nil
}

// warnBudget warns that a given noise multiplier does not last for all rounds.
func (c *Coordinator) warnBudget(total float64, s *Settings) {
	if s.DP.Epsilon > 0 && total > s.DP.Epsilon*(1+1e-9) {
		c.opt.Warn(fmt.Sprintf("noise=%g costs epsilon %.4g for all rounds of all runs, and the budget is %g: "+
			"training stops when it is spent; raise noise or omit it", s.DP.Noise, total, s.DP.Epsilon))
	}
}

const lostMessage = "entries of the privacy ledger were lost in a repair, so the whole budget counts as spent; " +
	"restore the newest backup into a new folder with tacit admin restore, or " + resetHint

// maxReason is the largest number of bytes of a reason in the ledger.
const maxReason = 1000

// ResetBudget begins a new budget period: the privacy budget counts the releases from now on. The
// reason is recorded in the ledger. It is also the way out if devices have proven that the ledger is
// older than what was released.
func (c *Coordinator) ResetBudget(reason string) error {
	if !c.begun() {
		return errNoRun
	}
	c.mu.Lock()
	b := c.budget
	c.mu.Unlock()
	if b == nil {
		return refusal(connect.CodeFailedPrecondition,
			errors.New("the federation has no privacy budget: no run had --dp"))
	}
	reason = strings.TrimSpace(reason)
	if reason == "" || len(reason) > maxReason || !utf8.ValidString(reason) {
		return refusal(connect.CodeInvalidArgument, fmt.Errorf("reason %.20q of %d bytes: a reset of the privacy "+
			"budget requires 1 to %d bytes of valid UTF-8, and the ledger keeps them for ever", reason, len(reason),
			maxReason))
	}
	m, err := c.manifest()
	if err != nil {
		return err
	}
	var proven *proof
	stopped := ""
	if err := errors.Join(c.st.GetJSON(proofKey, &proven), c.st.GetJSON(stoppedKey, &stopped)); err != nil {
		return err
	}
	continues := c.models.Round() < c.settings().Rounds && !c.requests.ends(c.runHex()) && stopped == "" &&
		!c.stopsTree(proven)
	// Devices accept no lower period than they know, so the new one has to get beyond those of all known versions.
	known, lost := int(m.BudgetPeriod), false
	if proven != nil {
		known, lost = max(known, proven.Period), c.lacks(proven)
	}
	for {
		if err := b.Reset(reason, c.now(), continues, lost); err != nil {
			return err
		}
		if period, _ := b.Period(); period > known {
			break
		}
	}
	c.requests.noteReset()
	return nil
}

// manifest is that of the newest version.
func (c *Coordinator) manifest() (*pb.Manifest, error) {
	m := &pb.Manifest{}
	if err := proto.Unmarshal(c.models.Signed().GetBody(), m); err != nil {
		return nil, fmt.Errorf("version %d: the manifest is corrupt: %w", c.models.Last(), err)
	}
	return m, nil
}

// noteReset notes a reset that no version tells devices of, because the coordinator was killed.
func (c *Coordinator) noteReset() error {
	m, err := c.manifest()
	if err != nil {
		return err
	}
	if period, _ := c.budget.Period(); period > int(m.BudgetPeriod) {
		c.requests.noteReset()
	}
	return nil
}

// takeReset begins the budget period of a reset: devices learn of it by a new version.
func (c *Coordinator) takeReset() error {
	if !c.requests.takeReset() {
		return nil
	}
	c.spent = false
	if !c.outdated() {
		if err := c.forgetProof(); err != nil {
			return err
		}
	}
	return c.save(models.Outcome{}, false)
}

// budgetState is the state of a run whose budget does not cover another round; empty if it does.
func (c *Coordinator) budgetState() (State, string) {
	if !c.settings().DP.On() {
		return "", ""
	}
	_, runs := c.budget.Period()
	most := max(1, c.settings().Runs)
	switch {
	case c.budget.Lost() && c.settings().DP.Epsilon > 0:
		return BudgetSpent, lostMessage
	case runs > most:
		return BudgetSpent, fmt.Sprintf("the privacy budget covers run 1 to %d of a period; this is run %d; %s", most,
			runs, resetHint)
	case c.spent:
		return BudgetSpent, "the privacy budget is spent; " + resetHint
	}
	return "", ""
}

// enrolmentLine is the ledger line from which on releases may contain a device that enrols now. It is that of
// the newest version: later lines may pay for a release that is made after a restart.
func (c *Coordinator) enrolmentLine() int {
	lines := c.openLedger().Lines()
	if v := c.models.Newest(); v != nil {
		lines = min(lines, v.LedgerLines)
	}
	return lines
}

// releases is what the releases of the newest run depend on, for all goroutines.
type releases struct {
	stack  *privacy.Stack // nil without a privacy guarantee
	ledger *budget.Budget
}

func (c *Coordinator) releases() (r releases) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.ledger = c.budget; c.engine != nil {
		r.stack = c.engine.Stack
	}
	return r
}

// guarantee says what the privacy guarantee covers; empty without one.
func (r releases) guarantee() string {
	if r.stack == nil {
		return ""
	}
	return r.stack.Against()
}

// epsilon is the budget spent; infinite if it is unknown.
func (r releases) epsilon() float64 {
	if r.stack == nil {
		return 0
	}
	return r.ledger.Epsilon(r.stack.Delta, r.stack.Options())
}

// covers reports whether the ledger covers at least the rounds that a version of a run was trained for.
func (r releases) covers(v *models.Version, run *current) bool {
	if r.ledger == nil || v == nil || r.stack == nil {
		return true
	}
	if r.ledger.WasRepaired() { // entries of the run may be missing; until a reset the whole budget counts as spent
		return !r.ledger.Lost()
	}
	if !run.has(v.Run) { // the run begins just now
		return true
	}
	paid := int64(0)
	for _, id := range append([]string{fmt.Sprintf("%x", run.id)}, run.former...) {
		for _, e := range r.ledger.Paid(id) {
			if !r.stack.IsMetric(e) {
				paid += e.Rounds
			}
		}
	}
	if r.stack.Mechanism == privacy.Tree {
		return paid > 0 || v.Round == 0
	}
	return paid >= int64(v.Round)
}

// DeviceEpsilon is the privacy cost of all releases since a device enrolled, in all budget periods;
// false without a privacy guarantee, for an unknown device, or if ledger entries were lost.
func (c *Coordinator) DeviceEpsilon(id uint32) (float64, bool) {
	line, ok := c.devices.LedgerLine(id)
	r := c.releases()
	if !ok || r.ledger == nil || r.stack == nil {
		return 0, false
	}
	epsilon := r.ledger.EpsilonSince(line, r.stack.Delta, r.stack.Options())
	return epsilon, !math.IsInf(epsilon, 0)
}
