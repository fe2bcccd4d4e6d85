package sim

import (
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
)

// overlay is a tuned table: the rows that training changed, and the factor by which weight
// decay has shrunk the others.
type overlay struct {
	ids    []uint32
	rows   []float32
	shrunk float32
}

// otherTableSlot returns the slot that is served from another device.
func (f *devices) otherTableSlot() int {
	return slices.IndexFunc(f.plan.Slots, func(s method.Slot) bool { return s.Serve == method.ServeOther })
}

// evalOtherTables evaluates every user's score function on another user's tuned table (Figure 3 of
// the PFedRec paper). It runs before the server step, because a tuned table is the old shared
// table with some rows changed.
func (f *devices) evalOtherTables(e *eval, t int) {
	users := len(f.state)
	r := rng.New(f.plan.Seed, rng.Partner, uint64(t))
	shift := 1 + int(r.Uint32n(uint32(max(users-1, 1))))
	f.each(users, func(l *lane, u int) {
		f.open(l, u, t)
		l.Prepare(&f.state[u], &l.task)
		if l.other == nil {
			l.other = make([]float32, f.split.Items())
		}
		e.user(&otherTable{l, &f.tuned[(u+shift)%users]}, &l.scores, &l.part, u)
	})
}

// otherTable scores with another device's tuned table.
type otherTable struct {
	l *lane
	o *overlay
}

func (s *otherTable) Score(items []uint32, dst []float32) {
	s.ScoreAll(s.l.other)
	for x, i := range items {
		dst[x] = s.l.other[i]
	}
}

func (s *otherTable) ScoreAll(dst []float32) {
	s.l.ScoreTable(s.o.shrunk, s.o.ids, s.o.rows, dst)
}
