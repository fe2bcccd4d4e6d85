package learn

import (
	"math"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Neighbourhood is a group of slots that SAM perturbs together, by a distance of Rho.
type Neighbourhood struct {
	Rho   Schedule
	Slots []int
}

// SAM returns an oracle for sharpness-aware minimisation (Foret et al. 2021), applied to groups
// of slots as in Phan et al. (2022). Let g_k be the part of the gradient g that belongs to group
// k. The group's gradient becomes the one at the point where only this group is moved by
// rho*g_k/(|g_k| + 1e-12), the direction in which the loss grows fastest. The norm covers all
// slots of the group; rows that several samples share contribute the sum of their gradients.
// Groups must not overlap. Slots outside all groups, and groups with a rho of 0, keep g. If
// every rho is 0, SAM computes the same as o at the same cost.
//
// Only the batch's rows of a table are perturbed, and SAM restores every value exactly. The
// gradients must be zero at the start, as Descend leaves them. The returned loss is the loss at
// the unperturbed point.
func SAM(o method.Oracle, groups ...Neighbourhood) method.Oracle {
	s := sam{o, groups, make([]uint64, len(groups))}
	for k, g := range groups {
		for _, i := range g.Slots {
			s.masks[k] |= 1 << i
		}
	}
	o.HeadLoss, o.Elsewhere, o.Grad = nil, true, s.grad
	return o
}

type sam struct {
	method.Oracle
	groups []Neighbourhood
	masks  []uint64
}

func (s sam) grad(w *method.Work, b *method.Batch) float64 {
	read := w.RestrictGrads(^uint64(0))
	sharp := uint64(0)
	for k, g := range s.groups {
		if g.Rho.At(w) != 0 {
			sharp |= s.masks[k]
		}
	}
	w.RestrictGrads(read | sharp)
	loss := s.Oracle.Grad(w, b)
	if w.RestrictGrads(read); sharp == 0 {
		return loss
	}
	wantedLoss := w.WantLoss
	w.WantLoss = false
	// kept holds the gradients that are read, with each group contiguous; saved holds the values
	// of one group.
	n, most := size(w, b, read|sharp), size(w, b, sharp)
	mark := w.Mark()
	defer w.Release(mark)
	kept, saved := w.Floats(n), w.Floats(most)
	at := walk(w, b, read&^sharp, keepGrad, 0, kept)
	for k, g := range s.groups {
		if g.Rho.At(w) != 0 {
			at += walk(w, b, s.masks[k], keepGrad, 0, kept[at:])
		}
	}
	at = size(w, b, read&^sharp)
	for k, g := range s.groups {
		if rho := g.Rho.At(w); rho != 0 {
			w.ClearGrads(b)
			at += s.beside(w, b, s.masks[k], rho, kept[at:], saved)
		}
	}
	w.ClearGrads(b)
	at = walk(w, b, read&^sharp, backGrad, 0, kept)
	for k, g := range s.groups {
		if g.Rho.At(w) != 0 {
			at += walk(w, b, s.masks[k], backGrad, 0, kept[at:])
		}
	}
	w.WantLoss = wantedLoss
	return loss
}

// beside replaces the gradient of a group at the start of kept by the gradient at the perturbed
// point, and returns its length.
func (s sam) beside(w *method.Work, b *method.Batch, group uint64, rho float32, kept, saved []float32) int {
	n := walk(w, b, group, keepValue, 0, saved)
	walk(w, b, group, push, float32(float64(rho)/(math.Sqrt(vec.SumSquares(kept[:n]))+1e-12)), kept)
	before := w.RestrictGrads(group)
	s.Oracle.Grad(w, b)
	w.RestrictGrads(before)
	walk(w, b, group, backValue, 0, saved)
	return walk(w, b, group, keepGrad, 0, kept)
}

// Callbacks for walk: copy values or gradients from or to the flat list, or move the values
// along it.
func keepGrad(_ float32, _, grad, flat []float32) { copy(flat, grad) }
func backGrad(_ float32, _, grad, flat []float32) { copy(grad, flat) }
func keepValue(_ float32, val, _, flat []float32) { copy(flat, val) }
func backValue(_ float32, val, _, flat []float32) { copy(val, flat) }
func push(s float32, val, _, flat []float32)      { vec.Axpy(s, flat, val) }

// walk calls do for each slot of the mask in order, and for each of the batch's rows if the slot
// is a table, with the corresponding section of flat. It returns the number of floats used.
func walk(w *method.Work, b *method.Batch, slots uint64, do func(s float32, val, grad, flat []float32), s float32,
	flat []float32,
) int {
	at := 0
	for i := range w.View {
		v := &w.View[i]
		switch {
		case slots>>i&1 == 0:
		case v.GradRows != nil:
			for _, p := range b.Rows {
				do(s, v.Row(v.Local+p), v.GradRow(p), flat[at:at+v.Stride])
				at += v.Stride
			}
		case v.Grad != nil:
			do(s, v.Val, v.Grad, flat[at:at+len(v.Val)])
			at += len(v.Val)
		}
	}
	return at
}

// size returns the number of floats that walk uses.
func size(w *method.Work, b *method.Batch, slots uint64) int {
	n := 0
	for i := range w.View {
		v := &w.View[i]
		switch {
		case slots>>i&1 == 0:
		case v.GradRows != nil:
			n += len(b.Rows) * v.Stride
		case v.Grad != nil:
			n += len(v.Val)
		}
	}
	return n
}
