package local

import (
	"fmt"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// Memory is what the devices of one process share: the values of the slots, and a set of
// accumulators per shard that deltas are added to.
//
// A PerItem slot is one arena of rows:
//
//	value [items] | accumulator [items] per shard and per worker | local block per worker
//
// A worker's own accumulator takes deltas that do not count, or that are encoded.
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
	updates [][]int64 // by worker: the sum of encoded updates, clipping bits last
	// touched has a bit by shard and item: whether the item's rows in the shard's sums may
	// differ from zero. Nil if the sums are so small that it is not worth the time.
	touched [][]uint64
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
	if rows := p.Items * (shards + 2*workers + 2); rows > maxRows {
		return nil, fmt.Errorf("%d items in %d shards: an arena has at most %d rows", p.Items, shards, maxRows)
	}
	if p.Integers {
		m.updates = make([][]int64, workers)
		for w := range m.updates {
			m.updates[w] = make([]int64, p.MaxUpdateLength()+1)
		}
	}
	for i := range p.Slots {
		s := &p.Slots[i]
		m.shrunk[i] = make([]float64, shards+workers)
		if !s.PerItem {
			m.value[i] = make([]float32, p.width[i])
			p.Fill(i, m.value[i])
			if isSent(s) && !(s.Sparse && p.Integers) { // sparse numbers are encoded from their list
				m.acc[i] = make([]float32, (shards+workers)*p.width[i])
			}
			continue
		}
		count := p.Items
		if isSent(s) {
			count += (shards + workers) * p.Items
		}
		m.local[i] = uint32(count)
		if s.Copied() {
			count += workers * m.room
		}
		m.arena[i] = make([]float32, count*vec.Pad(s.Dim))
		p.Fill(i, m.arena[i])
	}
	m.trackTouched()
	return m, nil
}

// Value returns the current value of a slot; of a Private one, the initial value of a new
// device.
func (m *Memory) Value(slot int) []float32 {
	if m.plan.Slots[slot].PerItem {
		return m.arena[slot][:m.plan.width[slot]]
	}
	return m.value[slot]
}

// accRow returns the first row of an accumulator.
func (m *Memory) accRow(shard int) uint32 {
	return uint32(m.plan.Items * (1 + shard))
}

// CollectSums adds the shards' sums of a slot, numbers lo to hi, to dst in the order of the
// shards, and clears them. Calls for disjoint ranges may run concurrently.
func (m *Memory) CollectSums(slot, lo, hi int, dst []float32) {
	if m.plan.Slots[slot].PerItem {
		stride := vec.Pad(m.plan.Slots[slot].Dim)
		acc := m.arena[slot][int(m.accRow(0))*stride:]
		if m.touched == nil {
			vec.Merge(acc[lo:], m.plan.width[slot], m.Shards, dst[lo:hi])
			return
		}
		for ; lo < hi; lo += mergePiece {
			m.collectTouched(acc, stride, m.plan.width[slot], lo, min(lo+mergePiece, hi), dst)
		}
		return
	}
	vec.Merge(m.acc[slot][lo:], m.plan.width[slot], m.Shards, dst[lo:hi])
}

// TakeShrinkage returns the sum of (shrinkage - 1) of a slot over devices, and clears it.
func (m *Memory) TakeShrinkage(slot int) float64 {
	s := 0.0
	for i := range m.Shards {
		s += m.shrunk[slot][i]
	}
	clear(m.shrunk[slot])
	return s
}

// SetBound sets the bound of the next round's updates.
func (m *Memory) SetBound(b privacy.Bound) { m.bound = b }

// TakeSum adds the sum of all encoded updates since the last call to dst, clipping bits last,
// and clears it. dst has the length of an update of the round, and one more. The order of
// workers changes no bit.
func (m *Memory) TakeSum(dst []int64) {
	for _, sum := range m.updates {
		for i := range dst {
			dst[i] += sum[i]
		}
		clear(sum)
	}
}

// TakeUpdate moves the sum of a worker's encoded updates to dst: after one Visit, the update
// of that device.
func (m *Memory) TakeUpdate(worker int, dst []int64) {
	n := copy(dst, m.updates[worker])
	clear(m.updates[worker][:n])
}

// Bytes returns the memory held.
func (m *Memory) Bytes() int {
	n := 0
	for i := range m.arena {
		n += 4 * (len(m.arena[i]) + len(m.value[i]) + len(m.acc[i]))
	}
	return n
}

// MemoryBytes estimates the memory that NewMemory, NewWorker and the private tables of one
// device take. It allocates nothing, so a device can refuse a plan that is too large. The
// result is a float because a hostile plan may overflow an integer.
func (p *Plan) MemoryBytes(shards, workers int) float64 {
	items, total := float64(p.Items), 0.0
	sums, crew := float64(shards+workers), float64(workers)
	for i := range p.Slots {
		s := &p.Slots[i]
		width := float64(s.Rows) * float64(vec.Pad(s.Dim))
		n := width
		if isSent(s) {
			n += sums * width
		}
		switch {
		case !s.PerItem:
			n += 3 * crew * width // values, gradients and what is sent
		case s.Copied():
			n += crew * (2*width + scoreChunk*float64(vec.Pad(s.Dim)) + 2*items)
		}
		if s.Scope == method.Private && s.PerItem {
			n += 2*width + items
		}
		total += 4 * n
	}
	if p.Integers {
		total += 8 * crew * float64(p.MaxUpdateLength()+1)
	}
	return total + crew*items*(4*6+8)
}
