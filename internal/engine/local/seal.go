package local

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// UpdateLength is how many numbers an update of a round, from 0, has: all rows of all slots
// that are sent in it.
func (p *Plan) UpdateLength(round int) int { return p.layout(p.Phase(round)).numbers }

// MaxUpdateLength is how many that of any round has at most.
func (p *Plan) MaxUpdateLength() (n int) {
	for i := range p.flat {
		n = max(n, p.flat[i].numbers)
	}
	return n
}

// Alike reports whether every round sends the same slots.
func (p *Plan) Alike() bool { return p.travels == nil }

// SetBound tells the devices of a Guarded plan the bound of the next round.
func (m *Memory) SetBound(b privacy.Bound) { m.bound = b }

// TakeSum adds the integers of all bounded updates since the last call to dst, the
// sum of clipping bits last; dst is as long as an update of the round, and one more.
// Integers have no order: any number of workers gives the same.
func (m *Memory) TakeSum(dst []int64) {
	for _, sum := range m.sealed {
		for i := range dst {
			dst[i] += sum[i]
		}
		clear(sum)
	}
}

// TakeUpdate moves what worker w has sealed to dst, as the vector of one device: as long as an
// update of the round, and one more.
func (m *Memory) TakeUpdate(w int, dst []int64) {
	n := copy(dst, m.sealed[w])
	clear(m.sealed[w][:n])
}

// Decode writes the numbers of a round's flat sum that belong to a slot to padded rows.
// Of one that is not sent in the round there are none: they are zeros. In narrow sums each
// slot has a unit of its own.
func (p *Plan) Decode(round, slot int, flat []int64, unit float64, dst []float32) {
	s, from := &p.Slots[slot], p.layout(p.Phase(round)).at[slot]
	if from < 0 {
		clear(dst)
		return
	}
	stride, size := vec.Pad(s.Dim), s.Rows*s.Dim
	if p.most > 0 {
		unit = s.Range / float64(p.levels(slot))
	}
	two := p.digits(slot) == 2
	for r := range s.Rows {
		row := dst[r*stride : r*stride+s.Dim]
		for i := range row {
			at := from + r*s.Dim + i
			x := flat[at]
			if two {
				x = x*p.base() + flat[at+size]
			}
			row[i] = float32(float64(x) * unit)
		}
	}
}

// seal takes the update of this visit out of the worker's own sums, bounds it, and
// adds it to the integers if it counts. What a device adds to a sum is never longer
// than the bound, whatever the visit has done.
func (k *Worker) seal(shard int, counts bool, out *Outcome) {
	d, l := &k.draft, k.p.layout(k.w.Phase)
	d.Reset()
	d.BitAt = l.numbers
	b := &k.mem.bound
	for i, at := range l.at {
		if first := len(d.Rows); at >= 0 {
			k.draftSlot(i, at, shard)
			k.list(i, first)
		}
	}
	switch {
	case counts && (b.MaxInteger > 0 || k.weighs() && !b.Bit):
		k.integers(k.mem.sealed[k.id], out)
	case counts:
		out.Norm, _ = b.Encode(d, k.mem.sealed[k.id])
	}
	k.wipe(shard)
}

// draftSlot lists the rows of a slot in the draft.
func (k *Worker) draftSlot(i, at, shard int) {
	v, d := &k.w.View[i], &k.draft
	if v.Slot.Sparse {
		if len(v.Indices) > 0 {
			d.Add(v.Values, at, v.Indices)
		}
		return
	}
	dim := v.Slot.Dim
	list := func(rows []float32, id int) { d.Add(rows[:dim], at+id*dim, nil) }
	if !v.Slot.PerItem {
		acc := k.mem.acc[i][shard*len(v.Val):][:len(v.Val)]
		for r := range v.Slot.Rows {
			list(acc[r*v.Stride:], r)
		}
		return
	}
	first := k.mem.accRow(shard)
	if shrunk := k.mem.shrunk[i][shard]; shrunk != 0 {
		// Every row was shrunk, touched or not: all of them are part of the update.
		n := k.p.Items * v.Stride
		if k.whole[i] == nil {
			k.whole[i] = make([]float32, n)
		}
		all := k.whole[i]
		copy(all, v.Arena[int(first)*v.Stride:][:n])
		vec.Axpy(float32(shrunk), v.Arena[:n], all)
		for id := range k.p.Items {
			list(all[id*v.Stride:], id)
		}
		return
	}
	k.eachTouched(func(id uint32) { list(v.Row(first+id), int(id)) })
}

// wipe clears the worker's own sums.
func (k *Worker) wipe(shard int) {
	for i := range k.w.View {
		v := &k.w.View[i]
		if !uploads(&v.Slot) || v.Slot.Sparse {
			continue
		}
		k.mem.shrunk[i][shard] = 0
		if !v.Slot.PerItem {
			clear(k.mem.acc[i][shard*len(v.Val):][:len(v.Val)])
			continue
		}
		first := k.mem.accRow(shard)
		k.eachTouched(func(id uint32) { clear(v.Row(first + id)) })
	}
}

// covered is how many rows of a table a device sends that hides those it touched among
// others. The others are zeros, so that sums do without them here.
func (k *Worker) covered() int {
	var key [32]byte
	for i := 0; i < len(key); i += 8 {
		binary.LittleEndian.PutUint64(key[i:], k.w.Rand.Uint64())
	}
	return len(k.p.Cover.Rows(k.Touched(), k.p.Items, privacy.NewSource(rand.NewChaCha8(key))))
}

// eachTouched calls do for each item of the visit, once.
func (k *Worker) eachTouched(do func(id uint32)) {
	for _, id := range k.items {
		do(id)
	}
	if k.p.Direct() {
		for _, id := range k.w.Samples.Item {
			if k.tab[id] == -1 {
				do(id)
			}
		}
	}
}

// Rations say what the rounds of a method send, and how they share a budget; nil where
// all are alike. The second result is whether the method has a say in it.
func (p *Plan) Rations() ([]privacy.RoundShare, bool) {
	m, says := method.As[method.BudgetWeighter](p.Method)
	if p.Alike() && !says {
		return nil, false
	}
	out := make([]privacy.RoundShare, p.Rounds)
	for t := range out {
		out[t] = privacy.RoundShare{Numbers: p.UpdateLength(t), Share: 1}
		if says {
			out[t].Share = m.BudgetWeight(t, p.Rounds)
		}
	}
	return out, says
}
