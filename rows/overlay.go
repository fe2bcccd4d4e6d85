// Package rows holds what travels and what stays: updates with their binary form,
// and overlays that remember only the rows a device has ever written.
package rows

import (
	"slices"

	"github.com/tacit-rec/tacit/vec"
)

// Overlay is a table a device owns, kept as the rows it has ever written over a
// birth table that all devices share. Row i is Scale*Data for a written row and
// Fade*birth otherwise, so weight decay that shrinks every row costs two numbers.
type Overlay struct {
	IDs         []uint32 // written rows, in the order of their first write
	Data        []float32
	Scale, Fade float64
}

// NewOverlay returns the overlay of a device that has written nothing.
func NewOverlay() Overlay { return Overlay{Scale: 1, Fade: 1} }

// Shrink multiplies every row, written or not, by s.
func (o *Overlay) Shrink(s float64) {
	o.Scale *= s
	o.Fade *= s
	if o.Scale < 1e-12 { // keep the stored rows within float32's range
		vec.Scale(float32(o.Scale), o.Data)
		o.Scale = 1
	}
}

// Read sets row to[x] of dst to the written row at place at[x]. Rows are stride
// floats.
func (o *Overlay) Read(at []uint32, stride int, dst []float32, to []uint32) {
	vec.ScaleRows(float32(o.Scale), o.Data, at, stride, dst, to)
}

// Write sets the row at place at[x] to row from[x] of src.
func (o *Overlay) Write(src []float32, from []uint32, stride int, at []uint32) {
	vec.ScaleRows(float32(1/o.Scale), src, from, stride, o.Data, at)
}

// Extend makes room for more written rows and returns the place of the first. The
// table never holds more than most rows, so no room is kept for more.
func (o *Overlay) Extend(ids []uint32, stride, most int) int {
	n, all := len(o.IDs), len(o.IDs)+len(ids)
	if cap(o.IDs) < all {
		room := max(all, min(2*all, most))
		o.IDs = append(make([]uint32, 0, room), o.IDs...)
		o.Data = append(make([]float32, 0, room*stride), o.Data...)
	}
	o.IDs, o.Data = append(o.IDs, ids...), slices.Grow(o.Data, len(ids)*stride)[:all*stride]
	return n
}
