package method

import (
	"github.com/tacit-rec/tacit/vec"
)

// Work is a device in the middle of a visit. A runtime fills it; a method reads
// it, and writes values and gradients.
type Work struct {
	Device        uint32 // its place in the columns of users; 0 where it is alone
	Round, Rounds int    // Round counts from 0
	Phase         int
	Items         int
	Step          int // batches done in this visit
	History       []uint32
	Features      *Features // nil unless the method is Featured
	View          []View
	Rand          Rand // this device's stream for this visit

	BatchSize int
	NoFuse    bool // steps must not fuse
	WantLoss  bool
	Loss      float64
	LossN     int

	Samples Samples
	batch   Batch
	piece   Batch
	tally   RowCounts
	Z       []float32 // room for a batch of logits or their gradients
	skip    uint64

	RankOne RankOne
	Scratch
}

// RestrictGrads says that nobody will read gradients but those of the given slots, and
// returns what held before.
func (w *Work) RestrictGrads(slots uint64) (before uint64) {
	before, w.skip = ^w.skip, ^slots
	return before
}

// SkipsGrad reports whether nobody will read the gradient of a slot.
func (w *Work) SkipsGrad(slot int) bool { return w.skip>>slot&1 == 1 }

// View is one slot on a device.
type View struct {
	Slot   Slot
	Stride int
	// A plain slot: its rows, their gradient, and what was downloaded.
	Val, Grad, Base []float32
	// A Sparse slot: what Put has listed, places first.
	Indices []uint32
	Values  []float32
	// Sent is what a device sends of a plain slot with Up == Gradient; of a PerItem
	// one, the rows that batches name in Wr are. It starts at zero.
	Sent []float32
	// A PerItem slot: Arena holds rows of Stride floats, which batches name in Rd
	// and Wr. Local is the first row of the device's own block; a sample at
	// position p of the block has its gradient in GradRows[p*Stride:].
	Arena    []float32
	Local    uint32
	GradRows []float32
	// Weight decay that shrinks every row is applied lazily: the slot as a whole
	// has been shrunk by Shrunk in this visit, position p of the block only by At[p].
	Scale     float64
	RowScale  []float64
	Used      int  // positions of the block in use; 0 where nobody counts them
	SameScale bool // all of them are up to Shrunk, and At is not kept
}

// Row returns row r of a PerItem slot's arena.
func (v *View) Row(r uint32) []float32 {
	o := int(r) * v.Stride
	return v.Arena[o : o+v.Stride : o+v.Stride]
}

// Add adds a number to a Sparse slot. Places ascend, so that each is there once: a
// bound on an update rests on that.
func (v *View) Add(place uint32, x float32) {
	if n := len(v.Indices); n > 0 && v.Indices[n-1] >= place || int(place) >= v.Slot.Dim {
		panic(badPlace)
	}
	v.Indices, v.Values = append(v.Indices, place), append(v.Values, x)
}

const badPlace = "method: the places of a sparse slot ascend, and lie within it"

// GradRow returns the gradient of position p.
func (v *View) GradRow(p uint32) []float32 {
	o := int(p) * v.Stride
	return v.GradRows[o : o+v.Stride : o+v.Stride]
}

// Samples are a visit's samples in their current order.
type Samples struct {
	Item []uint32
	Y    []float32
	// Rating is that of a positive as the data has it, or 1 where it has none; 0 for
	// a negative. It is nil unless the visit is Rated.
	Rating []float32
	// Row is the interaction that a sample stands for, as Features.Row has it: its
	// own, or that of the positive which a negative was drawn for. It is nil where
	// interactions have no features, or the method reads none.
	Row []uint32
	Pos []uint32 // in the local block; equal items have equal positions
	Rd  [][]uint32
	Wr  [][]uint32
	// Shuffle shuffles the samples for another pass.
	Shuffle func()
	// Version is another number whenever the samples or their order are others; 0 where
	// nobody counts. While it lasts a batch made again is the batch as it was.
	Version uint64
	mark    []uint32
	rows    []uint32
	stamp   uint32
}

// Batch is a run of samples. Rd and Wr name arena rows, by slot.
type Batch struct {
	Lo, N     int
	Item      []uint32
	Y         []float32
	Rating    []float32
	Row       []uint32
	Pos       []uint32
	Rows      []uint32 // the distinct positions in Pos, in the order of their first use
	Rd, Wr    [][]uint32
	Inference bool // it is scored to recommend: no Back follows
	order     uint64
}

// Batch returns samples lo to hi. It is valid until the next call.
func (w *Work) Batch(lo, hi int) *Batch {
	b, s := &w.batch, &w.Samples
	if s.Version != 0 && s.Version == b.order && b.Lo == lo && b.N == hi-lo {
		w.bring(b.Rows)
		return b
	}
	b.Lo, b.N, b.order, w.tally.of = lo, hi-lo, 0, 0
	b.Item, b.Y, b.Rating, b.Row = s.Item[lo:hi], s.Y[lo:hi], part(s.Rating, lo, hi), part(s.Row, lo, hi)
	if cap(b.Rd) < len(w.View) {
		b.Rd, b.Wr = make([][]uint32, len(w.View)), make([][]uint32, len(w.View))
	}
	b.Rd, b.Wr = b.Rd[:len(w.View)], b.Wr[:len(w.View)]
	for i := range w.View {
		b.Rd[i], b.Wr[i] = part(s.Rd[i], lo, hi), part(s.Wr[i], lo, hi)
	}
	b.Pos, b.Rows = part(s.Pos, lo, hi), nil
	if b.Pos != nil {
		b.Rows, b.order = s.distinct(b.Pos), s.Version
		w.bring(b.Rows)
	}
	return b
}

