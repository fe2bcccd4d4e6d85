package local

import (
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// encoder holds a delta while it becomes the integers of an update.
type encoder struct {
	device uint32
	delta  privacy.Delta
	slot   []int32     // by row of the delta
	lower  []int32     // by row of the delta: the row of the next lower digit, or noDigit
	high   []bool      // by row of the delta: it holds the highest digits
	table  [][]float32 // by slot: a table with its weight decay applied

	order    []int32 // rows of the delta by their offset in the update
	from     []int   // by row of the delta: its offset in integers
	integers []int64
	packed   privacy.Delta // the delta with the offsets in from
	sizer    rows.UpdateSizer
}

const noDigit = -1 // the row holds the lowest digits

// encode takes the delta out of the worker's own sums and adds it to the integers if it
// counts. What a device adds never exceeds the bound, whatever training has done.
func (k *Worker) encode(shard int, counted bool, out *Outcome) {
	d, bound := &k.enc.delta, &k.mem.bound
	k.listDelta(shard)
	sum := k.mem.updates[k.id]
	switch {
	case counted && (bound.MaxInteger > 0 || k.countsIntegers() && !bound.Bit):
		k.encodeRows(sum, out)
	case counted:
		out.Norm, _ = bound.Encode(d, sum)
	}
	k.clearDelta(shard)
}

// countsIntegers reports whether the size of an update depends on its integers. If all rows
// are sent, or some as cover, the plan knows it.
func (k *Worker) countsIntegers() bool { return !k.p.Dense && !k.p.Cover.Partial() }

// listDelta lists the rows of the delta with their offsets in the update.
func (k *Worker) listDelta(shard int) {
	e := &k.enc
	l := k.p.layout(k.w.Phase)
	e.delta.Reset()
	e.delta.BitAt = l.numbers
	e.slot, e.lower, e.high = e.slot[:0], e.lower[:0], e.high[:0]
	for slot, at := range l.at {
		if at < 0 {
			continue
		}
		first := len(e.delta.Rows)
		k.listSlot(slot, at, shard)
		n, size := len(e.delta.Rows)-first, k.p.Slots[slot].Rows*k.p.Slots[slot].Dim
		for digit := range l.digits[slot] {
			for r := first; r < first+n; r++ {
				if digit > 0 {
					e.delta.Add(e.delta.Rows[r], e.delta.At[r]+digit*size, e.delta.Places[r])
				}
				next := int32(r + (digit+1)*n)
				if digit == l.digits[slot]-1 {
					next = noDigit
				}
				e.slot, e.lower, e.high = append(e.slot, int32(slot)), append(e.lower, next), append(e.high, digit == 0)
			}
		}
	}
}

// listSlot lists the rows of one slot, which starts at an offset of the update.
func (k *Worker) listSlot(slot, at, shard int) {
	v, d := &k.w.View[slot], &k.enc.delta
	dim := v.Slot.Dim
	if v.Slot.Sparse {
		if len(v.Indices) > 0 {
			d.Add(v.Values, at, v.Indices)
		}
		return
	}
	if !v.Slot.PerItem {
		acc := k.mem.acc[slot][shard*len(v.Val):][:len(v.Val)]
		for r := range v.Slot.Rows {
			d.Add(acc[r*v.Stride:][:dim], at+r*dim, nil)
		}
		return
	}
	first := k.mem.accRow(shard)
	shrunk := k.mem.shrunk[slot][shard]
	if shrunk == 0 {
		k.eachTouched(func(id uint32) { d.Add(v.Row(first + id)[:dim], at+int(id)*dim, nil) })
		return
	}
	// Weight decay has shrunk every row, touched or not: all of them are part of the delta.
	n := k.p.Items * v.Stride
	if k.enc.table[slot] == nil {
		k.enc.table[slot] = make([]float32, n)
	}
	all := k.enc.table[slot]
	copy(all, v.Arena[int(first)*v.Stride:][:n])
	vec.Axpy(float32(shrunk), v.Arena[:n], all)
	for id := range k.p.Items {
		d.Add(all[id*v.Stride:][:dim], at+id*dim, nil)
	}
}

// encodeRows adds the delta to the sum row by row, in the order of the update, and counts
// its bytes.
func (k *Worker) encodeRows(sum []int64, out *Outcome) {
	e := &k.enc
	d := &e.delta
	size := 0
	e.order, e.from = e.order[:0], e.from[:0]
	for r := range d.Rows {
		e.order, e.from = append(e.order, int32(r)), append(e.from, size)
		size += len(d.Rows[r])
	}
	slices.SortFunc(e.order, func(a, b int32) int { return d.At[a] - d.At[b] })
	e.integers = slices.Grow(e.integers[:0], size)[:size]
	if k.mem.bound.MaxInteger > 0 {
		out.Truncated = k.quantise()
	} else {
		e.packed.Reset()
		clear(e.integers)
		for r := range d.Rows {
			e.packed.Add(d.Rows[r], e.from[r], nil)
		}
		out.Norm, _ = k.mem.bound.Encode(&e.packed, e.integers)
	}
	e.sizer.Begin(d.BitAt + 1)
	for _, r := range e.order {
		row := e.integers[e.from[r]:][:len(d.Rows[r])]
		at := d.At[r]
		if d.Places[r] != nil {
			for i, p := range d.Places[r] {
				sum[at+int(p)] += row[i]
				e.sizer.Add(at+int(p), row[i:i+1])
			}
			continue
		}
		to := sum[at:][:len(row)]
		for i, x := range row {
			to[i] += x
		}
		e.sizer.Add(at, row)
	}
	switch {
	case k.countsIntegers():
		out.Bytes = e.sizer.End()
	case k.p.Dense && k.p.most > 0:
		out.Bytes = k.p.PackedBytes(k.w.Round)
	}
}

// quantise rounds each number of the delta to an integer, in units of its slot's range: up
// or down at random, so that it is right on average. A number beyond the range is truncated,
// and counted. A delta that is not finite counts as zero.
func (k *Worker) quantise() (truncated int) {
	e := &k.enc
	for _, row := range e.delta.Rows {
		for _, v := range row {
			if v-v != 0 {
				clear(e.integers)
				return 0
			}
		}
	}
	l := k.p.layout(k.w.Phase)
	coin := rng.New(k.p.deviceSeed(), rng.Rounding, uint64(k.w.Round), uint64(e.device))
	for _, r := range e.order {
		if !e.high[r] {
			continue
		}
		slot, dst := int(e.slot[r]), e.integers[e.from[r]:]
		most := float64(l.levels(slot))
		unit := most / k.p.Slots[slot].Range
		for i, v := range e.delta.Rows[r] {
			x := float64(float64(v) * unit)
			if x > most || x < -most {
				x = min(max(x, -most), most)
				truncated++
			}
			low := math.Floor(x)
			if rest := x - low; rest > 0 && coin.Float64() < rest {
				low++
			}
			dst[i] = int64(low)
		}
		k.splitDigits(l, int(r))
	}
	return truncated
}

// splitDigits splits each integer of a row into digits that are at most layout.most in magnitude,
// and writes the lower ones to their rows.
func (k *Worker) splitDigits(l *layout, row int) {
	e := &k.enc
	base, most, digits := l.base(), l.most, l.digits[e.slot[row]]
	if digits == 1 {
		return
	}
	limit := l.levels(int(e.slot[row]))
	var from [maxDigits]int
	for d, at := 0, int32(row); at != noDigit; d, at = d+1, e.lower[at] {
		from[d] = e.from[at]
	}
	for i := range e.delta.Rows[row] {
		v := min(max(e.integers[from[0]+i], -limit), limit) // the limit as a float64 may be rounded up
		for d := digits - 1; d > 0; d-- {
			low := (v%base + base) % base
			if low > most {
				low -= base
			}
			e.integers[from[d]+i], v = low, (v-low)/base
		}
		e.integers[from[0]+i] = v
	}
}

// clearDelta clears the worker's own sums.
func (k *Worker) clearDelta(shard int) {
	for i := range k.w.View {
		v := &k.w.View[i]
		if !isSent(&v.Slot) || v.Slot.Sparse {
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
