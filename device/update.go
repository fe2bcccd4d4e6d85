package device

import (
	"slices"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/rows"
)

// Update takes what the last visit added to a shard's sums out of them, as the
// update that the device would send. The shard must hold nothing else: it is for
// a memory that one device has to itself.
func (k *Worker) Update(shard int) *rows.Update {
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
			acc := k.mem.acc[i][shard*len(v.Val):][:len(v.Val)]
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

// Sends lists the slots of which a device sends something.
func (p *Plan) Sends() []int {
	var out []int
	for i := range p.Slots {
		if p.Slots[i].Scope == method.Shared && p.Slots[i].Up != method.None {
			out = append(out, i)
		}
	}
	return out
}