func (w *Work) bring(positions []uint32) {
	for i := range w.View {
		w.View[i].Rescale(positions)
	}
}

// SubBatch returns samples lo to hi of b, counted from its first. Its Rows are left to
// b, which stays valid. It is valid until the next call.
func (w *Work) SubBatch(b *Batch, lo, hi int) *Batch {
	p := &w.piece
	p.Lo, p.N = b.Lo+lo, hi-lo
	p.Item, p.Y, p.Rating, p.Pos = b.Item[lo:hi], b.Y[lo:hi], part(b.Rating, lo, hi), part(b.Pos, lo, hi)
	p.Rd, p.Wr = p.Rd[:0], p.Wr[:0]
	for i := range b.Rd {
		p.Rd, p.Wr = append(p.Rd, part(b.Rd[i], lo, hi)), append(p.Wr, part(b.Wr[i], lo, hi))
	}
	return p
}

func part[T any](xs []T, lo, hi int) []T {
	if len(xs) == 0 {
		return nil
	}
	return xs[lo:hi]
}

func (s *Samples) distinct(pos []uint32) []uint32 {
	s.rows = s.rows[:0]
	if s.stamp++; s.stamp == 0 {
		clear(s.mark)
		s.stamp = 1
	}
	for _, p := range pos {
		if int(p) >= len(s.mark) {
			s.mark = append(s.mark, make([]uint32, int(p)+1-len(s.mark))...)
		}
		if s.mark[p] != s.stamp {
			s.mark[p] = s.stamp
			s.rows = append(s.rows, p)
		}
	}
	return s.rows
}

// ScaleAll multiplies every row of a slot by s, touched or not.
func (v *View) ScaleAll(s float32) {
	if v.Slot.PerItem {
		v.uneven()
		v.Scale *= float64(s)
		if v.Scale > -least && v.Scale < least {
			v.restart()
		}
		return
	}
	for i := range v.Val {
		v.Val[i] *= s
	}
}

// RecordScale records that every row of a PerItem slot was shrunk by s, and that the
// given positions, which are distinct, have been multiplied already.
func (v *View) RecordScale(s float32, positions []uint32) {
	if s == 1 {
		return
	}
	if v.Used > 0 && len(positions) == v.Used { // all of them
		v.SameScale = true
		if v.Scale *= float64(s); v.Scale > -least && v.Scale < least {
			v.Scale = least
		}
		return
	}
	v.uneven()
	v.Scale *= float64(s)
	for _, p := range positions {
		v.RowScale[p] = v.Scale
	}
	if v.Scale > -least && v.Scale < least {
		v.restart()
	}
}

// uneven writes At down.
func (v *View) uneven() {
	if v.SameScale {
		for p := range v.Used {
			v.RowScale[p] = v.Scale
		}
		v.SameScale = false
	}
}

// least is the smallest shrinkage that is kept: what a row shrunk so far once was
// is nothing beside any float32 that training puts there since.
const least = 1e-60

// restart brings every position up to a shrinkage that is about to vanish, so
// that no ratio of two of them is ever 0/0.
func (v *View) restart() {
	for p, at := range v.RowScale {
		if at != 0 { // 0 is a position that was never used
			v.bring(uint32(p))
		}
		v.RowScale[p] = least
	}
	v.Scale = least
}

// Rescale brings the given positions of the local block up to the slot's
// shrinkage. Batch does so for the rows of a batch; whoever shrinks a slot in the
// middle of a step does it again.
func (v *View) Rescale(positions []uint32) {
	if v.RowScale == nil || v.SameScale {
		return
	}
	for _, p := range positions {
		v.bring(p)
	}
}

// RescaleAll brings the first n positions up to the slot's shrinkage.
func (v *View) RescaleAll(n int) {
	if v.RowScale == nil || v.SameScale {
		return
	}
	for p := range uint32(n) {
		v.bring(p)
	}
}

func (v *View) bring(p uint32) {
	if v.RowScale[p] == v.Scale {
		return
	}
	f := float32(v.Scale / v.RowScale[p])
	vec.Scale(f, v.Row(v.Local+p))
	v.RowScale[p] = v.Scale
}

// ClearGrads sets the gradients that a batch may have touched to zero.
func (w *Work) ClearGrads(b *Batch) {
	for i := range w.View {
		v := &w.View[i]
		clear(v.Grad)
		if v.GradRows == nil {
			continue
		}
		for _, p := range b.Rows {
			clear(v.GradRow(p))
		}
	}
}

// RankOne is what a Direct visit did to rows it never copied: sample x moved its
// row by -G[x] times the vector of its batch.
type RankOne struct {
	On    bool // the visit is Direct
	Slot  int
	G     []float32
	Lo    []int     // first sample of each batch
	V     []float32 // the vectors, Stride floats each
	Width int
}

// RecordMove records that the samples of b moved their rows of slot by -g[x]*v. A
// Direct step calls it, with g as long as the batch; it keeps nothing where rows
// are copied.
func (w *Work) RecordMove(slot int, b *Batch, g, v []float32) {
	r := &w.RankOne
	if !r.On {
		return
	}
	r.Slot, r.Width = slot, len(v)
	copy(r.G[b.Lo:], g)
	r.Lo = append(r.Lo, b.Lo)
	r.V = append(r.V, v...)
}
