package plugins

import "github.com/tacit-rec/tacit/method"

// balance is the name of the slot in which PLGC (Shen et al. 2025) keeps the weight of a
// device's own rows; its index depends on the base's slots.
const balance = "balance"

func balanceOf(w *method.Work) []float32 {
	for i := range w.View {
		if w.View[i].Slot.Name == balance {
			return w.View[i].Val
		}
	}
	return nil
}

// update adds a measurement to the running weight.
func (m *PLGC) update(s []float32, share float32) {
	s[1]++
	part := 1 / s[1] // the newest measurement's part of the mean
	if m.NTKRunning == "none" {
		part = 1
	} else if m.NTKRunning == "ema" {
		part = max(part, 0.1)
	}
	s[0] += float32(part * (share - s[0]))
}
