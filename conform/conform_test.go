package conform

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// Each method below breaks one rule of the contract. The suite must catch every one.

// frozen never learns.
type frozen struct{ methods.FedMF }

func (m *frozen) Visit(int) method.Visit {
	return method.Visit{Run: func(*method.Work) {}}
}

// wrong has a gradient that is off by a tenth.
type wrong struct{ methods.FedMF }

func (m *wrong) Back(w *method.Work, b *method.Batch, dz []float32) {
	m.FedMF.Back(w, b, dz)
	for i := range w.View[0].GradRows {
		w.View[0].GradRows[i] *= 1.1
	}
}

// greedy allocates in every local training.
type greedy struct {
	methods.FedMF
	sink []byte
}

func (m *greedy) Visit(items int) method.Visit {
	v := m.FedMF.Visit(items)
	run := v.Run
	v.Run = func(w *method.Work) { m.sink = make([]byte, 64); run(w) }
	return v
}

// hidden keeps state outside its slots, so that order and resumption matter.
type hidden struct {
	methods.FedMF
	n atomic.Int64
}

func (m *hidden) Visit(items int) method.Visit {
	v := m.FedMF.Visit(items)
	run := v.Run
	v.Run = func(w *method.Work) { w.View[2].Val[0] += float32(m.n.Add(1)) * 1e-3; run(w) }
	return v
}

// leaky writes its private bias directly into the shared table.
type leaky struct{ methods.FedMF }

func (m *leaky) Visit(items int) method.Visit {
	v := m.FedMF.Visit(items)
	run := v.Run
	v.Run = func(w *method.Work) { run(w); w.View[0].Arena[0] = w.View[2].Val[0] }
	return v
}

// sloppy adds to the sums of items that it has not touched, which would leak into another
// device's update.
type sloppy struct{ methods.FedMF }

func (m *sloppy) Visit(items int) method.Visit {
	v := m.FedMF.Visit(items)
	run := v.Run
	v.Run = func(w *method.Work) {
		run(w)
		for _, r := range w.Samples.Wr[0] {
			w.View[0].Row(r ^ 1)[0]++
		}
	}
	return v
}

// lopsided scores lists and catalogues differently.
type lopsided struct{ methods.Local }

func (m *lopsided) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.Local.Logits(w, b, out)
	out[b.N-1]++
}

// misspelt has a misspelt Phase method, which would never be called.
type misspelt struct{ methods.FedMF }

func (m *misspelt) Phas(round, _ int) (int, string) { return round % 2, "half" }

// mistyped has a server step with a wrong signature.
type mistyped struct{ methods.FedMF }

func (m *mistyped) PostUpdate(int) {}

// regularised is FedMF with a loss term on its item rows. Tests break the term.
type regularised struct {
	methods.FedMF
	term  method.Term
	build func(data method.Oracle, term method.Term) method.Oracle
}

func (m *regularised) Visit(int) method.Visit {
	rate := learn.Const(0.1)
	return learn.Epochs(1, 0, learn.Descend(m.build(learn.BCE(m), m.term),
		learn.SGD(learn.ItemSlot, rate, 0), learn.SGD(learn.UserSlot, rate, 0)))
}

// flipped returns a term whose gradient has the wrong sign.
func flipped(t method.Term) method.Term {
	grad := t.Grad
	t.Grad = func(w *method.Work, b *method.Batch) float64 {
		before := append([]float32(nil), w.View[learn.ItemSlot].GradRows...)
		value := grad(w, b)
		for k, g := range w.View[learn.ItemSlot].GradRows {
			w.View[learn.ItemSlot].GradRows[k] = 2*before[k] - g
		}
		return value
	}
	return t
}

// silent returns a term that does nothing.
func silent(t method.Term) method.Term {
	t.Grad = func(*method.Work, *method.Batch) float64 { return 0 }
	return t
}

// forgetful returns a sum of terms that omits the last one.
func forgetful(data method.Oracle, term method.Term) method.Oracle {
	o := learn.WithTerms(data, term)
	o.Grad = data.Grad
	return o
}

func whole(data method.Oracle, term method.Term) method.Oracle { return learn.WithTerms(data, term) }

func TestBrokenLossTermsAreCaught(t *testing.T) {
	weight := learn.Const(0.1)
	terms := map[string]method.Term{
		"l1": learn.L1(learn.ItemSlot, weight),
		"l2": learn.L2(learn.ItemSlot, weight),
	}
	for name, term := range terms {
		for _, c := range []struct {
			name   string
			broken bool
			m      regularised
		}{
			{"unchanged", false, regularised{term: term, build: whole}},
			{"with a flipped sign", true, regularised{term: flipped(term), build: whole}},
			{"without effect", true, regularised{term: silent(term), build: whole}},
			{"left out of the sum", true, regularised{term: term, build: forgetful}},
		} {
			err := try("GradientOfEveryLossTermIsTheFiniteDifference", func() method.Method {
				m := c.m
				param.Defaults(&m)
				return &m
			})
			if (err != nil) != c.broken {
				t.Errorf("%s %s: %v", name, c.name, err)
			}
		}
	}
}

func TestBrokenMethodsAreCaught(t *testing.T) {
	for _, c := range []struct {
		check string
		build Build
	}{
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &misspelt{} }},
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &mistyped{} }},
		{"FindsTheHeldOutItem", func() method.Method { return &frozen{} }},
		{"GradientIsTheFiniteDifference", func() method.Method { return &wrong{} }},
		{"LocalTrainingDoesNotAllocate", func() method.Method { return &greedy{} }},
		{"ResumesWithTheSameBits", func() method.Method { return &hidden{} }},
		{"ScoreAndScoreAllAgree", func() method.Method { return &lopsided{} }},
		{"PrivateSlotsStayOnTheDevice", func() method.Method { return &leaky{} }},
		{"TheRoundsSumEqualsTheSumOfDeltas", func() method.Method { return &hidden{} }},
		{"SameBitsUnderPrivacy", func() method.Method { return &hidden{} }},
		{"NoUpdateExceedsItsSensitivity", func() method.Method { return &sloppy{} }},
	} {
		err := try(c.check, func() method.Method {
			m := c.build()
			param.Defaults(m)
			return m
		})
		if no := doesNotApply(""); err == nil || errors.As(err, &no) {
			t.Errorf("%s accepts a broken method (%v)", c.check, err)
		}
	}
}

func try(name string, build Build) error {
	for _, c := range checks {
		if c.name == name {
			return c.run(build)
		}
	}
	panic("unknown check " + strings.TrimSpace(name))
}
