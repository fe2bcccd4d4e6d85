package local

import (
	"fmt"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// Memory is what the devices of one process share: the values of the slots, and
// a set of accumulators per shard that their updates are added to.
//
// A PerItem slot is one arena of rows:
//
//	value [items] | accumulator [items] per shard and per worker | local block per worker
//
// A worker's own accumulator takes what must not count (late updates).
type Memory struct {
	plan    *Plan
	Shards  int
	workers int
	arena   [][]float32
	value   [][]float32 // plain slots
	acc     [][]float32 // plain slots: shards, then workers
	shrunk  [][]float64 // by slot and shard: sum of (shrinkage - 1)
	local   []uint32    // first row of worker 0's local block, by slot
	room    int         // rows of a local block
	classes *classes
	bound   privacy.Bound
	sealed  [][]int64 // by worker: the flat sum of bounded updates, then that of clipping bits
}

// scoreChunk is how many rows a worker may copy to score them.
const scoreChunk = 512

// NewMemory allocates and fills the slots.
func NewMemory(p *Plan, shards, workers int) (*Memory, error) {
	n := len(p.Slots)
	m := &Memory{
		plan: p, Shards: shards, workers: workers, room: p.Items + scoreChunk, classes: p.classify(),
		arena: make([][]float32, n), value: make([][]float32, n), acc: make([][]float32, n),
		shrunk: make([][]float64, n), local: make([]uint32, n),
	}
	if rows := p.Items * (shards + 2*workers + 2); rows > maxItems {
		return nil, fmt.Errorf("device: %d items in %d shards are too many rows for one arena", p.Items, shards)
	}
	if p.Integers {
		m.sealed = make([][]int64, workers)
		for w := range m.sealed {
			m.sealed[w] = make([]int64, p.MaxUpdateLength()+1)
		}
	}
	for i := range p.Slots {
		s := &p.Slots[i]
		m.shrunk[i] = make([]float64, shards+workers)
		if !s.PerItem {
			m.value[i] = make([]float32, p.width[i])
			p.Fill(i, m.value[i])
			if uploads(s) && !(s.Sparse && p.Integers) { // which are sealed from where they were listed
				m.acc[i] = make([]float32, (shards+workers)*p.width[i])
			}
			continue
		}
		count := p.Items
		if uploads(s) {
			count += (shards + workers) * p.Items
		}
		m.local[i] = uint32(count)
		if s.Copied() {
			count += workers * m.room
		}
		m.arena[i] = make([]float32, count*vec.Pad(s.Dim))
		p.Fill(i, m.arena[i])
	}
	return m, nil
}

func uploads(s *method.Slot) bool { return s.Scope == method.Shared && s.Upload != method.Broadcast }

// Value returns the current value of a slot: of a Private one, what a new
// device starts from.
func (m *Memory) Value(slot int) []float32 {
	if m.plan.Slots[slot].PerItem {
		return m.arena[slot][:m.plan.width[slot]]
	}
	return m.value[slot]
}

// accRow is the first row of an accumulator.
func (m *Memory) accRow(shard int) uint32 {
	return uint32(m.plan.Items * (1 + shard))
}

// CollectSums adds the shards' sums of a slot to dst, places lo to hi, in the order
// of the shards, and clears them. Different places may be collected at a time.
func (m *Memory) CollectSums(slot, lo, hi int, dst []float32) {
	if m.plan.Slots[slot].PerItem {
		o := int(m.accRow(0)) * vec.Pad(m.plan.Slots[slot].Dim)
		vec.Merge(m.arena[slot][o+lo:], m.plan.width[slot], m.Shards, dst[lo:hi])
		return
	}
	vec.Merge(m.acc[slot][lo:], m.plan.width[slot], m.Shards, dst[lo:hi])
}

// TakeShrinkage returns the sum over devices of (shrinkage - 1) of a slot, and clears it.
func (m *Memory) TakeShrinkage(slot int) float64 {
	s := 0.0
	for i := range m.Shards {
		s += m.shrunk[slot][i]
	}
	clear(m.shrunk[slot])
	return s
}

// Bytes is the memory held.
func (m *Memory) Bytes() int {
	n := 0
	for i := range m.arena {
		n += 4 * (len(m.arena[i]) + len(m.value[i]) + len(m.acc[i]))
	}
	return n
}

// State is what persists on one device. The zero value is a device that was
// never visited.
type State struct {
	Plain  []float32 // the Private plain slots, one after the other
	Tables []rows.Overlay
	Visits uint32
}

// NewState gives a state its starting values. plain is the room to use, or nil.
func (m *Memory) NewState(plain []float32) State {
	p := m.plan
	if plain == nil {
		plain = make([]float32, p.plain)
	}
	s := State{Plain: plain, Tables: make([]rows.Overlay, len(p.tables))}
	for i := range p.Slots {
		if p.Slots[i].Scope == method.Private && !p.Slots[i].PerItem {
			copy(s.Plain[p.at[i]:], m.value[i])
		}
	}
	for k := range s.Tables {
		s.Tables[k] = rows.NewOverlay(p.Keep)
	}
	return s
}

// PlainSize is the number of floats of State.Plain.
func (p *Plan) PlainSize() int { return p.plain }

// TableStride is the width of a row of State.Tables[k].
func (p *Plan) TableStride(k int) int { return vec.Pad(p.Slots[p.tables[k]].Dim) }
