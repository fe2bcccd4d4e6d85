// Package rows holds what travels and what stays: updates with their binary form,
// and overlays that remember only the rows a device has ever written.
package rows

import (
	"fmt"
	"slices"

	"github.com/tacit-rec/tacit/vec"
)

// Precision is how an overlay keeps its rows.
type Precision uint8

const (
	F32   Precision = iota // as they are
	Int16                  // as whole numbers of a unit that each row has for itself
	Int8
)

// ParsePrecision reads the name of a form.
func ParsePrecision(name string) (Precision, error) {
	i := slices.Index([]string{"f32", "int16", "int8"}, name)
	if i < 0 {
		return 0, fmt.Errorf("rows: no form is named %q: want f32, int16 or int8", name)
	}
	return Precision(i), nil
}

// bits of a number.
func (f Precision) bits() int { return 32 >> f }

// RowBytes is what a row of stride numbers takes, without its id.
func (f Precision) RowBytes(stride int) int {
	if f == F32 {
		return 4 * stride
	}
	return stride*f.bits()/8 + 4
}

// Overlay is a table a device owns, kept as the rows it has ever written over a
// birth table that all devices share. Row i is Scale times the stored row for a
// written row and Fade*birth otherwise, so weight decay that shrinks every row
// costs two numbers, and rounding never swallows it.
type Overlay struct {
	Precision        Precision
	IDs              []uint32  // written rows, in the order of their first write
	Data             []float32 // the rows, of form F32
	Code             []uint32  // the rows as vec.Pack writes them, of another form
	Unit             []float32 // and the unit of each
	Scale, BaseScale float64
}

// NewOverlay returns the overlay of a device that has written nothing.
func NewOverlay(f Precision) Overlay { return Overlay{Precision: f, Scale: 1, BaseScale: 1} }

// Shrink multiplies every row, written or not, by s.
func (o *Overlay) Shrink(s float64) {
	o.Scale *= s
	o.BaseScale *= s
	if o.Scale < 1e-12 { // keep the stored rows within float32's range
		vec.Scale(float32(o.Scale), o.Data)
		vec.Scale(float32(o.Scale), o.Unit)
		o.Scale = 1
	}
}

// words is the length of a packed row.
func (o *Overlay) words(stride int) int { return stride * o.Precision.bits() / 32 }

// Read sets row to[x] of dst to the written row at place at[x]. Rows are stride
// floats.
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

// Write sets the row at place at[x] to row from[x] of src.
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

// Extend makes room for more written rows, after those that are there. The table
// never holds more than most rows, so no room is kept for more.
func (o *Overlay) Extend(ids []uint32, stride, most int) {
	all := len(o.IDs) + len(ids)
	if cap(o.IDs) < all {
		o.resize(stride, len(o.IDs), max(all, min(2*all, most)))
	}
	o.IDs = append(o.IDs, ids...)
	o.resize(stride, all, 0)
}

// Resize sets the number of written rows. What the new ones hold is anything.
func (o *Overlay) Resize(n, stride int) {
	o.IDs = resize(o.IDs, n, 0)
	o.resize(stride, n, 0)
}

// resize makes the rows n, and with room for so many the ids too.
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

// Clone is a copy that shares nothing.
func (o *Overlay) Clone() Overlay {
	c := *o
	c.IDs, c.Data, c.Code, c.Unit = slices.Clone(o.IDs), slices.Clone(o.Data), slices.Clone(o.Code),
		slices.Clone(o.Unit)
	return c
}
