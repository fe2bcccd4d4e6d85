// Package rows holds what travels and what stays: updates with their binary form,
// and overlays that remember only the rows a device has ever written.
package rows

import "github.com/tacit-rec/tacit/vec"

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
