package local

import (
	"github.com/tacit-rec/tacit/vec"
)

const (
	// trackFrom is the size of all sums of rows, in bytes, from which touched rows are tracked.
	trackFrom = 64 << 20
	// mergePiece is how many numbers of a shard are skipped together if none was touched.
	mergePiece = 1024
)

// trackTouched tracks the touched rows of large sums: a small cohort touches few rows of a large
// catalogue.
func (m *Memory) trackTouched() {
	size := 0
	for i := range m.plan.Slots {
		if s := &m.plan.Slots[i]; s.PerItem && isSent(s) {
			size += 4 * m.Shards * m.plan.width[i]
		}
	}
	if size < trackFrom || m.plan.Integers {
		return
	}
	m.touched = make([][]uint64, m.Shards)
	for s := range m.touched {
		m.touched[s] = make([]uint64, (m.plan.Items+63)/64)
	}
}

// markTouched marks the items of the last training in a shard.
func (k *Worker) markTouched(shard int) {
	if k.mem.touched == nil || shard >= k.mem.Shards {
		return
	}
	set := k.mem.touched[shard]
	k.eachTouched(func(id uint32) { set[id>>6] |= 1 << (id & 63) })
}

// ForgetTouched ends a round, after CollectSums of all slots.
func (m *Memory) ForgetTouched() {
	for _, set := range m.touched {
		clear(set)
	}
}

// collectTouched adds numbers lo to hi of those shards that touched their rows to dst, and clears
// them. The result has the same bits as that of all shards: the others are zero.
func (m *Memory) collectTouched(acc []float32, stride, step, lo, hi int, dst []float32) {
	var in [64]int
	n, first, last := 0, uint(lo/stride), uint((hi-1)/stride)
	for s, set := range m.touched {
		if n < len(in) && anyBit(set, first, last) {
			in[n] = s
			n++
		}
	}
	if 2*n > m.Shards || m.Shards > len(in) {
		vec.Merge(acc[lo:], step, m.Shards, dst[lo:hi])
		return
	}
	for _, s := range in[:n] {
		vec.Merge(acc[s*step+lo:], step, 1, dst[lo:hi])
	}
}

// anyBit reports whether one of the bits first to last, inclusive, is set.
func anyBit(set []uint64, first, last uint) bool {
	a, b := first/64, last/64
	from, to := ^uint64(0)<<(first%64), ^uint64(0)>>(63-last%64)
	if a == b {
		return set[a]&from&to != 0
	}
	if set[a]&from != 0 || set[b]&to != 0 {
		return true
	}
	for _, w := range set[a+1 : b] {
		if w != 0 {
			return true
		}
	}
	return false
}
