package coordinator

import (
	"fmt"
	"math"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/internal/store"
)

// Status is the state of a coordinator, for operators.
type Status struct {
	Name    string `json:"name"`
	State   State  `json:"state"`
	Message string `json:"message"` // explains the state to people
	Paused  bool   `json:"paused"`  // an operator paused it: after the round in progress nothing is trained
	RunStatus
	Population
	Budget
	Lost    int              `json:"lost"`   // devices whose report was acknowledged and is in no sum
	Counts  map[string]int64 `json:"counts"` // of calls and refusals since the start
	Synced  store.Stats      `json:"synced"`
	SyncAll bool             `json:"sync_always"`
	// Changes is another number after each change of the store. Backups do not count: those of two followers would
	// otherwise cause each other.
	Changes     uint64       `json:"changes"`
	Evaluations []Evaluation `json:"evaluations"`
	// why the last evaluation, or popularity in it, is missing
	EvaluationMissed string `json:"evaluation_missed,omitempty"`
}

// RunStatus is the newest run, for operators.
type RunStatus struct {
	Method    string `json:"method"`
	Run       string `json:"run"` // its ID
	RunNumber int    `json:"run_number"`
	Round     int    `json:"round"` // rounds that are done
	Rounds    int    `json:"rounds"`
	Version   uint64 `json:"version"`
	Items     int    `json:"items"`
	Catalogue uint64 `json:"catalogue"`
	Counted   int    `json:"counted"` // reports of the round in progress; 0 if the cohort is a secret sample
	Expected  int    `json:"expected"`
	// NextRun is when the schedule starts another run; null without one.
	NextRun       *time.Time `json:"next_run"`
	RollbackTo    uint64     `json:"rollback_to,omitempty"` // a roll back that was requested and is not done
	Deterministic bool       `json:"deterministic"`
	Masked        bool       `json:"masked"`
}

// Population is the devices of a federation, for operators.
type Population struct {
	Devices  int              `json:"devices"`  // that the run was planned for
	Enrolled int              `json:"enrolled"` // that are enrolled: not left, revoked or excluded
	Active   int              `json:"active"`
	Excluded []ExcludedDevice `json:"excluded"`
}

// ExcludedDevice is a device that was proven to lie, with the reason.
type ExcludedDevice = enrolment.ExcludedDevice

// Budget is the privacy budget of a federation, for operators.
type Budget struct {
	Policy    string `json:"policy"`
	Guarantee string `json:"guarantee,omitempty"` // against whom it holds
	// Epsilon and Delta are the budget spent in the budget period; null without a privacy guarantee, and
	// Epsilon also if entries of the ledger were lost.
	Epsilon *float64 `json:"epsilon"`
	// EpsilonTooLow says that more was spent: devices have proven that the ledger is an old one.
	EpsilonTooLow bool     `json:"epsilon_too_low,omitempty"`
	Delta         *float64 `json:"delta"`
	BudgetEpsilon *float64 `json:"budget_epsilon"` // the epsilon of the policy; null if it has none
	BudgetPeriod  int      `json:"budget_period,omitempty"`
	RunInPeriod   int      `json:"run_in_period,omitempty"`
	Runs          int      `json:"runs,omitempty"` // runs that share the budget
	LedgerLines   int      `json:"ledger_lines,omitempty"`
	LedgerOK      bool     `json:"ledger_ok"` // true without a privacy guarantee too
}

// Status is what the coordinator is doing now.
func (c *Coordinator) Status() Status {
	state, message := c.progress.get()
	s := Status{
		State: state, Message: message, Population: c.population(), Synced: c.st.Stats(), SyncAll: true,
		Counts: c.progress.all(), Evaluations: []Evaluation{}, Budget: Budget{Policy: "none", LedgerOK: true},
	}
	s.Changes = c.st.Epoch()<<32 + s.Synced.Records - uint64(s.Counts[backupsMade])
	if !c.begun() {
		return s
	}
	s.Name, s.Paused, s.Lost = c.settings().Name, c.requests.paused(), c.collection.History.Lost()
	s.Evaluations = append(s.Evaluations, c.evaluations.Results()...)
	s.EvaluationMissed = c.evaluations.Missed()
	s.RunStatus, s.Budget = c.runStatus(), c.Budget()
	return s
}

func (c *Coordinator) runStatus() RunStatus {
	settings := c.settings()
	s := RunStatus{
		Method: settings.Method, Run: fmt.Sprintf("%x", c.runID()), RunNumber: c.runNumber(), Rounds: settings.Rounds,
		RollbackTo: c.requests.rollbackTo(), Version: c.models.Last(), Catalogue: c.catalogue.Current().GetVersion(),
		Deterministic: settings.Deterministic, Masked: settings.Masked,
	}
	if v := c.models.Newest(); v != nil {
		if s.Items = v.Items; c.latest.Load().has(v.Run) { // otherwise the run begins just now
			s.Round = v.Round
		}
	}
	if c.schedule.On() {
		next := c.schedule.Next(c.timeOfDay()).UTC()
		s.NextRun = &next
	}
	if open := c.collection.Open(); open != nil && !c.sampled() {
		s.Counted, s.Expected = open.Progress()
	}
	return s
}

func (c *Coordinator) population() Population {
	enrolled, _ := c.devices.Count()
	p := Population{
		Enrolled: enrolled, Active: len(c.devices.Active(c.now())),
		Excluded: append([]ExcludedDevice{}, c.devices.Excluded()...),
	}
	if c.begun() {
		p.Devices = c.settings().Devices
	}
	return p
}

// Budget is the privacy budget and what was spent of it.
func (c *Coordinator) Budget() Budget {
	if !c.begun() {
		return Budget{Policy: "none", LedgerOK: true}
	}
	state, _ := c.progress.lasting()
	settings, r := c.settings(), c.releases()
	b := Budget{Policy: textOf(settings.DP), EpsilonTooLow: state == Outdated}
	b.LedgerOK = !b.EpsilonTooLow && r.covers(c.models.Newest(), c.latest.Load())
	if !settings.DP.On() {
		return b
	}
	epsilon, delta := r.epsilon(), settings.DP.Delta
	if b.Delta, b.Guarantee = &delta, r.guarantee(); !math.IsInf(epsilon, 0) {
		b.Epsilon = &epsilon
	}
	if settings.DP.Epsilon > 0 {
		b.BudgetEpsilon = &settings.DP.Epsilon
	}
	b.BudgetPeriod, b.RunInPeriod = r.ledger.Period()
	b.Runs, b.LedgerLines = max(settings.Runs, 1), r.ledger.Lines()
	return b
}
