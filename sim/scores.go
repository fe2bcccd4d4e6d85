package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// ErrNewUsers says that a method cannot recommend to users who took no part in training.
var ErrNewUsers = errors.New("the method has a parameter row per training user and cannot recommend to others")

// ScoreUser sets dst[i] to the score of item i for user u, as the user's device computes it after the
// last round, and returns the items of the history that it read: the train rows, or with whole all
// rows of the user, held-out ones included. A user who took no part in training is scored as a new
// one. ScoreUser does not change the run; it must not run concurrently with other methods.
func (r *Run) ScoreUser(u int, whole bool, dst []float32) (history []uint32, err error) {
	l, err := r.load(u, whole)
	if err != nil {
		return nil, err
	}
	f := r.fleet
	if f.plan.Serves(method.ServeLocal) && !l.isNew() {
		st := cloneState(&f.state[u])
		l.Visit(&st, &l.task, local.NotCounted, false)
	}
	l.ScoreAll(dst)
	return slices.Clone(l.task.Train), nil
}

// HeldOutItems returns the items of the validation and the test rows of a user. They are read-only.
func (r *Run) HeldOutItems(u int) (valid, test []uint32) {
	var p data.Part
	r.fleet.split.User(u, &p)
	return p.HeldOutRows()
}

// ScoreHistory sets dst[i] to the score of item i for a device that took no part in training and has
// the given history, oldest first. ratings may be nil. It does not change the run; it must not run
// concurrently with other methods.
func (r *Run) ScoreHistory(items []uint32, ratings []float32, dst []float32) error {
	f := r.fleet
	if !f.servesNewUsers() {
		return ErrNewUsers
	}
	if x := f.plan.Features; x != nil && len(x.User)+len(x.Row) > 0 {
		return fmt.Errorf("the method reads features of users and interactions (%s), and a list of items has none",
			strings.Join(columnNames(x), ", "))
	}
	l := f.lanes[0]
	l.part = data.Part{New: true}
	l.task = local.Task{Device: uint32(len(f.state)), Round: r.lastRound(), Train: items, Rating: ratings}
	f.loadNew(l)
	l.ScoreAll(dst)
	return nil
}

func columnNames(x *data.Features) (names []string) {
	for _, list := range [][]method.Column{x.User, x.Row} {
		for _, c := range list {
			names = append(names, c.Name)
		}
	}
	return names
}

// lastRound is the round, from 0, that was trained last.
func (r *Run) lastRound() int { return max(0, r.engine.Next-1) }

// load prepares the first lane to score user u with the newest shared values.
func (r *Run) load(u int, whole bool) (*lane, error) {
	f, l := r.fleet, r.fleet.lanes[0]
	f.open(l, u, r.lastRound())
	if l.isNew() && !f.servesNewUsers() {
		return nil, ErrNewUsers
	}
	if whole {
		t := &l.task
		t.Train, t.Rating, t.Rows = f.split.WholeHistory(&l.part)
		t.Hide = [2][]uint32{}
	}
	if l.isNew() {
		f.loadNew(l)
		return l, nil
	}
	st := cloneState(&f.state[u])
	l.Prepare(&st, &l.task)
	return l, nil
}

// isNew reports whether the user of the lane took no part in training.
func (l *lane) isNew() bool { return l.part.New || l.part.HeldOut }

// loadNew prepares a lane to score a device that took no part in training: it trains once, unless the
// method prepares scoring.
func (f *devices) loadNew(l *lane) {
	st := f.mem.NewState(nil)
	if f.plan.PreparesScoring() || f.central != nil {
		l.Prepare(&st, &l.task)
		return
	}
	l.Visit(&st, &l.task, local.NotCounted, false)
}

// Heads returns the heads that scores are the sum of; nil if the method scores differently. With heads,
// the score of an item is the product of the user's vector and the item's, plus the user's bias, unless
// devices tune their tables.
func (r *Run) Heads() []method.Head { return r.fleet.plan.Heads() }

// VectorWidth is the number of floats of a vector of Heads.
func (r *Run) VectorWidth() (n int) {
	for _, h := range r.Heads() {
		n += r.fleet.plan.Slots[h.Item].Dim
	}
	return n
}

// AppendItem appends the vector of an item: its rows in the tables of the heads.
func (r *Run) AppendItem(dst []float32, item int) []float32 {
	for _, h := range r.Heads() {
		dim := r.fleet.plan.Slots[h.Item].Dim
		dst = append(dst, r.engine.Value[h.Item][item*vec.Pad(dim):][:dim]...)
	}
	return dst
}

// AppendUser appends the vector of a user, which stays on the user's device in a real federation, and
// returns its bias. It must not run concurrently with other methods.
func (r *Run) AppendUser(dst []float32, u int) ([]float32, float32, error) {
	l, err := r.load(u, false)
	if err != nil {
		return dst, 0, err
	}
	dst, bias := l.AppendVector(dst)
	return dst, bias, nil
}
