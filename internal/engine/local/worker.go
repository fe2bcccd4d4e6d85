package local

import (
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// Task is one device in one round.
type Task struct {
	Device uint32
	Round  int
	Train  []uint32    // the items it has, oldest first
	Rating []float32   // of Train; nil where the data has none
	Rows   []uint32    // of Train, in Features.Row; nil where there are none
	Hide   [2][]uint32 // items that are never drawn as negatives, beside Train
}

// Outcome is what a visit did.
type Outcome struct {
	Samples   int
	Touched   int // distinct items
	Bytes     int // of the update's binary form
	Truncated int // numbers of it that were beyond the reach of their slots
	Loss      float64
	LossN     int
	Norm      float64 // of the update, before it was bounded; only where it is
}

// Worker runs visits one after the other, in memory that it keeps. It belongs to
// one goroutine.
type Worker struct {
	p   *Plan
	mem *Memory
	id  int
	w   method.Work

	bits []uint64 // excluded items; all zero between visits
	pool []uint32 // the pool as a list, when it is small
	raw  []uint32 // samples in order: item, top bit set for a positive
	ctx  []uint32 // of raw: the interaction; nil where those have no features
	// By item: 0 for one that is not touched. In a visit that copies its rows the
	// position plus 1. In a Direct visit -1 for an item touched once and left in
	// place, else its row in the local block.
	tab    []int32
	items  []uint32  // by position
	own    []int32   // by item: place in an overlay + 1; all zero between uses
	at     [][]int32 // by private table and position: own of its item when the visit began
	lists  [2]list
	delta  []float32 // room for a row
	rating []float32 // by item, of the device's own items; nil unless the visit is Rated
	rand   rng.Rand
	stream vec.Stream
	count  []uint32 // by shard and item: devices that touched it; nil when nobody asks

	state   *State
	shard   int
	sends   bool // the method sends something
	visited bool // the last call was Visit: tuned rows are in place
	readied bool // the last call was Prepare, and what it has tuned is in place
	score   scorer
	draft   privacy.Delta
	ints    integral
	whole   [][]float32 // by slot: a table with its decay in it, while it is sealed
}

// NewWorker returns worker id of the memory.
func NewWorker(m *Memory, id int) *Worker {
	p := m.plan
	k := &Worker{
		p: p, mem: m, id: id, sends: len(p.SentSlots()) > 0,
		bits: make([]uint64, (p.Items+63)/64), tab: make([]int32, p.Items),
		items: make([]uint32, 0, p.Items), own: make([]int32, p.Items),
	}
	for range p.tables {
		k.at = append(k.at, make([]int32, p.Items))
	}
	if p.Visit.UsesRatings || p.ready != nil && p.ready.UsesRatings {
		k.rating = make([]float32, p.Items)
	}
	w := &k.w
	w.Items, w.Rounds, w.BatchSize, w.NoFuse = p.Items, p.Rounds, p.Batch, p.Plain
	w.Features = p.Features
	w.Z = make([]float32, p.Batch)
	w.View = make([]method.View, len(p.Slots))
	k.whole = make([][]float32, len(p.Slots))
	w.Samples.Rd, w.Samples.Wr = make([][]uint32, len(p.Slots)), make([][]uint32, len(p.Slots))
	w.Samples.Shuffle = k.reorder
	for i := range p.Slots {
		v := &w.View[i]
		v.Slot, v.Stride, v.Scale = p.Slots[i], vec.Pad(p.Slots[i].Dim), 1
		if v.Slot.Scope == method.Server {
			if p.central { // its scores come from where it was trained
				v.Val, v.Arena = m.value[i], m.arena[i]
			}
			continue
		}
		if v.Slot.Sparse {
			continue
		}
		if !v.Slot.PerItem {
			v.Val, v.Grad, v.Base = make([]float32, p.width[i]), make([]float32, p.width[i]), m.value[i]
			if v.Slot.Upload == method.Gradient {
				v.Sent = make([]float32, p.width[i])
			}
			continue
		}
		v.Arena, v.Local = m.arena[i], m.local[i]+uint32(id*m.room)
		if v.Slot.Copied() && !p.Direct() {
			v.GradRows = make([]float32, p.width[i])
			v.RowScale = make([]float64, p.Items)
		}
	}
	k.score.init(k)
	return k
}

// ID is the number of the worker.
func (k *Worker) ID() int { return k.id }

// CountTouched makes visits count the items they touch, in rows of items by shard.
func (k *Worker) CountTouched(rows []uint32) { k.count = rows }

// NotCounted is the shard whose sums do not count.
const NotCounted = -1

// Visit runs the method's visit on one device and adds its update to a shard's
// sums. wantLoss asks for the training loss. Nothing is allocated once the
// worker has seen a device as large.
func (k *Worker) Visit(st *State, t *Task, shard int, wantLoss bool) Outcome {
	counts := shard != NotCounted
	if !counts || k.p.Integers {
		shard = k.mem.Shards + k.id
	}
	k.begin(st, t)
	k.w.WantLoss = wantLoss
	var out Outcome
	if k.p.Visit.HistoryOnly {
		k.resolveHistory(t.Train, shard)
	} else if !k.sample(t) {
		k.end(t)
		return out
	} else if k.p.Direct() {
		k.resolveDirect(shard)
	} else {
		k.resolveLocal(shard)
	}
	k.p.Visit.Run(&k.w)
	out.Samples, out.Touched = len(k.raw), k.touched()
	out.Loss, out.LossN = k.w.Loss, k.w.LossN
	k.upload(shard, &out)
	if k.p.Integers {
		k.seal(shard, counts && out.Samples > 0, &out)
	}
	if k.count != nil && shard < k.mem.Shards {
		k.countTouched(k.count[shard*k.p.Items:][:k.p.Items])
	}
	k.keep()
	st.Visits++
	k.visited = true
	k.end(t)
	return out
}

// ResolveSamples draws and resolves a device's samples as a visit does, with every row
// copied, and hands the work out without running it: for tests of gradients. The
// plan must be Plain.
func (k *Worker) ResolveSamples(st *State, t *Task) *method.Work {
	k.begin(st, t)
	defer k.end(t)
	if !k.sample(t) {
		return nil
	}
	k.resolveLocal(k.mem.Shards + k.id)
	return &k.w
}

// begin loads the device's state.
func (k *Worker) begin(st *State, t *Task) {
	k.forget()
	if st.Tables == nil {
		*st = k.mem.NewState(nil)
	}
	w := &k.w
	w.Release(method.Mark{})
	k.state, k.visited, k.readied, k.score.moved = st, false, false, false
	if k.p.context && len(t.Rows) > 0 {
		k.score.context = t.Rows[len(t.Rows)-1]
	}
	w.Device, w.Round, w.Phase, w.Step, w.History = t.Device, t.Round, k.p.Phase(t.Round), 0, t.Train
	k.ints.seat = t.Device
	if k.p.SingleDevice {
		w.Device = 0
	}
	w.Loss, w.LossN, w.WantLoss = 0, 0, false
	w.Rand = rng.New(k.p.draws(), rng.Visit, uint64(t.Round), uint64(t.Device))
	w.RankOne = method.RankOne{On: k.p.Direct() && !k.p.Visit.HistoryOnly, G: w.RankOne.G, Lo: w.RankOne.Lo[:0], V: w.RankOne.V[:0]}
	for i := range w.View {
		v := &w.View[i]
		v.Scale = 1
		switch s := &v.Slot; {
		case s.PerUser:
			v.Val = k.mem.value[i][int(t.Device)*v.Stride:][:v.Stride]
		case s.PerItem || s.Scope == method.Server:
		case s.Sparse:
			v.Indices, v.Values = v.Indices[:0], v.Values[:0]
		case s.Scope == method.Private:
			copy(v.Val, st.Plain[k.p.at[i]:])
		case s.Scope == method.Shared && s.Upload == method.Sum:
			clear(v.Val)
		default:
			copy(v.Val, v.Base)
			clear(v.Sent)
		}
	}
	k.exclude(t)
	if k.rating != nil {
		for x, item := range t.Train {
			if k.rating[item] = 1; t.Rating != nil {
				k.rating[item] = t.Rating[x] // of several, the newest
			}
		}
	}
}

// exclude sets the bits of what is never drawn.
func (k *Worker) exclude(t *Task) {
	bits, items := k.bits, uint32(k.p.Items)
	for _, list := range [...][]uint32{t.Train, t.Hide[0], t.Hide[1]} {
		for _, item := range list {
			if item >= items {
				panic("device: an item beyond the catalogue")
			}
			bits[item>>6] |= 1 << (item & 63)
		}
	}
}

// forget clears what the last device left in the tables by item.
func (k *Worker) forget() {
	if n := len(k.raw); n*4 > len(k.tab) {
		clear(k.tab)
	} else {
		for _, r := range k.raw {
			k.tab[r&itemMask] = 0
		}
	}
	k.raw, k.items = k.raw[:0], k.items[:0]
}

// end clears the exclusion bits of the task.
func (k *Worker) end(t *Task) {
	for _, item := range t.Train {
		k.bits[item>>6] = 0
	}
	for _, list := range t.Hide {
		for _, item := range list {
			k.bits[item>>6] = 0
		}
	}
}

func (k *Worker) touched() int {
	n := len(k.items)
	if k.p.Direct() {
		n += k.score.once
	}
	return n
}

func (k *Worker) countTouched(n []uint32) {
	for _, item := range k.items {
		n[item]++
	}
	for _, item := range k.w.Samples.Item {
		if k.tab[item] < 0 {
			n[item]++
		}
	}
}

// upload adds the device's update to a shard's sums and counts its bytes: of a
// PerItem slot the touched rows with their ids, or all rows where that is less.
func (k *Worker) upload(shard int, out *Outcome) {
	size := 0
	if k.sends {
		size = (&rows.Update{}).Size()
	}
	n := out.Touched
	if k.p.Cover.Partial() {
		n = k.covered()
	}
	for i := range k.w.View {
		v := &k.w.View[i]
		if !uploads(&v.Slot) || !k.p.IsSent(k.w.Phase, i) {
			continue
		}
		dim := v.Slot.Dim
		if v.Slot.Sparse {
			size += k.uploadSparse(i, shard)
			continue
		}
		if !v.Slot.PerItem {
			acc := k.mem.acc[i][shard*len(v.Val):][:len(v.Val)]
			switch v.Slot.Upload {
			case method.Delta:
				vec.AddDiff(v.Val, v.Base, acc)
			case method.Sum:
				vec.Add(v.Val, acc)
			case method.Gradient:
				vec.Add(v.Sent, acc)
			}
			size += rows.PartSize(v.Slot.Rows*dim, 0)
			continue
		}
		if v.Slot.Upload == method.Delta {
			v.RescaleAll(len(k.items))
			vec.Fold(v.Arena, v.Stride, k.items, float32(v.Scale), v.Local, k.mem.accRow(shard))
			k.mem.shrunk[i][shard] += v.Scale - 1
		}
		least := rows.PartSize(v.Slot.Rows*dim, 0)
		if !k.p.Dense {
			least = min(least, rows.PartSize(n*dim, n))
			if k.p.Sparse {
				least = min(least, k.sparseBytes(v, n))
			}
		}
		size += least
	}
	out.Bytes = size
}

// uploadSparse adds the numbers that a visit has listed to a shard's sums, and returns
// their bytes. Under a bound they are sealed from the list.
func (k *Worker) uploadSparse(i, shard int) int {
	v := &k.w.View[i]
	if !k.p.Integers && shard < k.mem.Shards {
		acc := k.mem.acc[i][shard*k.p.width[i]:][:k.p.width[i]]
		for x, place := range v.Indices {
			acc[place] += v.Values[x]
		}
	}
	dense := rows.PartSize(v.Slot.Dim, 0)
	if k.p.Dense {
		return dense
	}
	return min(dense, rows.PartSize(len(v.Indices), len(v.Indices)))
}

// keep writes the Private slots back.
func (k *Worker) keep() {
	for i := range k.w.View {
		if v := &k.w.View[i]; v.Slot.Scope == method.Private && !v.Slot.PerItem {
			copy(k.state.Plain[k.p.at[i]:], v.Val)
		}
	}
	for n, i := range k.p.tables {
		k.keepTable(&k.w.View[i], n)
	}
}
