package private

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// TacitPrivate is Tacit's method for differential privacy: OneShot and NormGrad, which
// share the budget. OneShot ranks items close to the history best; NormGrad covers items
// outside the head. A device scales both scores to a standard deviation of 1 and blends
// them locally. The parts are based on Dwork et al. (2014) and McMahan et al. (2018).
type TacitPrivate struct {
	OneShot
	NormGrad
	Blend     float64 `default:"0.5" min:"0" max:"1" range:"0.2..0.8" doc:"weight of the one-shot part in a score"`
	GradShare float64 `default:"0.5" min:">0" max:"<1" range:"0.2..0.8" doc:"fraction of the privacy budget for the gradients"`
	Below     float64 `default:"1" min:"0" range:"0..3" doc:"standard deviations below the head's mean at which the one-shot part ranks other items"`
}

var (
	_ method.Headed         = (*TacitPrivate)(nil)
	_ method.Ready          = (*TacitPrivate)(nil)
	_ method.Updater        = (*TacitPrivate)(nil)
	_ method.PhasedSlots    = (*TacitPrivate)(nil)
	_ method.BudgetWeighter = (*TacitPrivate)(nil)
	_ method.FinalRound     = (*TacitPrivate)(nil)
	_ method.Checker        = (*TacitPrivate)(nil)
)

func (m *TacitPrivate) Slots(items int) []method.Slot {
	return append(m.OneShot.Slots(items), m.NormGrad.slots(oneSlots)...)
}

func (m *TacitPrivate) Head() *method.Head { return nil }

func (m *TacitPrivate) Logits(w *method.Work, b *method.Batch, out []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	v, more := w.View[oneSlots:], w.Floats(b.N)
	m.OneShot.Logits(w, b, out)
	vec.Dots(v[ngItem].Arena, v[ngItem].Stride, b.Rd[oneSlots+ngItem], v[ngUser].Val, 0, more)
	vec.Add(more, out[:b.N])
}

func (m *TacitPrivate) Phase(round, rounds int) (int, string) {
	if round > 1 {
		return 2, "descend"
	}
	return m.OneShot.Phase(round, rounds)
}

func (m *TacitPrivate) Transfers(phase, slot int) bool {
	if slot < oneSlots {
		return m.OneShot.Transfers(phase, slot)
	}
	return phase == 2
}

// BudgetWeight splits the budget between the parts. If one part has no rounds, the other
// gets the whole budget.
func (m *TacitPrivate) BudgetWeight(round, rounds int) float64 {
	if round < 2 {
		return m.OneShot.BudgetWeight(round, min(rounds, 2)) * (1 - m.GradShare)
	}
	return m.GradShare / float64(rounds-2)
}

func (m *TacitPrivate) Visit(int) method.Visit {
	return method.Visit{Run: func(w *method.Work) {
		if w.Phase == 2 {
			m.send(w, w.View[oneSlots:])
			return
		}
		m.visit(w)
	}}
}

func (m *TacitPrivate) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		v := w.View[oneSlots:]
		m.serve(w, m.Below)
		m.solve(w, v, w.History, m.recency())
		learn.StandardiseScores(&v[ngItem], v[ngUser].Val, w.Floats(w.Items))
		vec.Scale(float32(m.Blend), w.View[oneUser].Val)
		vec.Scale(float32(1-m.Blend), v[ngUser].Val)
	}}
}

func (m *TacitPrivate) Update(g *method.Global) {
	if g.Phase == 2 {
		m.step(g, oneSlots)
		return
	}
	m.OneShot.Update(g)
}

func (m *TacitPrivate) Check() error { return m.NormGrad.Check() }
