package local

import (
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Delta takes what the last visit added to a shard's sums out of them, as the
// update that the device would send. The shard must hold nothing else: it is for
// a memory that one device has to itself.
func (k *Worker) Delta(shard int) *rows.Update {
	u := &rows.Update{}
	ids := k.Touched()
	for i := range k.w.View {
		v := &k.w.View[i]
		if !uploads(&v.Slot) {
			continue
		}
		p := rows.Part{Slot: uint16(i), Dim: v.Slot.Dim, Shrunk: k.mem.shrunk[i][shard]}
		k.mem.shrunk[i][shard] = 0
		if v.Slot.PerItem {
			p.IDs = ids
			for _, id := range ids {
				p.Data = take(v.Row(k.mem.accRow(shard)+id), v.Slot.Dim, p.Data)
			}
		} else {
			acc := k.mem.acc[i][shard*k.p.width[i]:][:k.p.width[i]]
			for r := range v.Slot.Rows {
				p.Data = take(acc[r*v.Stride:(r+1)*v.Stride], v.Slot.Dim, p.Data)
			}
		}
		u.Parts = append(u.Parts, p)
	}
	return u
}

// take appends the first dim numbers of a row to dst and clears the row.
func take(row []float32, dim int, dst []float32) []float32 {
	dst = append(dst, row[:dim]...)
	clear(row)
	return dst
}

// sparseBytes is the size of a PerItem slot's part with its zeros left out. Rows
// that went to the sums without a copy count in full: they are a number times a
// vector, or a gradient.
func (k *Worker) sparseBytes(v *method.View, touched int) int {
	ids := k.lists[0].empty()
	ids.from = append(ids.from, k.items...)
	for _, item := range k.w.Samples.Item {
		if k.tab[item] == -1 {
			ids.from = append(ids.from, item)
		}
	}
	slices.Sort(ids.from)
	dim, full := v.Slot.Dim, touched
	k.delta = append(k.delta[:0], v.Row(0)...)
	size := 0
	if v.Slot.Upload == method.Delta {
		full -= len(k.items)
		for p, item := range k.items {
			clear(k.delta)
			vec.Axpy(-float32(v.Scale), v.Row(item), k.delta)
			vec.Add(v.Row(v.Local+uint32(p)), k.delta)
			size += rows.SparseRowSize(k.delta[:dim])
		}
	}
	return rows.SparsePartSize(size+full*(1+4*dim), ids.from)
}

// SparseDown is what a device downloads in a round as Plan.BytesDown counts it, but
// with the zeros of the current values left out where that is less, and the share of
// the numbers that are zeros.
func (m *Memory) SparseDown() (bytes int, zeros float64) {
	bytes = (&rows.Update{}).Size()
	none, all := 0, 0
	for i := range m.plan.Slots {
		s := &m.plan.Slots[i]
		if s.Scope != method.Shared || s.Upload == method.Sum {
			continue
		}
		size, stride := 0, vec.Pad(s.Dim)
		for r := range s.Rows {
			row := m.Value(i)[r*stride:][:s.Dim]
			size += rows.SparseRowSize(row)
			for _, v := range row {
				if v == 0 {
					none++
				}
			}
		}
		all += s.Rows * s.Dim
		bytes += min(rows.SparsePartSize(size, nil), rows.PartSize(s.Rows*s.Dim, 0))
	}
	return bytes, float64(none) / float64(max(all, 1))
}

// Touched lists the items of the last visit, ascending.
func (k *Worker) Touched() []uint32 {
	ids := slices.Clone(k.items)
	for _, item := range k.w.Samples.Item {
		if k.tab[item] == -1 {
			ids = append(ids, item)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// SentSlots lists the slots of which a device sends something.
func (p *Plan) SentSlots() []int {
	var out []int
	for i := range p.Slots {
		if p.Slots[i].Scope == method.Shared && p.Slots[i].Upload != method.Broadcast {
			out = append(out, i)
		}
	}
	return out
}
