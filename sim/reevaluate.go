package sim

import (
	"context"
	"errors"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
)

// DrawsNegatives reports whether devices draw negatives in training, so that a model depends on the items that a
// protocol hides from them.
func (r *Run) DrawsNegatives() bool { return !r.fleet.plan.Visit.HistoryOnly }

// EvaluateOn ranks the held-out items of another split with the model of the last round, until ctx is done. The split
// must have the users, items and train rows of the run's own. users is the size of the sample; 0 means all. Devices
// that recommend with tuned tables train once more before, as in ScoreUser. EvaluateOn does not change the model; it
// must not run concurrently with other methods.
func (r *Run) EvaluateOn(ctx context.Context, split *data.Split, users int) (*Ranks, error) {
	f := r.fleet
	if f.plan.Serves(method.ServeOther) {
		return nil, errors.New("devices score with tables of other devices, which exist during a round only")
	}
	own := f.split
	f.split = split
	defer func() { f.split = own }()
	e := newEval(split, users, r.Seed)
	if !r.HasTunedTables() {
		_, err := f.evalAll(ctx, e, r.lastRound(), false)
		return e.now, err
	}
	ids := e.users()
	f.each(len(ids), func(l *lane, i int) {
		u := int(ids[i])
		if f.open(l, u, r.lastRound()); ctx.Err() != nil || l.isNew() && !f.servesNewUsers() {
			return
		}
		if l.isNew() {
			f.loadNew(l)
		} else {
			st := cloneState(&f.state[u])
			l.Visit(&st, &l.task, local.NotCounted, false)
		}
		e.visited(l, u)
	})
	return e.now, ctx.Err()
}
