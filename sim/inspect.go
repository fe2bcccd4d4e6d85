package sim

import (
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// TableComparison compares the devices' score functions on three item tables: the device's own
// tuned one, the server's, and another device's (Figure 3 of the PFedRec paper). Random is nil
// for a method without a bilinear head.
type TableComparison struct {
	Users               int
	Own, Global, Random []metrics.Rank // of the test items among sampled candidates, by user
	Start               []int          // that of Ranks if the test items of a user are ranked together; otherwise nil
}

// HasTunedTables reports whether devices recommend with their own tuned tables.
func (r *Run) HasTunedTables() bool {
	return r.fleet.plan.Serves(method.ServeLocal) && len(r.fleet.state) > 1
}

// CompareTables trains some devices once more and ranks their test items with the three
// tables. It does not change the run.
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
	if evals[0].now.Together {
		out.Start = evals[0].now.Start
	}
	other := rng.New(f.plan.Seed, rng.Figure, uint64(t))
	shift := 1 + int(other.Uint32n(uint32(max(len(users)-1, 1))))
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
		evals[2].user(&otherTable{l, &tables[(i+shift)%len(users)]}, &l.scores, &l.part, u)
	})
	if f.plan.HasHead() {
		out.Random = evals[2].now.Test
	}
	return out
}

// servedSlot returns the slot of the table that devices tune.
func (f *devices) servedSlot() int {
	for i, s := range f.plan.Slots {
		if s.PerItem && s.Scope == method.Shared && s.Serve == method.ServeLocal && s.Upload == method.Delta {
			return i
		}
	}
	return f.otherTableSlot()
}

// DeviceView shows one device at the end of a run.
type DeviceView struct {
	User        int
	Train       []uint32
	Drawn       []uint32 // negatives of one training, without repeats
	Valid, Test int64    // held-out items, or data.None
	Own, Global []float32
	Table       []float32 // the device's tuned table in the layout of the slot; nil if it has none
}

// Inspect scores all items for one device with the server's newest values (Global) and, if
// devices tune their tables, with its own after one more training (Own). Table is the device's
// copy of slot. Inspect does not change the run.
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

// ItemTable returns the slot and the width of the shared item table: the first slot with a row
// per item that is not a sum. ok is false if the method has none.
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

// Popularity counts the train rows of each item over the first users of a split.
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
