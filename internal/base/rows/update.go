package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Update is what one device sends: a part per slot that it may upload.
type Update struct{ Parts []Part }

// Part is the change of one slot, or a sum of statistics: the slot says which.
type Part struct {
	Slot   uint16
	Dim    int
	Shrunk float64   // all rows were first multiplied by 1+Shrunk; 0 for most methods
	IDs    []uint32  // rows present, ascending; nil means every row
	Data   []float32 // len(rows) * Dim, without padding
	Sparse bool      // zeros are left out of the binary form
}

// The binary form, little endian:
//
//	"TU1" parts:u8 { slot:u16 form:u8 dim:u32 shrunk:f64 rows:u32 [id:u32 ...] [value:f32 ...] }
//
// form is 0 for a part with every row and 1 for one that lists its rows, and 2 more
// where the part is Sparse: then ids are written by their distances, and rows as
// sparse.go says. Nothing is allocated before the bytes that fill it are seen to be
// there; of a sparse part, within a bound.
const magic = "TU1"

const partHeader = 2 + 1 + 4 + 8 + 4

// Size is the length of the binary form.
func (u *Update) Size() int {
	n := len(magic) + 1
	for i := range u.Parts {
		if p := &u.Parts[i]; p.Sparse {
			n += p.sparseSize()
		} else {
			n += PartSize(len(p.Data), len(p.IDs))
		}
	}
	return n
}

// PartSize is the length of a part's binary form.
func PartSize(floats, ids int) int { return partHeader + 4*floats + 4*ids }

// AppendBinary appends the binary form to b.
func (u *Update) AppendBinary(b []byte) ([]byte, error) {
	if len(u.Parts) > 255 {
		return nil, fmt.Errorf("rows: an update has %d parts, at most 255 are possible", len(u.Parts))
	}
	b = slices.Grow(b, u.Size())
	b = append(b, magic...)
	b = append(b, byte(len(u.Parts)))
	le := binary.LittleEndian
	for i := range u.Parts {
		p := &u.Parts[i]
		if p.Dim <= 0 || len(p.Data)%p.Dim != 0 || p.IDs != nil && len(p.IDs)*p.Dim != len(p.Data) {
			return nil, fmt.Errorf("rows: part %d has %d numbers in rows of %d with %d ids", i, len(p.Data), p.Dim,
				len(p.IDs))
		}
		for k := 1; k < len(p.IDs); k++ {
			if p.IDs[k] <= p.IDs[k-1] {
				return nil, fmt.Errorf("rows: part %d: row ids do not ascend at place %d", i, k)
			}
		}
		form := byte(0)
		if p.IDs != nil {
			form = 1
		}
		if p.Sparse {
			form |= 2
		}
		b = append(le.AppendUint16(b, p.Slot), form)
		b = le.AppendUint32(b, uint32(p.Dim))
		b = le.AppendUint64(b, math.Float64bits(p.Shrunk))
		b = le.AppendUint32(b, uint32(len(p.Data)/p.Dim))
		if p.Sparse {
			b = p.appendSparse(b)
			continue
		}
		for _, id := range p.IDs {
			b = le.AppendUint32(b, id)
		}
		for _, v := range p.Data {
			b = le.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b, nil
}

var errShort = errors.New("rows: update ends too early")

// UnmarshalBinary reads the binary form. Ids must ascend and every number must
// be finite; anything left over is an error.
func (u *Update) UnmarshalBinary(b []byte) error { return u.Decode(b, MostSparse) }

// Decode is UnmarshalBinary for an update whose sparse parts hold at most so many
// numbers together.
func (u *Update) Decode(b []byte, most int) error {
	if len(b) < len(magic)+1 || string(b[:len(magic)]) != magic {
		return errors.New("rows: not an update, or one of another version")
	}
	parts := make([]Part, 0, 4)
	n := int(b[len(magic)])
	b = b[len(magic)+1:]
	for range n {
		p, rest, err := readPart(b, &most)
		if err != nil {
			return err
		}
		parts, b = append(parts, p), rest
	}
	if len(b) != 0 {
		return fmt.Errorf("rows: %d bytes after the update's end", len(b))
	}
	u.Parts = parts
	return nil
}

func readPart(b []byte, most *int) (p Part, rest []byte, err error) {
	if len(b) < partHeader {
		return p, nil, errShort
	}
	le := binary.LittleEndian
	p.Slot = le.Uint16(b)
	form, dim, rows := b[2], uint64(le.Uint32(b[3:])), uint64(le.Uint32(b[15:]))
	p.Shrunk = math.Float64frombits(le.Uint64(b[7:]))
	b = b[partHeader:]
	if form > 3 || dim == 0 || dim > 1<<20 || math.IsNaN(p.Shrunk) || math.IsInf(p.Shrunk, 0) {
		return p, nil, fmt.Errorf("rows: slot %d: form %d, rows of %d, shrunk by %g is not a valid part", p.Slot, form,
			dim, p.Shrunk)
	}
	p.Dim, p.Sparse = int(dim), form >= 2
	if p.Sparse {
		rest, err = p.readSparse(b, rows, form == 3, most)
	} else {
		rest, err = p.readPlain(b, rows, form == 1)
	}
	return p, rest, err
}

func (p *Part) readPlain(b []byte, rows uint64, listed bool) (rest []byte, err error) {
	le, dim := binary.LittleEndian, uint64(p.Dim)
	need := rows * dim * 4
	if listed {
		need += rows * 4
	}
	if uint64(len(b)) < need {
		return nil, errShort
	}
	if listed {
		p.IDs = make([]uint32, rows)
		for i := range p.IDs {
			p.IDs[i] = le.Uint32(b[4*i:])
			if i > 0 && p.IDs[i] <= p.IDs[i-1] {
				return nil, fmt.Errorf("rows: slot %d: row ids do not ascend at place %d", p.Slot, i)
			}
		}
		b = b[4*rows:]
	}
	p.Data = make([]float32, rows*dim)
	for i := range p.Data {
		p.Data[i] = math.Float32frombits(le.Uint32(b[4*i:]))
		if d := p.Data[i] - p.Data[i]; d != 0 {
			return nil, fmt.Errorf("rows: slot %d: number %d is not finite", p.Slot, i)
		}
	}
	return b[4*rows*dim:], nil
}
