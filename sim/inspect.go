package sim

import (
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// TableComparison is what the devices' score functions are worth on three tables: their
// own tuned one, the coordinator's, and another device's (the PFedRec paper's
// Figure 3). Random is nil for a method without a bilinear head.
type TableComparison struct {
	Users               int
	Own, Global, Random []metrics.Rank // of the test items among sampled candidates, by user
}

// HasTunedTables reports whether devices recommend with tuned tables of their own.
func (r *Run) HasTunedTables() bool {
	return r.fleet.plan.Serves(method.ServeLocal) && len(r.fleet.state) > 1
}

// CompareTables lets some devices make one more visit, which nobody keeps, and ranks their
// test items with the three tables. The run is not touched: states are copied, and
// updates go where late ones do.
func (r *Run) CompareTables(users []int) *TableComparison {
	f := r.fleet
	t := max(0, r.engine.Next-1)
	evals := [3]*eval{newEval(f.split, 0, r.Seed), newEval(f.split, 0, r.Seed), newEval(f.split, 0, r.Seed)}
	states, tables := make([]local.State, len(users)), make([]overlay, len(users))
	slot := f.servedSlot()
	f.each(len(users), func(l *lane, i int) {
		u := users[i]
		states[i] = cloneState(&f.state[u])
		f.open(l, u, t)
		l.Visit(&states[i], &l.task, local.NotCounted, false)
		evals[0].visited(l, u)
		o := &tables[i]
		o.ids, o.rows, o.shrunk = l.TunedRows(slot, nil, nil)
	})
	out := &TableComparison{Users: len(users), Own: evals[0].now.Test, Global: evals[1].now.Test}
	stranger := rng.New(f.plan.Seed, rng.Figure, uint64(t))
	shift := 1 + int(stranger.Uint32n(uint32(max(len(users)-1, 1))))
	f.each(len(users), func(l *lane, i int) {
		u := users[i]
		f.open(l, u, t)
		l.Prepare(&states[i], &l.task)
		evals[1].visited(l, u)
		if !f.plan.HasHead() {
			return
		}
		if l.other == nil {
			l.other = make([]float32, f.split.Items())
		}
		evals[2].user(&strange{l, &tables[(i+shift)%len(users)]}, &l.scores, &l.part, u)
	})
	if f.plan.HasHead() {
		out.Random = evals[2].now.Test
	}
	return out
}

// servedSlot is the table that devices tune.
func (f *fleet) servedSlot() int {
	for i, s := range f.plan.Slots {
		if s.PerItem && s.Scope == method.Shared && s.Serve == method.ServeLocal && s.Upload == method.Delta {
			return i
		}
	}
	return f.strangerSlot()
}

// DeviceView is one device at the end of a run, for a figure.
type DeviceView struct {
	User        int
	Train       []uint32
	Drawn       []uint32 // negatives of a visit, without repeats
	Valid, Test int64    // held-out items, or data.None
	Own, Global []float32
	Table       []float32 // the device's own tuned rows in the layout of the slot; nil where it has none
}

// Inspect looks at one device: scores of all items with the coordinator's newest values
// (Global) and, where devices tune, with its own after one more visit (Own). The run
// is not touched. slot is the table that Table is a copy of.
func (r *Run) Inspect(u, slot int) DeviceView {
	f, t := r.fleet, max(0, r.engine.Next-1)
	l := f.lanes[0]
	f.open(l, u, t)
	out := DeviceView{
		User: u, Train: append([]uint32(nil), l.part.Train...), Valid: l.part.Valid, Test: l.part.Test,
		Global: make([]float32, f.split.Items()),
	}
	if !f.plan.Central() && !f.plan.Visit.HistoryOnly {
		seen := map[uint32]bool{}
		for _, s := range l.DrawSamples(&l.task) {
			item := s &^ vec.Positive
			if s&vec.Positive == 0 && !seen[item] {
				seen[item] = true
				out.Drawn = append(out.Drawn, item)
			}
		}
	}
	st := cloneState(&f.state[u])
	if f.plan.Serves(method.ServeLocal) {
		out.Own = make([]float32, f.split.Items())
		l.Visit(&st, &l.task, local.NotCounted, false)
		l.ScoreAll(out.Own)
		if slot == f.servedSlot() {
			stride := len(r.engine.Value[slot]) / f.split.Items()
			ids, rows, shrunk := l.TunedRows(slot, nil, nil)
			out.Table = make([]float32, len(r.engine.Value[slot]))
			for i, x := range r.engine.Value[slot] {
				out.Table[i] = x * shrunk
			}
			for k, id := range ids {
				copy(out.Table[int(id)*stride:][:stride], rows[k*stride:])
			}
		}
	}
	l.Prepare(&st, &l.task)
	l.ScoreAll(out.Global)
	return out
}

// ItemTable is the slot of the item table that is shared, and its width: the first
// that has a row for each item and is no statistic. ok is false where there is none.
func (r *Run) ItemTable() (slot, dim int, ok bool) {
	for i, s := range r.fleet.plan.Slots {
		shared := s.Scope == method.Shared && s.Upload != method.Sum || s.Scope == method.Server &&
			r.fleet.plan.Central()
		if s.PerItem && shared && s.Dim > 1 {
			return i, s.Dim, true
		}
	}
	return 0, 0, false
}

// Popularity counts the train rows of each item, of at most the given number of
// users.
func Popularity(split *data.Split, users int) []int {
	out := make([]int, split.Items())
	var p data.Part
	for u := range min(users, split.Users()) {
		split.User(u, &p)
		for _, i := range p.Train {
			out[i]++
		}
	}
	return out
}
