package local

import (
	"errors"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/privacy"
)

// narrow finds the largest integer of an update where sums are narrow: where the method
// says of all that it sends how large it is.
func (p *Plan) narrow() error {
	unknown := func(i int) bool { return !(p.Slots[i].Range > 0) }
	if p.Bits == 0 || slices.ContainsFunc(p.SentSlots(), unknown) {
		return nil
	}
	b, err := privacy.NarrowBound(p.Users, p.Bits)
	p.most = b.MaxInteger
	return err
}

// MaxInteger is the integer that the reach of a slot becomes where sums are narrow; 0 where they
// are not.
func (p *Plan) MaxInteger() int64 { return p.most }

// Bound is that of sums without a promise, over so many devices.
func (p *Plan) Bound(devices int) privacy.Bound {
	if p.most > 0 {
		return privacy.Bound{MaxInteger: p.most}
	}
	return privacy.WideBound(devices)
}

// CheckMaskable says why updates of a plan without a promise cannot be masked; nil where they can.
func (p *Plan) CheckMaskable() error {
	if p.most > 0 {
		return nil
	}
	if p.Bits == 0 {
		return errors.New("masks without dp want sums of a width that is known: bits=24, or add --dp epsilon=8")
	}
	return errors.New("masks need a bound on each number, and this method does not say how large its numbers are: " +
		"add --dp epsilon=8, take a method that does (tacit, ials), or leave --secagg out")
}

// digits is how many integers a number of a slot is.
func (p *Plan) digits(slot int) int {
	if p.most > 0 && p.Slots[slot].HighPrecision {
		return 2
	}
	return 1
}

// base is what the first of two digits counts: the second is up to most on either side of 0.
func (p *Plan) base() int64 { return 2*p.most + 1 }

// levels is the integer that the reach of a slot becomes.
func (p *Plan) levels(slot int) int64 {
	if p.digits(slot) == 2 {
		return p.most*p.base() + p.most
	}
	return p.most
}

// PackedBytes is what a whole update of a round, from 0, takes with so many bits for each
// number, the clipping bit's place included: what a device sends under masks.
func (p *Plan) PackedBytes(round, bits int) int { return ((p.UpdateLength(round)+1)*bits + 7) / 8 }

// integral is room to make integers of a draft, which are weighed before they are added up.
type integral struct {
	seat  uint32 // of the device; what a visit reads as its own may be 0 for all
	order []int32
	slot  []int32 // by row of the draft
	pair  []int32 // by row of the draft: the row of its second digits; -1 for none, -2 for one that is such a row
	from  []int   // by row of the draft: its place in whole
	whole []int64
	plain privacy.Delta
	form  rows.UpdateSizer
}

// list notes the slot of rows that were added to the draft, and adds them again for second
// digits.
func (k *Worker) list(slot, first int) {
	d, n, second := &k.draft, &k.ints, k.p.digits(slot) == 2
	n.slot, n.pair = n.slot[:first], n.pair[:first]
	last := len(d.Rows)
	for r := first; r < last; r++ {
		n.slot, n.pair = append(n.slot, int32(slot)), append(n.pair, -1)
	}
	for r := first; second && r < last; r++ {
		n.pair[r] = int32(len(d.Rows))
		d.Add(d.Rows[r], d.At[r]+k.p.Slots[slot].Rows*k.p.Slots[slot].Dim, d.Places[r])
		n.slot, n.pair = append(n.slot, int32(slot)), append(n.pair, -2)
	}
}

// weighs reports whether the bytes of an update are counted by its integers: where all rows
// are sent, or some as cover, the plan knows.
func (k *Worker) weighs() bool { return !k.p.Dense && !k.p.Cover.Partial() }

// integers adds the draft to the sum by the bound, row by row as they stand in the vector,
// and weighs it.
func (k *Worker) integers(sum []int64, out *Outcome) {
	d, n := &k.draft, &k.ints
	n.order, n.from = n.order[:0], n.from[:0]
	size := 0
	for r := range d.Rows {
		n.order, n.from = append(n.order, int32(r)), append(n.from, size)
		size += len(d.Rows[r])
	}
	slices.SortFunc(n.order, func(a, b int32) int { return d.At[a] - d.At[b] })
	n.whole = slices.Grow(n.whole[:0], size)[:size]
	if k.mem.bound.MaxInteger > 0 {
		out.Truncated = k.round()
	} else {
		n.plain.Reset()
		clear(n.whole)
		for r := range d.Rows {
			n.plain.Add(d.Rows[r], n.from[r], nil)
		}
		out.Norm, _ = k.mem.bound.Encode(&n.plain, n.whole)
	}
	n.form.Begin(d.BitAt + 1)
	for _, r := range n.order {
		row := n.whole[n.from[r]:][:len(d.Rows[r])]
		if int(r) < len(d.Places) && d.Places[r] != nil {
			for i, p := range d.Places[r] {
				sum[d.At[r]+int(p)] += row[i]
				n.form.Add(d.At[r]+int(p), row[i:i+1])
			}
			continue
		}
		to := sum[d.At[r]:][:len(row)]
		for i, x := range row {
			to[i] += x
		}
		n.form.Add(d.At[r], row)
	}
	switch {
	case k.weighs():
		out.Bytes = n.form.End()
	case k.p.Dense && k.p.most > 0:
		out.Bytes = k.p.PackedBytes(k.w.Round, k.p.Bits)
	}
}

// round makes an integer of each number of the draft, in units of its slot's reach: one of
// the two next to it, by a draw that makes it right on average. A number beyond the
// reach is cut, and counted. An update that is not finite counts as zero.
func (k *Worker) round() (cut int) {
	d, n := &k.draft, &k.ints
	for _, row := range d.Rows {
		for _, v := range row {
			if v-v != 0 {
				clear(n.whole)
				return 0
			}
		}
	}
	coin := rng.New(k.p.draws(), rng.Rounding, uint64(k.w.Round), uint64(k.ints.seat))
	for _, r := range n.order {
		if n.pair[r] == -2 {
			continue
		}
		slot, dst := int(n.slot[r]), n.whole[n.from[r]:]
		most := float64(k.p.levels(slot))
		unit := most / k.p.Slots[slot].Range
		for i, v := range d.Rows[r] {
			x := float64(float64(v) * unit)
			if x > most || x < -most {
				x = min(max(x, -most), most)
				cut++
			}
			low := math.Floor(x)
			if rest := x - low; rest > 0 && coin.Float64() < rest {
				low++
			}
			dst[i] = int64(low)
		}
		if p := n.pair[r]; p >= 0 {
			k.split(dst[:len(d.Rows[r])], n.whole[n.from[p]:])
		}
	}
	return cut
}

// split makes two digits of each integer: neither is over most in magnitude.
func (k *Worker) split(x, second []int64) {
	base, most := k.p.base(), k.p.most
	for i, v := range x {
		low := (v%base + base) % base
		if low > most {
			low -= base
		}
		x[i], second[i] = (v-low)/base, low
	}
}
