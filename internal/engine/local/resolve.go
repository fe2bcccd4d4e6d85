package local

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// resolveInPlace names a read row and a write row for each sample of a Head's table. An item
// that is touched once is read in place, and its change goes straight to the shard's sums;
// only items that are touched again are copied to the local block.
func (k *Worker) resolveInPlace(shard int) {
	slot := k.p.head.Item
	v, s, n := &k.w.View[slot], &k.w.Samples, len(k.raw)
	var distinct int
	k.items, distinct = vec.Repeats(k.raw, k.tab, v.Local, k.items)
	k.score.once = distinct - len(k.items)
	s.Rd[slot], s.Wr[slot] = s.Rd[slot][:n], s.Wr[slot][:n]
	vec.Resolve(k.raw, k.tab, k.mem.accRow(shard), s.Item, s.Y, s.Rd[slot], s.Wr[slot])
	vec.Gather(v.Arena, v.Stride, k.items, v.Local)
	k.setRatings()
}

// setRatings gives the samples their ratings.
func (k *Worker) setRatings() {
	if k.rating == nil {
		return
	}
	s := &k.w.Samples
	for x, item := range s.Item {
		s.Rating[x] = s.Y[x] * k.rating[item]
	}
}

// resolveLocal copies every touched row to the local blocks. Rows of a slot that is only
// read stay in place, and statistics are added straight to the shard's sums.
func (k *Worker) resolveLocal(shard int) {
	for _, r := range k.raw {
		if t := &k.tab[r&itemMask]; *t == 0 {
			k.items = append(k.items, r&itemMask)
			*t = int32(len(k.items))
		}
	}
	table := 0
	for i := range k.w.View {
		v := &k.w.View[i]
		if !v.Slot.PerItem || !v.Slot.Copied() {
			continue
		}
		v.Used, v.SameScale = len(k.items), true
		if v.Slot.Scope == method.Private {
			k.loadTable(v, table)
			table++
			continue
		}
		vec.Gather(v.Arena, v.Stride, k.items, v.Local)
	}
	k.w.Samples.Pos = k.w.Samples.Pos[:len(k.raw)]
	k.shard = shard
	k.fillLocal()
}

// fillLocal names the rows of the samples in their current order.
func (k *Worker) fillLocal() {
	s, n := &k.w.Samples, len(k.raw)
	s.Version++
	for x, r := range k.raw {
		s.Item[x], s.Y[x], s.Pos[x] = r&itemMask, float32(r>>31), uint32(k.tab[r&itemMask]-1)
	}
	k.setRatings()
	for i := range k.w.View {
		v := &k.w.View[i]
		if !v.Slot.PerItem || v.Slot.Scope == method.Server {
			continue
		}
		switch v.Slot.Upload {
		case method.Delta:
			s.Rd[i] = offset(s.Rd[i][:n], s.Pos, v.Local)
			s.Wr[i] = s.Rd[i]
		case method.Gradient:
			s.Rd[i] = offset(s.Rd[i][:n], s.Pos, v.Local)
			s.Wr[i] = offset(s.Wr[i][:n], s.Item, k.mem.accRow(k.shard))
		case method.Broadcast:
			s.Rd[i] = s.Item
		case method.Sum:
			s.Wr[i] = offset(s.Wr[i][:n], s.Item, k.mem.accRow(k.shard))
		}
	}
}

func offset(dst, src []uint32, by uint32) []uint32 {
	for x, v := range src {
		dst[x] = by + v
	}
	return dst
}

// resolveHistory makes one sample per item of the device, with the number of its
// interactions as the label. Shared rows are read in place, and statistics go to the shard's
// sums, unless shard is NotCounted.
func (k *Worker) resolveHistory(train []uint32, shard int) {
	k.grow(len(train))
	copy(k.raw, train)
	s := &k.w.Samples
	s.Row = nil // an item may have several interactions
	for _, item := range train {
		t := &k.tab[item]
		if *t == 0 {
			s.Item[len(k.items)], s.Y[len(k.items)] = item, 0
			k.items = append(k.items, item)
			*t = int32(len(k.items))
		}
		s.Y[*t-1]++
	}
	n := len(k.items)
	s.Item, s.Y = s.Item[:n], s.Y[:n]
	if k.rating != nil {
		s.Rating = s.Rating[:n]
		for x, item := range s.Item {
			s.Rating[x] = k.rating[item]
		}
	}
	for i := range k.w.View {
		v := &k.w.View[i]
		if !v.Slot.PerItem || v.Slot.Scope != method.Shared {
			continue
		}
		if v.Slot.Upload == method.Sum {
			if shard >= 0 {
				s.Wr[i] = offset(s.Wr[i][:n], s.Item, k.mem.accRow(shard))
			}
			continue
		}
		s.Rd[i] = s.Rd[i][:n]
		copy(s.Rd[i], s.Item)
	}
}

// loadTable copies the touched rows of a Private table to the local block, and notes where
// those that were written before are in the overlay.
func (k *Worker) loadTable(v *method.View, table int) {
	k.copyOwn(v, table, k.items, v.Local)
	at := k.at[table][:len(k.items)]
	k.at[table] = at
	for p, item := range k.items {
		at[p] = k.own[item]
	}
	k.clearOwn(table)
}

// clearOwn clears what copyOwn left in own.
func (k *Worker) clearOwn(table int) {
	ids := k.state.Tables[table].IDs
	if 8*len(ids) > len(k.own) {
		clear(k.own)
		return
	}
	for _, id := range ids {
		k.own[id] = 0
	}
}

// copyOwn copies rows of a Private table to consecutive rows from dst on. It leaves the
// overlay's indices in own.
func (k *Worker) copyOwn(v *method.View, table int, items []uint32, dst uint32) {
	o := &k.state.Tables[table]
	for at, id := range o.IDs {
		k.own[id] = int32(at + 1)
	}
	written, initial := k.lists[0].empty(), k.lists[1].empty()
	for p, item := range items {
		if at := k.own[item]; at > 0 {
			written.add(uint32(at-1), dst+uint32(p))
		} else {
			initial.add(item, dst+uint32(p))
		}
	}
	o.Read(written.from, v.Stride, v.Arena, written.to)
	vec.ScaleRows(float32(o.BaseScale), v.Arena, initial.from, v.Stride, v.Arena, initial.to)
}

// saveTable writes the touched rows of a Private table back to its overlay.
func (k *Worker) saveTable(v *method.View, table int) {
	v.RescaleAll(len(k.items))
	o := &k.state.Tables[table]
	o.Shrink(v.Scale)
	all, fresh := k.lists[0].empty(), k.lists[1].empty()
	next := uint32(len(o.IDs))
	for p, at := range k.at[table] {
		if at == 0 {
			fresh.from = append(fresh.from, k.items[p])
			next++
			at = int32(next)
		}
		all.add(v.Local+uint32(p), uint32(at-1))
	}
	o.Extend(fresh.from, v.Stride, k.p.Items)
	o.Write(v.Arena, all.from, v.Stride, all.to)
}

// list holds rows to copy and where to.
type list struct{ from, to []uint32 }

func (l *list) empty() *list {
	l.from, l.to = l.from[:0], l.to[:0]
	return l
}

func (l *list) add(from, to uint32) { l.from, l.to = append(l.from, from), append(l.to, to) }
