package conform

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// Each of these breaks one promise. A suite that lets one pass is worth nothing.

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

// greedy allocates in every visit.
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

// leaky writes its private bias into the shared table, past the update.
type leaky struct{ methods.FedMF }

func (m *leaky) Visit(items int) method.Visit {
	v := m.FedMF.Visit(items)
	run := v.Run
	v.Run = func(w *method.Work) { run(w); w.View[0].Arena[0] = w.View[2].Val[0] }
	return v
}

// sloppy adds to the sums of an item that it has not touched: the update of another
// device would hold it.
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

// misspelt has a phase that nothing would ask for.
type misspelt struct{ methods.FedMF }

func (m *misspelt) Phas(round, _ int) (int, string) { return round % 2, "half" }

// mistyped has a server step with another signature.
type mistyped struct{ methods.FedMF }

func (m *mistyped) PostUpdate(int) {}

func TestBrokenMethodsAreCaught(t *testing.T) {
	for _, c := range []struct {
		check string
		build Build
	}{
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &misspelt{} }},
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &mistyped{} }},
		{"FindsTheWithheldItem", func() method.Method { return &frozen{} }},
		{"GradientIsTheFiniteDifference", func() method.Method { return &wrong{} }},
		{"VisitsDoNotAllocate", func() method.Method { return &greedy{} }},
		{"ResumesWithTheSameBits", func() method.Method { return &hidden{} }},
		{"ScoresOneByOneAndAllAtOnceAlike", func() method.Method { return &lopsided{} }},
		{"PrivateSlotsStayHome", func() method.Method { return &leaky{} }},
		{"TheSumOfUpdatesIsTheRound", func() method.Method { return &hidden{} }},
		{"SameBitsUnderPrivacy", func() method.Method { return &hidden{} }},
		{"NoUpdateIsLongerThanItsBound", func() method.Method { return &sloppy{} }},
	} {
		err := try(c.check, func() method.Method {
			m := c.build()
			param.Defaults(m)
			return m
		})
		if no := doesNotApply(""); err == nil || errors.As(err, &no) {
			t.Errorf("%s lets a broken method pass (%v)", c.check, err)
		}
	}
}

func try(name string, build Build) error {
	for _, c := range checks {
		if c.name == name {
			return c.run(build)
		}
	}
	panic("no check " + strings.TrimSpace(name))
}
