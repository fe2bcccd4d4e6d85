// Package rows holds what travels and what stays: tables of float32 rows,
// overlays that remember only the rows a device has changed, and updates with
// their binary form. It never allocates per row.
package rows

import (
	"slices"

	"github.com/tacit-rec/tacit/vec"
)

// Table is a matrix whose rows are padded with zeros to Stride floats.
type Table struct {
	Rows, Dim, Stride int
	Data              []float32
}

// NewTable returns a table of zeros.
func NewTable(n, dim int) Table {
	stride := vec.Pad(dim)
	return Table{Rows: n, Dim: dim, Stride: stride, Data: make([]float32, n*stride)}
}

// Row returns row i with its padding.
func (t Table) Row(i uint32) []float32 {
	o := int(i) * t.Stride
	return t.Data[o : o+t.Stride : o+t.Stride]
}

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

// Reserve makes room for n more rows of the given stride.
func (o *Overlay) Reserve(n, stride int) {
	o.IDs = slices.Grow(o.IDs, n)
	o.Data = slices.Grow(o.Data, n*stride)
}

// Clone returns a copy that shares nothing.
func (o *Overlay) Clone() Overlay {
	return Overlay{slices.Clone(o.IDs), slices.Clone(o.Data), o.Scale, o.Fade}
}
