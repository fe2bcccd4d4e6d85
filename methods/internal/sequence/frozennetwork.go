package sequence

import "github.com/tacit-rec/tacit/method"

// network turns the projected rows of a history, oldest first, into one state per position. The
// state of a position depends on that row and older ones only. Rows of x, z and their gradients
// are vec.Pad(width) floats apart, and their padding is 0. A network keeps no state: what back
// needs is in a Workspace.
type network interface {
	// slots returns plain Shared slots that upload their Gradient. In the calls below, first is
	// the index of the first of them.
	slots() []method.Slot
	// forward reads n rows of x and writes n rows of z. If keep is below 1, dropout keeps that
	// fraction of the hidden layers. x must not change until back.
	forward(w *method.Work, first, n int, x []float32, keep float32, z []float32)
	// back follows forward of the same rows. It adds to View.Grad of the slots, sets dx, and may
	// overwrite dz.
	back(w *method.Work, first, n int, dz, dx []float32)
	// newest is forward without dropout for the newest position only: it writes one row of z.
	// back cannot follow it.
	newest(w *method.Work, first, n int, x, z []float32)
}
