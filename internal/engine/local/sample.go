package local

import (
	"math/bits"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/vec"
)

const itemMask = vec.Positive - 1

// sample draws the samples of a task and resolves them to rows of the arenas. It reports
// false if the device has no samples.
func (k *Worker) sample(t *Task, shard int) bool {
	if k.p.Visit.HistoryOnly {
		k.resolveHistory(t.Train, shard)
		return true
	}
	if !k.draw(t) {
		return false
	}
	if k.p.InPlace() {
		k.resolveInPlace(shard)
	} else {
		k.resolveLocal(shard)
	}
	return true
}

// draw draws the negatives and puts the positives among them. It reports false if the
// device has no items, or no item is left to draw.
func (k *Worker) draw(t *Task) bool {
	excluded := 0
	for _, b := range k.bits {
		excluded += bits.OnesCount64(b)
	}
	n, free := len(t.Train), k.p.Items-excluded
	if n == 0 || free == 0 && k.p.Negatives > 0 {
		return false
	}
	total := k.p.MaxSamples(n)
	k.grow(total)
	k.rand = rng.New(k.p.deviceSeed(), rng.Negatives, uint64(t.Round), uint64(t.Device))
	negs := k.raw[:total-n]
	if free*8 < k.p.Items {
		k.drawListed(negs, free)
	} else {
		k.pool = k.pool[:0]
		k.seedStream()
		vec.Draw(&k.stream, uint32(k.p.Items), k.bits, len(negs), k.raw[:cap(k.raw)])
	}
	if free >= k.p.Negatives {
		k.redrawEqual(negs)
	}
	k.rand = rng.New(k.p.deviceSeed(), rng.Shuffle, uint64(t.Round), uint64(t.Device))
	// Negatives are in random order, so putting the positives at random places does what a
	// shuffle of everything would, with a fifth of the swaps. (Negatives of one positive are
	// distinct, so neighbours never repeat.)
	if k.ctx == nil {
		k.rand.Insert(t.Train, vec.Positive, k.raw)
	} else {
		k.insertWithContext(t, len(negs))
	}
	return true
}

// insertWithContext does what Insert does, and moves the interactions along. A negative has the
// interaction of its positive.
func (k *Worker) insertWithContext(t *Task, n int) {
	for x := range n {
		k.ctx[x] = t.Rows[x/k.p.Negatives]
	}
	for i, item := range t.Train {
		at := n + i
		j := k.rand.Uint32n(uint32(at + 1))
		k.raw[at] = k.raw[j]
		k.raw[j] = item | vec.Positive
		k.ctx[at] = k.ctx[j]
		k.ctx[j] = t.Rows[i]
	}
}

// DrawSamples returns the samples of a task in order: items, with the top bit
// (vec.Positive) set for those that the device has. They are valid until the next call.
func (k *Worker) DrawSamples(t *Task) []uint32 {
	k.clearItems()
	k.trained, k.prepared = false, false
	k.exclude(t)
	drawn := k.draw(t)
	k.finish(t)
	if !drawn {
		return nil
	}
	return k.raw
}

// seedStream seeds the lanes of the generator that draws negatives.
func (k *Worker) seedStream() {
	for w := range k.stream {
		for l := 0; l < vec.Lanes; l += 2 {
			x := k.rand.Uint64()
			k.stream[w][l], k.stream[w][l+1] = uint32(x), uint32(x>>32)
		}
	}
	for l := range vec.Lanes {
		k.stream[0][l] |= 1 // a lane of zeros would stay zero
	}
}

// drawListed draws from the list of the items that may be drawn. A device that has nearly
// every item would otherwise reject nearly every draw.
func (k *Worker) drawListed(dst []uint32, free int) {
	k.pool = k.pool[:0]
	for item := range uint32(k.p.Items) {
		if k.bits[item>>6]>>(item&63)&1 == 0 {
			k.pool = append(k.pool, item)
		}
	}
	for i := range dst {
		dst[i] = k.pool[k.rand.Uint32n(uint32(free))]
	}
}

// redrawEqual makes the negatives of one positive distinct, as the reference code does.
// Negatives of different positives may be equal.
func (k *Worker) redrawEqual(negs []uint32) {
	n := k.p.Negatives
	if n == 4 {
		for {
			lo := vec.EqualInFours(negs)
			if lo == len(negs) {
				return
			}
			k.redraw(negs[lo : lo+4])
			negs = negs[lo+4:]
		}
	}
	for lo := 0; lo+n <= len(negs) && n > 1; lo += n {
		k.redraw(negs[lo : lo+n])
	}
}

func (k *Worker) redraw(group []uint32) {
	for i := 1; i < len(group); i++ {
		for contains(group[:i], group[i]) {
			k.drawOne(&group[i])
		}
	}
}

func (k *Worker) drawOne(dst *uint32) {
	if len(k.pool) > 0 {
		*dst = k.pool[k.rand.Uint32n(uint32(len(k.pool)))]
		return
	}
	for {
		*dst = k.rand.Uint32n(uint32(k.p.Items))
		if k.bits[*dst>>6]>>(*dst&63)&1 == 0 {
			return
		}
	}
}

func contains(xs []uint32, x uint32) bool {
	for _, y := range xs {
		if x == y {
			return true
		}
	}
	return false
}

// grow makes room for n samples.
func (k *Worker) grow(n int) {
	if cap(k.raw) < n+vec.Lanes {
		c := n + n/2 + vec.Lanes
		k.raw = make([]uint32, 0, c)
		k.items = make([]uint32, 0, max(c, k.p.Items+1))
		s := &k.w.Samples
		s.Item, s.Y, s.Pos = make([]uint32, c), make([]float32, c), make([]uint32, c)
		if k.rating != nil {
			s.Rating = make([]float32, c)
		}
		for i := range k.w.View {
			if k.w.View[i].Slot.PerItem {
				s.Rd[i], s.Wr[i] = make([]uint32, c), make([]uint32, c)
			}
		}
		k.w.RankOne.G = make([]float32, c)
		if k.p.context {
			k.ctx = make([]uint32, c)
		}
	}
	k.raw = k.raw[:n]
	s := &k.w.Samples
	s.Version++
	s.Item, s.Y, s.Pos = s.Item[:n], s.Y[:n], s.Pos[:0]
	if k.rating != nil {
		s.Rating = s.Rating[:n]
	}
	for i := range k.w.View {
		s.Rd[i], s.Wr[i] = s.Rd[i][:0], s.Wr[i][:0]
	}
	k.w.RankOne.G = k.w.RankOne.G[:n]
	if k.p.context {
		k.ctx = k.ctx[:n]
		s.Row = k.ctx
	}
}

// shuffle shuffles the samples for another pass, if rows are copied.
func (k *Worker) shuffle() {
	if k.ctx == nil {
		k.rand.Shuffle(k.raw)
	} else { // as Shuffle does, on both
		for i := len(k.raw) - 1; i > 0; i-- {
			j := k.rand.Uint32n(uint32(i + 1))
			k.raw[i], k.raw[j] = k.raw[j], k.raw[i]
			k.ctx[i], k.ctx[j] = k.ctx[j], k.ctx[i]
		}
	}
	k.fillLocal()
}
