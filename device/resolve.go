package device

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/rows"
	"github.com/tacit-rec/tacit/vec"
)

// resolveDirect names a read row and a write row for each sample of a Head's
// table. An item touched once is read where it is, and its change goes straight
// to the shard's sums; only items touched again are copied to the local block.
func (k *Worker) resolveDirect(shard int) {
	slot := k.p.head.Item
	v, s, n := &k.w.View[slot], &k.w.Samples, len(k.raw)
	var distinct int
	k.items, distinct = vec.Repeats(k.raw, k.tab, k.items)
	k.score.once = distinct - len(k.items)
	for p, item := range k.items {
		k.tab[item] = int32(v.Local) + int32(p)
	}
	s.Rd[slot], s.Wr[slot] = s.Rd[slot][:n], s.Wr[slot][:n]
	vec.Resolve(k.raw, k.tab, k.mem.accRow(shard), s.Item, s.Y, s.Rd[slot], s.Wr[slot])
	vec.Gather(v.Arena, v.Stride, k.items, v.Local)
	k.rate()
}

// rate gives the samples their ratings.
func (k *Worker) rate() {
	if k.rating == nil {
		return
	}
	s := &k.w.Samples
	for x, item := range s.Item {
		s.Rating[x] = s.Y[x] * k.rating[item]
	}
}

// resolveLocal copies every touched row to the local blocks. Of a slot that is
// only read the row stays where it is, and a statistic is added where it counts.
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
		for p := range k.items {
			v.At[p] = 1
		}
		if v.Slot.Scope == method.Private {
			k.loadTable(v, &k.state.Tables[table])
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
	for x, r := range k.raw {
		s.Item[x], s.Y[x], s.Pos[x] = r&itemMask, float32(r>>31), uint32(k.tab[r&itemMask]-1)
	}
	k.rate()
	for i := range k.w.View {
		v := &k.w.View[i]
		if !v.Slot.PerItem || v.Slot.Scope == method.Server {
			continue
		}
		switch v.Slot.Up {
		case method.Delta:
			s.Rd[i] = offset(s.Rd[i][:n], s.Pos, v.Local)
			s.Wr[i] = s.Rd[i]
		case method.Gradient:
			s.Rd[i] = offset(s.Rd[i][:n], s.Pos, v.Local)
			s.Wr[i] = offset(s.Wr[i][:n], s.Item, k.mem.accRow(k.shard))
		case method.None:
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

// resolveHistory makes the samples of the device's own items, each once, with how
// often it occurs as the label: shared rows are read in place, statistics go to the
// shard's sums.
func (k *Worker) resolveHistory(train []uint32, shard int) {
	k.grow(len(train))
	copy(k.raw, train)
	s := &k.w.Samples
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
		if v.Slot.Up == method.Sum {
			if shard >= 0 {
				s.Wr[i] = offset(s.Wr[i][:n], s.Item, k.mem.accRow(shard))
			}
			continue
		}
		s.Rd[i] = s.Rd[i][:n]
		copy(s.Rd[i], s.Item)
	}
}

// loadTable copies the touched rows of a Private table to the local block.
func (k *Worker) loadTable(v *method.View, o *rows.Overlay) {
	for at, id := range o.IDs {
		k.own[id] = int32(at + 1)
	}
	for p, item := range k.items {
		k.copyOwn(v, o, item, v.Row(v.Local+uint32(p)))
	}
	for _, id := range o.IDs {
		k.own[id] = 0
	}
}

// copyOwn writes a Private table's row to dst. own must hold the overlay's ids.
func (k *Worker) copyOwn(v *method.View, o *rows.Overlay, item uint32, dst []float32) {
	src, s := v.Row(item), float32(o.Fade)
	if at := k.own[item]; at > 0 {
		src, s = o.Data[int(at-1)*v.Stride:][:v.Stride], float32(o.Scale)
	}
	for i := range dst {
		dst[i] = float32(s * src[i])
	}
}

// keepTable writes the touched rows of a Private table back to its overlay.
func (k *Worker) keepTable(v *method.View, o *rows.Overlay) {
	v.BringAll(len(k.items))
	o.Shrink(v.Shrunk)
	inv := float32(1 / o.Scale)
	for at, id := range o.IDs {
		k.own[id] = int32(at + 1)
	}
	for p, item := range k.items {
		at := k.own[item]
		if at == 0 {
			o.IDs = append(o.IDs, item)
			o.Data = append(o.Data, v.Row(v.Local+uint32(p))...)
			at = int32(len(o.IDs))
		}
		src, dst := v.Row(v.Local+uint32(p)), o.Data[int(at-1)*v.Stride:][:v.Stride]
		for i := range dst {
			dst[i] = float32(inv * src[i])
		}
	}
	for _, id := range o.IDs {
		k.own[id] = 0
	}
}
