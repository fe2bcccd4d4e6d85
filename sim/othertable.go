package sim

import (
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
)

// overlay is a tuned table: the rows that a visit changed, and what weight decay
// has shrunk the others by.
type overlay struct {
	ids    []uint32
	rows   []float32
	shrunk float32
}

func (f *fleet) strangerSlot() int {
	return slices.IndexFunc(f.plan.Slots, func(s method.Slot) bool { return s.Serve == method.ServeOther })
}

// strangers measures every user's own head on another user's tuned table (the
// PFedRec paper's Figure 3). It runs before the coordinator's step: a tuned table
// is the old one with some rows changed.
func (f *fleet) strangers(e *eval, t int) {
	users := len(f.state)
	r := rng.New(f.plan.Seed, rng.Partner, uint64(t))
	shift := 1 + int(r.Uint32n(uint32(max(users-1, 1))))
	f.each(users, func(l *lane, u int) {
		f.open(l, u, t)
		l.Prepare(&f.state[u], &l.task)
		if l.other == nil {
			l.other = make([]float32, f.split.Items())
		}
		e.user(&strange{l, &f.tuned[(u+shift)%users]}, &l.scores, &l.part, u)
	})
}

// strange scores with a stranger's rows in place of the shared ones.
type strange struct {
	l *lane
	o *overlay
}

func (s *strange) Score(items []uint32, dst []float32) {
	s.ScoreAll(s.l.other)
	for x, i := range items {
		dst[x] = s.l.other[i]
	}
}

func (s *strange) ScoreAll(dst []float32) {
	s.l.ScoreTable(s.o.shrunk, s.o.ids, s.o.rows, dst)
}
