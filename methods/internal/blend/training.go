package blend

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/sequence"
	"github.com/tacit-rec/tacit/vec"
)

// Logits adds the scores of both parts. Ready has scaled their vectors.
func (m *Tacit) Logits(w *method.Work, b *method.Batch, out []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	more := w.Floats(b.N)
	for k, h := range heads {
		v, to := &w.View[h.Item], out[:b.N]
		if k > 0 {
			to = more
		}
		vec.Dots(v.Arena, v.Stride, b.Rd[h.Item], w.View[h.Vector].Val, 0, to)
	}
	vec.Add(more, out[:b.N])
}

// Visit is the local training of a phase. The newest item is withheld for the choice.
func (m *Tacit) Visit(items int) method.Visit {
	features, s, f := m.features(), m.solver(items), m.frozen(items)
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		if len(w.History) < 2 {
			return
		}
		mark := w.Mark()
		defer w.Release(mark)
		past, newest := w.History[:len(w.History)-1], w.History[len(w.History)-1]
		switch w.Phase {
		case phaseSolve:
			s.visit(w, learn.NewestFirst(w, past))
		case phaseTrain:
			f.Train(w)
		case phaseChoose:
			f.Train(w)
			items := learn.NewestFirst(w, past)
			if len(items) < len(w.Samples.Item) { // otherwise the newest item is not new
				f.ReadHistory(w, past)
				judge(w, s, items, newest, w.View[firstChoice+chooseMerit].Val)
			}
		default:
			features.Visit(w, past, w.Phase)
		}
	}}
}

// Ready solves for the vector and reads the history, and scales both for the chosen blend.
func (m *Tacit) Ready(items int) method.Visit {
	s, f := m.solver(items), m.frozen(items)
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		mark := w.Mark()
		defer w.Release(mark)
		x, share := setting(w.View[firstChoice+chooseChoice].Base[0])
		some := sample(w, 0.5)
		scores := w.Floats(len(some))
		s.solve(w, x, learn.NewestFirst(w, w.History))
		unitScores(w, heads[0], some, scores)
		vec.Scale(1-share, w.View[heads[0].Vector].Val)
		f.ReadHistory(w, w.History)
		unitScores(w, heads[1], some, scores)
		vec.Scale(share, w.View[heads[1].Vector].Val)
	}}
}

// Update gathers the sums of a pass, and applies them when it ends.
func (m *Tacit) Update(g *method.Global) {
	_, first, last := method.PassOf(g.Round, g.Rounds, m.Passes())
	s, f := m.solver(g.Items), m.frozen(g.Items)
	switch g.Phase {
	case phaseSolve:
		s.gather(g)
		if last {
			s.step(g)
		}
	case phaseTrain, phaseChoose:
		f.Step(g, m.rate(g.Round, g.Rounds))
		if last || g.Phase == phaseChoose {
			f.SetTable(g)
		}
		if g.Phase == phaseChoose {
			choose(g, first, last)
		}
	default:
		features := m.features()
		features.Update(g, g.Phase, first, last)
		if last && g.Phase == sequence.FeaturePasses-1 {
			s.begin(g, features.Table(), features.Width(g.Items)/3*2)
			f.Begin(g, g.Value[features.Counts()], g.Stride[features.Counts()])
			f.SetTable(g)
		}
	}
}

// choose gathers the merits of a round, and chooses when the pass ends. Those of an earlier run do not count.
func choose(g *method.Global, first, last bool) {
	merits := g.Value[firstChoice+chooseMerits]
	if first {
		clear(merits)
	}
	vec.Add(g.Aggregate[firstChoice+chooseMerit], merits)
	if last {
		g.Value[firstChoice+chooseChoice][0] = float32(best(merits) + 1)
	}
}

// Updates tells which slots Update changes after a round.
func (m *Tacit) Updates(round, rounds, slot int) bool {
	phase, _ := m.Phase(round, rounds)
	_, _, last := method.PassOf(round, rounds, m.Passes())
	chooses, f := phase == phaseChoose, m.frozen(1)
	switch {
	case phase == phaseTrain || chooses:
		return f.Steps(slot) || slot == f.Head().Item && (last || chooses) ||
			slot == firstChoice+chooseMerits && chooses || slot == firstChoice+chooseChoice && chooses && last
	case phase == phaseSolve:
		return slot >= firstSolve && slot < firstChoice && (last || slot >= firstSolve+solveGrads)
	case slot < firstSolve:
		return m.features().Updates(phase, last, slot)
	}
	return last && phase == sequence.FeaturePasses-1
}

// best returns the setting with the largest merit; of equals, the first.
func best(merit []float32) int {
	out := 0
	for k, x := range merit[:settings] {
		if x > merit[out] {
			out = k
		}
	}
	return out
}

// rate falls linearly to 0 over the training passes.
func (m *Tacit) rate(round, rounds int) float64 {
	from, _ := method.PassRounds(sequence.FeaturePasses+m.Solves, rounds, m.Passes())
	return m.LR * (1 - float64(round-from)/float64(max(rounds-from, 1)))
}
