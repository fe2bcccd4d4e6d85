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

// State is what a device keeps between rounds. The zero value is a device that never
// trained.
type State struct {
	Plain  []float32 // the Private plain slots, one after the other
	Tables []rows.Overlay
	Visits uint32 // local trainings so far
}

// NewState returns the state of a new device. It uses plain for State.Plain, unless that is
// nil.
func (m *Memory) NewState(plain []float32) State {
	p := m.plan
	if plain == nil {
		plain = make([]float32, p.plain)
	}
	s := State{Plain: plain, Tables: make([]rows.Overlay, len(p.tables))}
	for i := range p.Slots {
		if p.Slots[i].Scope == method.Private && !p.Slots[i].PerItem {
			copy(s.Plain[p.at[i]:], m.value[i])
		}
	}
	for k := range s.Tables {
		s.Tables[k] = rows.NewOverlay(p.Keep)
	}
	return s
}

// PlainSize is the number of floats of State.Plain.
func (p *Plan) PlainSize() int { return p.plain }

// TableStride is the width of a row of State.Tables[k].
func (p *Plan) TableStride(k int) int { return vec.Pad(p.Slots[p.tables[k]].Dim) }

// TableBytes is the largest size of a device's private tables.
func (p *Plan) TableBytes() (n int) {
	for k := range p.tables {
		n += p.Items * (4 + p.Keep.RowBytes(p.TableStride(k)))
	}
	return n
}

// AppendState appends the binary form of a state, in little endian: Visits, Plain, and for
// each table Scale, BaseScale, the number of rows, their ids and their contents.
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

// ReadState reads what AppendState wrote into a state that Memory.NewState made for the same
// plan. Sizes come from the plan, not from the input, so a hostile input cannot allocate more
// memory than training might. After an error the state must not be used.
func (p *Plan) ReadState(r io.Reader, s *State) error {
	in := &reader{r: r}
	s.Visits = in.word()
	in.floats(s.Plain)
	for k := range s.Tables {
		o := &s.Tables[k]
		o.Scale, o.BaseScale = math.Float64frombits(in.long()), math.Float64frombits(in.long())
		n := in.long()
		if in.err == nil && n > uint64(p.Items) {
			in.err = fmt.Errorf("a private table has %d rows: must be at most %d", n, p.Items)
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
		return fmt.Errorf("corrupt device state: %w", in.err)
	}
	return nil
}

// checkRows reports an unknown or repeated row of a table.
func (p *Plan) checkRows(o *rows.Overlay) error {
	seen := make([]uint64, (p.Items+63)/64)
	for _, id := range o.IDs {
		if int(id) >= p.Items {
			return errors.New("a private table has an unknown row")
		}
		if seen[id>>6]>>(id&63)&1 == 1 {
			return errors.New("a private table that has a row twice")
		}
		seen[id>>6] |= 1 << (id & 63)
	}
	return nil
}

// reader reads little-endian words until the first error.
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
