package learn

import (
	"github.com/tacit-rec/tacit/method"
)

// Separate returns a term that pushes the batch's rows of slots a and b apart: it adds
// -lambda*mean((a-b)^2), where the mean covers samples and dimensions (Li et al. 2024; the paper
// has a Frobenius norm of the whole table, and the authors' code the mean).
func Separate(a, b int, lambda Schedule) method.Term {
	return method.Term{
		Name: "separate", Weight: lambda.At, Slots: []int{a, b},
		Grad: func(w *method.Work, batch *method.Batch) float64 {
			va, vb, l := &w.View[a], &w.View[b], lambda.At(w)
			c, sum := -2*l/float32(batch.N*va.Slot.Dim), 0.0
			for x, p := range batch.Pos {
				ra, rb := va.Row(batch.Rd[a][x]), vb.Row(batch.Rd[b][x])
				ga, gb := va.GradRow(p), vb.GradRow(p)
				for i := range ra {
					d := ra[i] - rb[i]
					ga[i] += float32(c * d)
					gb[i] -= float32(c * d)
					sum += float64(float64(d) * float64(d))
				}
			}
			return -float64(l) * sum / float64(va.Slot.Dim)
		},
	}
}

// L1 returns a term that keeps the batch's rows of a slot sparse: it adds mu*mean(|row|), where
// the mean covers samples and dimensions. The gradient of |0| is 0.
func L1(slot int, mu Schedule) method.Term {
	return method.Term{
		Name: "l1", Weight: mu.At, Slots: []int{slot},
		Grad: func(w *method.Work, batch *method.Batch) float64 {
			v, m := &w.View[slot], mu.At(w)
			c, sum := m/float32(batch.N*v.Slot.Dim), 0.0
			for x, p := range batch.Pos {
				g := v.GradRow(p)
				for i, r := range v.Row(batch.Rd[slot][x]) {
					switch {
					case r > 0:
						g[i] += c
						sum += float64(r)
					case r < 0:
						g[i] -= c
						sum -= float64(r)
					}
				}
			}
			return float64(m) * sum / float64(v.Slot.Dim)
		},
	}
}

// L2 returns a term that keeps the batch's rows of a slot small: it adds mu*mean(row^2), where
// the mean covers samples and dimensions.
func L2(slot int, mu Schedule) method.Term {
	return method.Term{
		Name: "l2", Weight: mu.At, Slots: []int{slot},
		Grad: func(w *method.Work, batch *method.Batch) float64 {
			v, m := &w.View[slot], mu.At(w)
			c, sum := 2*m/float32(batch.N*v.Slot.Dim), 0.0
			for x, p := range batch.Pos {
				g := v.GradRow(p)
				for i, r := range v.Row(batch.Rd[slot][x]) {
					g[i] += float32(c * r)
					sum += float64(float64(r) * float64(r))
				}
			}
			return float64(m) * sum / float64(v.Slot.Dim)
		},
	}
}
