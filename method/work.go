package method

import (
	"github.com/tacit-rec/tacit/vec"
)

// Work is a device during local training. The runtime fills it; a method reads it, and
// writes values and gradients.
type Work struct {
	Device        uint32 // its row in the columns of users
	Round, Rounds int    // Round counts from 0
	Phase         int
	Items         int
	Step          int // batches done in this round
	History       []uint32
	Features      *Features // nil unless the method is Featured
	View          []View
	Rand          Rand // the stream of this device in this round

	BatchSize int
	NoFuse    bool // steps must not fuse
	WantLoss  bool
	Loss      float64
	LossN     int

	Samples Samples
	batch   Batch
	piece   Batch
	tally   RowCounts
	Z       []float32 // memory for the logits of a batch, or their gradients
	skip    uint64

	RankOne RankOne
	Scratch
}

// RestrictGrads restricts gradients to the given slots, a bit each, and returns the
// previous restriction.
func (w *Work) RestrictGrads(slots uint64) (before uint64) {
	before, w.skip = ^w.skip, ^slots
	return before
}

// SkipsGrad reports whether the gradient of a slot is not needed.
func (w *Work) SkipsGrad(slot int) bool { return w.skip>>slot&1 == 1 }

// View is one slot on a device.
type View struct {
	Slot   Slot
	Stride int
	// Of a plain slot: its values, their gradient, and the downloaded values.
	Val, Grad, Base []float32
	// Of a Sparse slot: what Add has listed.
	Indices []uint32
	Values  []float32
	// Sent is what the device sends of a plain slot that uploads its Gradient. It starts
	// at zero. The sums of a PerItem slot are the rows in Batch.Wr.
	Sent []float32
	// Of a PerItem slot: Arena holds rows of Stride floats. Batch.Rd and Batch.Wr are
	// row numbers in it. Local is the first row of the device's block; the gradient of
	// position p in the block is GradRows[p*Stride:].
	Arena    []float32
	Local    uint32
	GradRows []float32
	// Weight decay of every row is applied lazily: Scale is the factor that all rows
	// must have been multiplied by, RowScale[p] the factor of position p so far.
	Scale     float64
	RowScale  []float64
	Used      int       // positions of the block in use; 0 if unknown
	SameScale bool      // all positions have the factor Scale; RowScale is stale
	stale     []uint32  // scratch memory of Rescale: rows
	factors   []float32 // and what they are multiplied by
}

// Row returns row r of a PerItem slot's arena.
func (v *View) Row(r uint32) []float32 {
	o := int(r) * v.Stride
	return v.Arena[o : o+v.Stride : o+v.Stride]
}

// Add appends a number to a Sparse slot. Indices must ascend: the bound of an update
// relies on each index occurring once.
func (v *View) Add(index uint32, x float32) {
	n := len(v.Indices)
	if n > 0 && v.Indices[n-1] >= index || int(index) >= v.Slot.Dim {
		panic("method: indices of a sparse slot must ascend and be below its width")
	}
	v.Indices = append(v.Indices, index)
	v.Values = append(v.Values, x)
}

// GradRow returns the gradient of position p.
func (v *View) GradRow(p uint32) []float32 {
	o := int(p) * v.Stride
	return v.GradRows[o : o+v.Stride : o+v.Stride]
}

// Samples are the samples of a device in a round, in their current order.
type Samples struct {
	Item []uint32
	Y    []float32
	// Rating is the rating of a positive, or 1 if the data has none, and 0 for a
	// negative. It is nil unless the Visit uses ratings.
	Rating []float32
	// Row is the interaction of a sample, as a row of Features.Row: of a negative, the
	// interaction of the positive that it was drawn for. It is nil if the method reads no
	// features of interactions.
	Row []uint32
	Pos []uint32   // in the local block; equal items have equal positions
	Rd  [][]uint32 // by slot: the arena rows to read
	Wr  [][]uint32 // by slot: the arena rows to write
	// Shuffle shuffles the samples for another pass.
	Shuffle func()
	// Version changes with the samples and their order; 0 means unknown. While it stays
	// the same, Work.Batch may return what it computed before.
	Version uint64
	mark    []uint32
	rows    []uint32
	stamp   uint32
}

// Batch is a range of samples. Rd and Wr are arena rows, by slot.
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

// SubBatch returns samples lo to hi of b, without Rows; b stays valid. The result is
// valid until the next call.
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

// ScaleAll multiplies every row of a slot by s, including rows that no sample touches.
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

// RecordScale records that every row of a PerItem slot is multiplied by s, and that the
// given distinct positions have been multiplied already.
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

// uneven brings RowScale up to date.
func (v *View) uneven() {
	if v.SameScale {
		for p := range v.Used {
			v.RowScale[p] = v.Scale
		}
		v.SameScale = false
	}
}

// least is the smallest factor that is kept: a row multiplied by less is zero in float32.
const least = 1e-60

// restart rescales every position before Scale underflows, so that no ratio of two
// factors is 0/0.
func (v *View) restart() {
	for p, at := range v.RowScale {
		if at != 0 { // 0: a position that was never used
			v.bring(uint32(p))
		}
		v.RowScale[p] = least
	}
	v.Scale = least
}

// Rescale multiplies the given positions of the local block so that they have the
// slot's factor. Work.Batch does so for the rows of a batch; a step that calls ScaleAll
// must do it again.
func (v *View) Rescale(positions []uint32) {
	if v.RowScale == nil || v.SameScale {
		return
	}
	if n := len(positions); cap(v.stale) < n {
		v.stale, v.factors = make([]uint32, n), make([]float32, n)
	}
	rows, by, n := v.stale[:len(positions)], v.factors[:len(positions)], 0
	for _, p := range positions {
		at := v.RowScale[p]
		rows[n], by[n] = p, float32(v.Scale/at)
		v.RowScale[p] = v.Scale
		if at != v.Scale {
			n++
		}
	}
	vec.ScaleEach(by[:n], rows[:n], v.Stride, v.Arena[int(v.Local)*v.Stride:])
}

// RescaleAll is Rescale for the first n positions.
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

// RankOne records the moves of an InPlace visit, which does not copy rows: sample x moved
// its row by -G[x] times the vector of its batch.
type RankOne struct {
	On    bool // the visit is InPlace
	Slot  int
	G     []float32
	Lo    []int     // first sample of each batch
	V     []float32 // the vectors, Stride floats each
	Width int
}

// RecordMove records that the samples of b moved their rows of slot by -g[x]*v. InPlace
// steps call it. If rows are copied, it does nothing.
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
