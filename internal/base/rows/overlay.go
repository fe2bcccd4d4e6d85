// Package rows holds data that devices send or keep: the binary form of updates, the feature
// columns that methods read, and overlays, which store only the rows of a table that a device
// has written. It does no arithmetic on models.
package rows

import (
	"fmt"
	"slices"

	"github.com/tacit-rec/tacit/vec"
)

// Precision is how an overlay stores its rows.
type Precision uint8

const (
	F32   Precision = iota
	Int16           // integers, with one unit per row
	Int8
)

// ParsePrecision parses "f32", "int16" or "int8".
func ParsePrecision(name string) (Precision, error) {
	i := slices.Index([]string{"f32", "int16", "int8"}, name)
	if i < 0 {
		return 0, fmt.Errorf("unknown precision %q: must be f32, int16 or int8", name)
	}
	return Precision(i), nil
}

// bits of a number.
func (f Precision) bits() int { return 32 >> f }

// RowBytes is the size of a row of stride numbers, without its id.
func (f Precision) RowBytes(stride int) int {
	if f == F32 {
		return 4 * stride
	}
	return stride*f.bits()/8 + 4
}

// Overlay is a device's own table, stored as the rows that it has written over an initial
// table that all devices share. A written row is Scale times the stored row, any other row is
// BaseScale times the initial row. So weight decay, which shrinks every row, changes two
// numbers and loses nothing to rounding.
type Overlay struct {
	Precision        Precision
	IDs              []uint32  // written rows, in the order of their first write
	Data             []float32 // the rows, if Precision is F32
	Code             []uint32  // otherwise the rows as vec.Pack writes them
	Unit             []float32 // and the unit of each row
	Scale, BaseScale float64
}

// NewOverlay returns the overlay of a device that has written nothing.
func NewOverlay(f Precision) Overlay { return Overlay{Precision: f, Scale: 1, BaseScale: 1} }

// Shrink multiplies every row, written or not, by s.
func (o *Overlay) Shrink(s float64) {
	o.Scale *= s
	o.BaseScale *= s
	if o.Scale < 1e-12 { // keep the stored rows within the range of float32
		vec.Scale(float32(o.Scale), o.Data)
		vec.Scale(float32(o.Scale), o.Unit)
		o.Scale = 1
	}
}

// words is the length of a packed row.
func (o *Overlay) words(stride int) int { return stride * o.Precision.bits() / 32 }

// Read sets row to[x] of dst to written row at[x]. Rows are stride floats.
func (o *Overlay) Read(at []uint32, stride int, dst []float32, to []uint32) {
	s, n := float32(o.Scale), o.words(stride)
	if o.Precision == F32 {
		vec.ScaleRows(s, o.Data, at, stride, dst, to)
		return
	}
	for x, a := range at {
		vec.Unpack(o.Precision.bits(), float32(s*o.Unit[a]), o.Code[int(a)*n:][:n], dst[int(to[x])*stride:][:stride])
	}
}

// Write sets written row at[x] to row from[x] of src.
func (o *Overlay) Write(src []float32, from []uint32, stride int, at []uint32) {
	s, n := float32(1/o.Scale), o.words(stride)
	if o.Precision == F32 {
		vec.ScaleRows(s, src, from, stride, o.Data, at)
		return
	}
	for x, a := range at {
		o.Unit[a] = float32(s * vec.Pack(o.Precision.bits(), src[int(from[x])*stride:][:stride], o.Code[int(a)*n:][:n]))
	}
}

// Extend adds written rows with undefined contents. The table never has more than most rows.
func (o *Overlay) Extend(ids []uint32, stride, most int) {
	all := len(o.IDs) + len(ids)
	if cap(o.IDs) < all {
		o.resize(stride, len(o.IDs), max(all, min(2*all, most)))
	}
	o.IDs = append(o.IDs, ids...)
	o.resize(stride, all, 0)
}

// Resize sets the number of written rows. New rows have undefined contents.
func (o *Overlay) Resize(n, stride int) {
	o.IDs = resize(o.IDs, n, 0)
	o.resize(stride, n, 0)
}

// resize sets the number of rows to n. If room is not 0, it makes room for that many rows and ids.
func (o *Overlay) resize(stride, n, room int) {
	if room > 0 {
		o.IDs = resize(o.IDs, n, room)
	}
	if o.Precision == F32 {
		o.Data = resize(o.Data, n*stride, room*stride)
		return
	}
	w := o.words(stride)
	o.Code, o.Unit = resize(o.Code, n*w, room*w), resize(o.Unit, n, room)
}

func resize[T any](xs []T, n, room int) []T {
	if cap(xs) < max(n, room) {
		xs = append(make([]T, 0, max(n, room)), xs...)
	}
	return xs[:n]
}

// Clone returns a deep copy.
func (o *Overlay) Clone() Overlay {
	c := *o
	c.IDs, c.Data, c.Code, c.Unit = slices.Clone(o.IDs), slices.Clone(o.Data), slices.Clone(o.Code),
		slices.Clone(o.Unit)
	return c
}
