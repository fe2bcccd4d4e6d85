package sim

import (
	"context"
	"slices"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
)

// Slots lists the model's slots: the method's, then those of its parts.
func (r *Run) Slots() []method.Slot { return r.fleet.plan.Slots }

// Value returns the current numbers of a slot: its rows, each padded with zeros to a
// multiple of 8 numbers. Writing to them changes the model.
func (r *Run) Value(slot int) []float32 { return r.engine.Value[slot] }

// RoundsRun is the number of rounds that were trained.
func (r *Run) RoundsRun() int { return r.engine.Next }

// DeviceCount is the number of devices that take part in training.
func (r *Run) DeviceCount() int { return r.fleet.Count() }

// Stack returns the privacy stack of the run; nil without differential privacy.
func (r *Run) Stack() *privacy.Stack { return r.engine.Stack }

// Ledger records what the run has released; nil without differential privacy.
func (r *Run) Ledger() account.Ledger { return r.engine.Ledger }

// SetLedger replaces the ledger in memory by another, before the first Step.
func (r *Run) SetLedger(l account.Ledger) { r.engine.Ledger = l }

// Replay makes the run repeat the rounds of a federation instead of drawing its own. cohort
// appends the devices of a round to dst, ascending; late, if not nil, reports whether a
// user's report missed the deadline.
func (r *Run) Replay(cohort func(round int, dst []uint32) []uint32, late func(round, user int) bool) {
	r.engine.Eligible = cohort
	r.fleet.late = late
}

// ServesNewUsers reports whether the method can recommend to users who took no part in
// training. A method that is trained in one place with a row per user cannot.
func (r *Run) ServesNewUsers() bool { return r.fleet.servesNewUsers() }

// Plan returns the method's plan, for packages of this module.
func (r *Run) Plan() *local.Plan { return r.fleet.plan }

// Memory returns the memory that the simulated devices share, for packages of this module.
func (r *Run) Memory() *local.Memory { return r.fleet.mem }

// TrainCohort has a cohort train and returns the sum of its updates, without a server step. The
// conformance suite compares such sums.
func (r *Run) TrainCohort(ctx context.Context, t round.Task) (round.Aggregate, round.Report, error) {
	return r.fleet.Round(ctx, t)
}

// servesNewUsers is Run.ServesNewUsers.
func (f *devices) servesNewUsers() bool {
	return f.central == nil || !slices.ContainsFunc(f.plan.Slots, func(s method.Slot) bool { return s.PerUser })
}
