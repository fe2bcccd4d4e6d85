package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// AppendState appends the binary form of a state: its visits, its plain slots, and of
// each table Scale, Fade, the number of rows, their ids and what they hold; all in
// little endian.
func (p *Plan) AppendState(dst []byte, s *State) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, s.Visits)
	dst = appendFloats(dst, s.Plain)
	for k := range s.Tables {
		o := &s.Tables[k]
		dst = le.AppendUint64(dst, math.Float64bits(o.Scale))
		dst = le.AppendUint64(dst, math.Float64bits(o.BaseScale))
		dst = le.AppendUint64(dst, uint64(len(o.IDs)))
		dst = appendWords(dst, o.IDs)
		dst = appendFloats(dst, o.Data)
		dst = appendWords(dst, o.Code)
		dst = appendFloats(dst, o.Unit)
	}
	return dst
}

func appendFloats(dst []byte, xs []float32) []byte {
	for _, x := range xs {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return dst
}

func appendWords(dst []byte, xs []uint32) []byte {
	for _, x := range xs {
		dst = binary.LittleEndian.AppendUint32(dst, x)
	}
	return dst
}

// ReadState reads what AppendState wrote into a state that Memory.Born made for the
// same plan. Sizes come from the plan, not from what is read, so nothing can ask for
// memory that a visit might not take too. After an error the state must not be used.
func (p *Plan) ReadState(r io.Reader, s *State) error {
	in := &reader{r: r}
	s.Visits = in.word()
	in.floats(s.Plain)
	for k := range s.Tables {
		o := &s.Tables[k]
		o.Scale, o.BaseScale = math.Float64frombits(in.long()), math.Float64frombits(in.long())
		n := in.long()
		if in.err == nil && n > uint64(p.Items) {
			in.err = fmt.Errorf("a private table with %d rows, and there are %d items", n, p.Items)
		}
		if in.err != nil {
			break
		}
		o.Resize(int(n), p.TableStride(k))
		in.words(o.IDs)
		in.floats(o.Data)
		in.words(o.Code)
		in.floats(o.Unit)
		if in.err == nil {
			in.err = p.checkRows(o)
		}
	}
	if in.err != nil {
		return fmt.Errorf("device: a private state: %w", in.err)
	}
	return nil
}

// checkRows says whether a table names a row that is not there, or one twice.
func (p *Plan) checkRows(o *rows.Overlay) error {
	seen := make([]uint64, (p.Items+63)/64)
	for _, id := range o.IDs {
		if int(id) >= p.Items {
			return errors.New("a private table with an unknown row")
		}
		if seen[id>>6]>>(id&63)&1 == 1 {
			return errors.New("a private table that has a row twice")
		}
		seen[id>>6] |= 1 << (id & 63)
	}
	return nil
}

// reader reads little-endian words until something goes wrong.
type reader struct {
	r   io.Reader
	err error
	buf [4096]byte
}

func (in *reader) take(n int) []byte {
	b := in.buf[:n]
	if in.err != nil {
		clear(b)
		return b
	}
	if _, in.err = io.ReadFull(in.r, b); in.err != nil {
		clear(b)
	}
	return b
}

func (in *reader) word() uint32 { return binary.LittleEndian.Uint32(in.take(4)) }
func (in *reader) long() uint64 { return binary.LittleEndian.Uint64(in.take(8)) }

func (in *reader) words(dst []uint32) {
	for lo := 0; lo < len(dst) && in.err == nil; lo += len(in.buf) / 4 {
		part := dst[lo:min(lo+len(in.buf)/4, len(dst))]
		b := in.take(4 * len(part))
		for i := range part {
			part[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
	}
}

func (in *reader) floats(dst []float32) {
	for lo := 0; lo < len(dst) && in.err == nil; lo += len(in.buf) / 4 {
		part := dst[lo:min(lo+len(in.buf)/4, len(dst))]
		b := in.take(4 * len(part))
		for i := range part {
			part[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
}

// MemoryBytes is about how many bytes a memory of the plan and its workers will take: what
// NewMemory and NewWorker allocate, and the private tables of one device. It
// allocates nothing, so that a device can refuse a plan that is too large for it. The
// result is not a whole number: a plan may ask for more than fits one.
func (p *Plan) MemoryBytes(shards, workers int) float64 {
	items, total := float64(p.Items), 0.0
	sums, crew := float64(shards+workers), float64(workers)
	for i := range p.Slots {
		s := &p.Slots[i]
		width := float64(s.Rows) * float64(vec.Pad(s.Dim))
		n := width
		if uploads(s) {
			n += sums * width
		}
		switch {
		case !s.PerItem:
			n += 3 * crew * width // values, gradients and what is sent
		case s.Copied():
			n += crew * (2*width + scoreChunk*float64(vec.Pad(s.Dim)) + 2*items)
		}
		if s.Scope == method.Private && s.PerItem {
			n += 2*width + items
		}
		total += 4 * n
	}
	if p.Integers {
		total += 8 * crew * float64(p.MaxUpdateLength()+1)
	}
	return total + crew*items*(4*6+8)
}
