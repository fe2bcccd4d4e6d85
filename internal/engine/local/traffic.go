package local

import (
	"cmp"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// Integer updates are counted in the bytes that a device sends. Sums of floats exist in
// simulations only: each number and each row index then counts as 4 bytes.

// BytesDown is what a device downloads in a round, from 0: every Shared slot that is not a
// sum, as float32.
func (p *Plan) BytesDown(round int) int {
	n, phase := 0, p.Phase(round)
	for i := range p.Slots {
		s := &p.Slots[i]
		if s.Scope == method.Shared && s.Upload != method.Sum && p.IsSent(phase, i) {
			n += 4 * s.Rows * s.Dim
		}
	}
	return n
}

// MeanBytesDown is the mean of BytesDown over the first rounds.
func (p *Plan) MeanBytesDown(rounds int) float64 {
	n := 0
	for t := range rounds {
		n += p.BytesDown(t)
	}
	return float64(n) / float64(max(rounds, 1))
}

// MaxBytesUp is the size of the largest update: every row of every slot that is sent.
func (p *Plan) MaxBytesUp() int {
	if p.most == 0 {
		return 4 * p.MaxUpdateLength()
	}
	n := 0
	for i := range p.layouts {
		n = max(n, packedBytes(p.layouts[i].numbers, p.sumBits(&p.layouts[i])))
	}
	return n
}

// PackedBytes is the size of an update of a round, from 0, in narrow sums under masks.
func (p *Plan) PackedBytes(round int) int {
	l := p.layout(p.Phase(round))
	return packedBytes(l.numbers, p.sumBits(l))
}

// sumBits is the width of a number in narrow sums: the run's bits, or as many as the sum of
// SumDevices devices needs if slots declare their levels.
func (p *Plan) sumBits(l *layout) int {
	if l.most == p.most {
		return p.Bits
	}
	return min(p.Bits, privacy.NarrowBits(cmp.Or(p.SumDevices, p.Users), int(l.most)))
}

// packedBytes counts the clipping bit's number too.
func packedBytes(numbers, bits int) int { return ((numbers+1)*bits + 7) / 8 }

// bytesUp is the size of a slot's part of the last delta as floats, of which a device sends
// that many rows: the rows with their indices, or all rows if that is less.
func (k *Worker) bytesUp(v *method.View, rows int) int {
	dense := 4 * v.Slot.Rows * v.Slot.Dim
	switch {
	case k.p.Dense:
		return dense
	case v.Slot.Sparse:
		return min(dense, 8*len(v.Indices))
	case !v.Slot.PerItem:
		return dense
	}
	listed := min(dense, 4*rows*(v.Slot.Dim+1))
	if k.p.Sparse {
		return min(listed, k.sparseBytesUp(v, rows))
	}
	return listed
}

// sparseBytesUp is the size of a PerItem slot's part without its zeros. Rows that went to
// the sums without a copy count in full: they are a number times a vector, or a gradient.
func (k *Worker) sparseBytesUp(v *method.View, rows int) int {
	dim, full, size := v.Slot.Dim, rows, 0
	if v.Slot.Upload == method.Delta {
		full -= len(k.items)
		k.row = append(k.row[:0], v.Row(0)...)
		for p, item := range k.items {
			clear(k.row)
			vec.Axpy(-float32(v.Scale), v.Row(item), k.row)
			vec.Add(v.Row(v.Local+uint32(p)), k.row)
			size += sparseBytes(k.row[:dim])
		}
	}
	return 4*rows + size + 4*dim*full
}

// sparseBytes is the size of a row without its zeros: a bit per number, and the others as
// float32.
func sparseBytes(row []float32) int {
	n := 0
	for _, x := range row {
		if x != 0 {
			n++
		}
	}
	return min(4*len(row), (len(row)+7)/8+4*n)
}

// SparseDown is what a device downloads in a round without the zeros of the current values,
// and the share of the numbers that are zeros.
func (m *Memory) SparseDown() (bytes int, zeros float64) {
	none, all := 0, 0
	for i := range m.plan.Slots {
		s := &m.plan.Slots[i]
		if s.Scope != method.Shared || s.Upload == method.Sum {
			continue
		}
		stride := vec.Pad(s.Dim)
		for r := range s.Rows {
			row := m.Value(i)[r*stride:][:s.Dim]
			bytes += sparseBytes(row)
			for _, x := range row {
				if x == 0 {
					none++
				}
			}
		}
		all += s.Rows * s.Dim
	}
	return bytes, float64(none) / float64(max(all, 1))
}
