package device

import (
	"math"
	"slices"

	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/rng"
	"github.com/tacit-rec/tacit/rows"
)

// Bound is that of sums without a promise, over so many devices. Sums have so many bits
// where the method says of all that it sends how large it is; with 0 bits, or else, they are
// as wide and as fine as there is room for.
func (p *Plan) Bound(devices, bits int) (privacy.Bound, error) {
	if bits == 0 || !p.Reaches() {
		return privacy.Integers(devices), nil
	}
	return privacy.Narrow(devices, bits)
}

// Reaches reports whether every slot that is sent has a reach.
func (p *Plan) Reaches() bool {
	return !slices.ContainsFunc(p.Sends(), func(i int) bool { return !(p.Slots[i].Reach > 0) })
}

// PackedBytes is what a whole update of a round, from 0, takes with so many bits for each
// number, the clipping bit's place included: what a device sends under masks.
func (p *Plan) PackedBytes(round, bits int) int { return ((p.Numbers(round)+1)*bits + 7) / 8 }

// integral is room to make integers of a draft, which are weighed before they are added up.
type integral struct {
	order []int32
	unit  []float64 // by row of the draft: integers per 1
	whole []int64
	plain privacy.Draft
	form  rows.Vector
}

// weighs reports whether the bytes of an update are counted by its integers: where all rows
// are sent, or some as cover, the plan knows.
func (k *Worker) weighs() bool { return !k.p.Dense && !k.p.Cover.Partial() }

// integers adds the draft to the sum by the bound, row by row as they stand in the vector,
// and weighs it.
func (k *Worker) integers(sum []int64, out *Outcome) {
	d, n := &k.draft, &k.ints
	n.order = n.order[:0]
	size := 0
	for r := range d.Rows {
		n.order = append(n.order, int32(r))
		size += len(d.Rows[r])
	}
	slices.SortFunc(n.order, func(a, b int32) int { return d.At[a] - d.At[b] })
	n.whole = slices.Grow(n.whole[:0], size)[:size]
	if k.mem.bound.Most > 0 {
		out.Cut = k.round()
	} else {
		n.plain.Reset()
		clear(n.whole)
		at := 0
		for _, r := range n.order {
			n.plain.Add(d.Rows[r], at, nil)
			at += len(d.Rows[r])
		}
		out.Length, _ = k.mem.bound.Seal(&n.plain, n.whole)
	}
	n.form.Begin(d.BitAt + 1)
	at := 0
	for _, r := range n.order {
		row := n.whole[at : at+len(d.Rows[r])]
		at += len(row)
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
	if k.weighs() {
		out.Bytes = n.form.End()
	}
}

// round makes an integer of each number of the draft, in units of its slot's reach: one of
// the two next to it, by a draw that makes it right on average. A number beyond the
// reach is cut, and counted. An update that is not finite counts as zero.
func (k *Worker) round() (cut int) {
	d, n, most := &k.draft, &k.ints, float64(k.mem.bound.Most)
	for _, row := range d.Rows {
		for _, v := range row {
			if v-v != 0 {
				clear(n.whole)
				return 0
			}
		}
	}
	coin := rng.New(k.p.draws(), rng.Rounding, uint64(k.w.Round), uint64(k.w.Device))
	at := 0
	for _, r := range n.order {
		unit := n.unit[r]
		for _, v := range d.Rows[r] {
			x := float64(float64(v) * unit)
			if x > most || x < -most {
				x = min(max(x, -most), most)
				cut++
			}
			low := math.Floor(x)
			if rest := x - low; rest > 0 && coin.Float64() < rest {
				low++
			}
			n.whole[at] = int64(low)
			at++
		}
	}
	return cut
}
