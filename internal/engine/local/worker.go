package local

import (
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Task is one device in one round.
type Task struct {
	Device uint32
	Round  int
	Train  []uint32    // the device's items, oldest first
	Rating []float32   // of Train; nil if the data has none
	Rows   []uint32    // of Train, in Features.Row; nil if the data has none
	Hide   [2][]uint32 // further items that are never drawn as negatives
}

// Outcome describes one local training.
type Outcome struct {
	Samples   int
	Touched   int // distinct items
	Bytes     int // of the update
	Truncated int // numbers that exceeded the range of their slot
	Loss      float64
	LossN     int
	Norm      float64 // of the delta before clipping; only if the update is encoded by a bound
}

// Worker trains devices one after the other, in memory that it reuses. It belongs to one
// goroutine.
type Worker struct {
	p   *Plan
	mem *Memory
	id  int
	w   method.Work

	bits []uint64 // excluded items; all zero between devices
	pool []uint32 // the items that may be drawn, if they are few
	raw  []uint32 // samples in order: item, top bit set for a positive
	ctx  []uint32 // of raw: the interaction; nil if interactions have no features
	// By item: 0 for one that is not touched. If rows are copied, the position plus 1. In
	// in-place training -1 for an item that is touched once and stays in place, otherwise its
	// row in the local block.
	tab    []int32
	items  []uint32  // by position
	own    []int32   // by item: index in an overlay + 1; all zero between uses
	at     [][]int32 // by private table and position: own of its item before training
	lists  [2]list
	row    []float32 // scratch
	rating []float32 // by item, of the device's own items; nil unless the method uses ratings
	rand   rng.Rand
	stream vec.Stream
	count  []uint32 // by shard and item: devices that touched it; nil if not counted

	state    *State
	shard    int
	trained  bool // the last call was Visit: tuned rows are in place
	prepared bool // the last call was Prepare, and the rows that it tuned are in place
	score    scorer
	enc      encoder
}

// NewWorker returns worker number id of a memory.
func NewWorker(m *Memory, id int) *Worker {
	p := m.plan
	k := &Worker{
		p: p, mem: m, id: id,
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
	k.enc.table = make([][]float32, len(p.Slots))
	w.Samples.Rd, w.Samples.Wr = make([][]uint32, len(p.Slots)), make([][]uint32, len(p.Slots))
	w.Samples.Shuffle = k.shuffle
	for i := range p.Slots {
		v := &w.View[i]
		v.Slot, v.Stride, v.Scale = p.Slots[i], vec.Pad(p.Slots[i].Dim), 1
		if v.Slot.Scope == method.Server {
			if p.central { // scores read what was trained in one place
				v.Val, v.Arena = m.value[i], m.arena[i]
			}
			continue
		}
		if v.Slot.Sparse {
			continue
		}
		if !v.Slot.PerItem {
			v.Base = m.value[i]
			if v.Slot.Scope == method.Shared && v.Slot.Upload == method.Broadcast {
				v.Val = v.Base // training does not change it
				continue
			}
			v.Val, v.Grad = make([]float32, p.width[i]), make([]float32, p.width[i])
			if v.Slot.Upload == method.Gradient {
				v.Sent = make([]float32, p.width[i])
			}
			continue
		}
		v.Arena, v.Local = m.arena[i], m.local[i]+uint32(id*m.room)
		if v.Slot.Copied() && !p.InPlace() {
			v.GradRows = make([]float32, p.width[i])
			v.RowScale = make([]float64, p.Items)
		}
	}
	k.score.init(k)
	return k
}

// ID returns the number of the worker.
func (k *Worker) ID() int { return k.id }

// CountTouched makes Visit count the items that devices touch, by shard and item.
func (k *Worker) CountTouched(counts []uint32) { k.count = counts }

// NotCounted is the shard of a device whose update does not count.
const NotCounted = -1

// Visit is one local training: it prepares the device, draws its samples, trains, and adds
// the delta to a shard's sums, encoded if the plan has integers. wantLoss asks for the
// training loss. Visit allocates nothing once the worker has seen a device of this size.
func (k *Worker) Visit(st *State, t *Task, shard int, wantLoss bool) Outcome {
	counted := shard != NotCounted
	if !counted || k.p.Integers {
		shard = k.mem.Shards + k.id
	}
	k.prepare(st, t, true)
	k.w.WantLoss = wantLoss
	if !k.sample(t, shard) {
		k.finish(t)
		return Outcome{}
	}
	k.p.Visit.Run(&k.w)
	out := k.addDelta(shard)
	if k.p.Integers {
		k.encode(shard, counted && out.Samples > 0, &out)
	}
	k.saveState()
	st.Visits++
	k.trained = true
	k.finish(t)
	return out
}

// ResolveSamples prepares a device and draws its samples as Visit does, with every row
// copied, and returns the work without running it. Tests of gradients use it. The plan must
// be Plain.
func (k *Worker) ResolveSamples(st *State, t *Task) *method.Work {
	k.prepare(st, t, false)
	defer k.finish(t)
	if !k.draw(t) {
		return nil
	}
	k.resolveLocal(k.mem.Shards + k.id)
	return &k.w
}

// prepare loads a device: its state, its views of the slots, and the items that it must not
// draw. To train, it leaves out slots that the round does not transfer.
func (k *Worker) prepare(st *State, t *Task, train bool) {
	k.clearItems()
	if st.Tables == nil {
		*st = k.mem.NewState(nil)
	}
	w := &k.w
	w.Release(method.Frame{})
	k.state = st
	k.trained, k.prepared, k.score.moved = false, false, false
	if k.p.context && len(t.Rows) > 0 {
		k.score.context = t.Rows[len(t.Rows)-1]
	}
	w.Device, w.Round, w.Phase = t.Device, t.Round, k.p.Phase(t.Round)
	w.Step, w.History = 0, t.Train
	k.enc.device = t.Device
	if k.p.SingleDevice {
		w.Device = 0
	}
	w.Loss, w.LossN, w.WantLoss = 0, 0, false
	w.Rand = rng.New(k.p.deviceSeed(), rng.Visit, uint64(t.Round), uint64(t.Device))
	w.RankOne = method.RankOne{
		On: k.p.InPlace() && !k.p.Visit.HistoryOnly,
		G:  w.RankOne.G, Lo: w.RankOne.Lo[:0], V: w.RankOne.V[:0],
	}
	for i := range w.View {
		v := &w.View[i]
		v.Scale = 1
		switch s := &v.Slot; {
		case s.PerUser:
			v.Val = k.mem.value[i][int(t.Device)*v.Stride:][:v.Stride]
		case s.PerItem || s.Scope == method.Server:
		case s.Sparse:
			v.Indices, v.Values = v.Indices[:0], v.Values[:0]
		case s.Scope == method.Shared && (s.Upload == method.Broadcast || train && !k.p.IsSent(w.Phase, i)):
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
			k.rating[item] = 1
			if t.Rating != nil {
				k.rating[item] = t.Rating[x] // the newest, if there are several
			}
		}
	}
}

// exclude sets the bits of the items that are never drawn.
func (k *Worker) exclude(t *Task) {
	bits, items := k.bits, uint32(k.p.Items)
	for _, list := range [...][]uint32{t.Train, t.Hide[0], t.Hide[1]} {
		for _, item := range list {
			if item >= items {
				panic("local: item beyond the catalogue")
			}
			bits[item>>6] |= 1 << (item & 63)
		}
	}
}

// clearItems clears what the last device left in the tables by item.
func (k *Worker) clearItems() {
	if n := len(k.raw); n*4 > len(k.tab) {
		clear(k.tab)
	} else {
		for _, r := range k.raw {
			k.tab[r&itemMask] = 0
		}
	}
	k.raw, k.items = k.raw[:0], k.items[:0]
}

// finish clears the exclusion bits of the task.
func (k *Worker) finish(t *Task) {
	for _, item := range t.Train {
		k.bits[item>>6] = 0
	}
	for _, list := range t.Hide {
		for _, item := range list {
			k.bits[item>>6] = 0
		}
	}
}

// saveState writes the Private slots back to the device's state.
func (k *Worker) saveState() {
	for i := range k.w.View {
		if v := &k.w.View[i]; v.Slot.Scope == method.Private && !v.Slot.PerItem {
			copy(k.state.Plain[k.p.at[i]:], v.Val)
		}
	}
	for n, i := range k.p.tables {
		k.saveTable(&k.w.View[i], n)
	}
}
