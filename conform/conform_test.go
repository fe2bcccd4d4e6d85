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

// scribbles changes the Gram matrix that all devices read.
type scribbles struct{ methods.IALS }

func (m *scribbles) Ready(items int) method.Visit {
	v := m.IALS.Ready(items)
	run := v.Run
	v.Run = func(w *method.Work) { run(w); w.View[1].Val[0]++ }
	return v
}

// understates does not declare the slots that its server step changes.
type understates struct{ methods.IALS }

func (m *understates) Updates(round, _, slot int) bool { return round < 2 || slot != 0 }

// misspelt has a misspelt Phase method, which would never be called.
type misspelt struct{ methods.FedMF }

func (m *misspelt) Phas(round, _ int) (int, string) { return round % 2, "half" }

// mistyped has a server step with a wrong signature.
type mistyped struct{ methods.FedMF }

func (m *mistyped) PostUpdate(int) {}

// swappedPhase, swappedUpdate and swappedCheck have two letters of a name swapped.
type swappedPhase struct{ methods.FedMF }

func (m *swappedPhase) Phaes(int, int) (int, string) { return 0, "x" }

type swappedUpdate struct{ methods.FedMF }

func (m *swappedUpdate) Udpate(*method.Global) {}

type swappedCheck struct{ methods.FedMF }

func (m *swappedCheck) Cehck() error { return nil }

// otherWord has a wrong word in the name of ReportsFinalRound.
type otherWord struct{ methods.FedMF }

func (m *otherWord) ReportsLastRound() bool { return true }

// longer has a word too many in the name of Transfers.
type longer struct{ methods.FedMF }

func (m *longer) TransfersSlot(int, int) bool { return true }

// transfersOnly has no Phase, so it is not a PhasedSlots and Transfers is never called.
type transfersOnly struct{ methods.FedMF }

func (m *transfersOnly) Transfers(int, int) bool { return false }

// weighsOnly has no Phase, so it is not a BudgetWeighter.
type weighsOnly struct{ methods.FedMF }

func (m *weighsOnly) BudgetWeight(int, int) float64 { return 1 }

// bindsMisspelt is bound to a method that is misspelt.
type bindsMisspelt struct{ methods.FedMF }

func (m *bindsMisspelt) Bind(*method.Features) (method.Method, error) { return &misspelt{m.FedMF}, nil }

// keepsItems stores the size of the catalogue in the method.
type keepsItems struct {
	methods.FedMF
	items int
}

func (m *keepsItems) Slots(items int) []method.Slot {
	m.items = items
	return m.FedMF.Slots(items)
}

// keepsFeatures stores the features in the method that Bind is called on.
type keepsFeatures struct {
	methods.FedMF
	features *method.Features
}

func (m *keepsFeatures) Bind(f *method.Features) (method.Method, error) {
	m.features = f
	return m, nil
}

// countsWhenBound is bound to a method that counts devices.
type countsWhenBound struct{ methods.FedMF }

func (m *countsWhenBound) Bind(*method.Features) (method.Method, error) {
	return &hidden{FedMF: m.FedMF}, nil
}

// keepsFirst keeps the slots of the first catalogue outside the method, where a snapshot does not
// see them.
type keepsFirst struct {
	methods.FedMF
	slots func(items int) []method.Slot
}

func newKeepsFirst() *keepsFirst {
	first := 0
	return &keepsFirst{slots: func(items int) []method.Slot {
		if first == 0 {
			first = items
		}
		return []method.Slot{{Name: "x", Rows: first, Dim: 1}}
	}}
}

func (m *keepsFirst) Slots(items int) []method.Slot {
	return append(m.FedMF.Slots(items), m.slots(items)...)
}

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

// lossOnly returns a sum of terms that has the value of the last one but not its gradient.
func lossOnly(data method.Oracle, term method.Term) method.Oracle {
	o := learn.WithTerms(data, term)
	o.Grad = func(w *method.Work, b *method.Batch) float64 {
		value := term.Grad(w, b)
		w.ClearGrads(b)
		return value + data.Grad(w, b)
	}
	return o
}

func whole(data method.Oracle, term method.Term) method.Oracle { return learn.WithTerms(data, term) }

// declares returns a term that declares other slots than it has.
func declares(t method.Term, slots ...int) method.Term {
	t.Slots = append([]int{}, slots...)
	return t
}

// unweighted returns a term that declares a weight of 0.
func unweighted(t method.Term) method.Term {
	t.Weight = func(*method.Work) float32 { return 0 }
	return t
}

// undeclared returns an oracle that has a term without declaring it.
func undeclared(data method.Oracle, term method.Term) method.Oracle {
	o := learn.WithTerms(data, term)
	o.Terms = data.Terms
	o.Elsewhere = true
	return o
}

// silentOracles is a Learner that does not declare its losses.
type silentOracles struct{ methods.FedMF }

func (m *silentOracles) Visit(items int) method.Visit {
	v := m.FedMF.Visit(items)
	v.Oracles = nil
	return v
}

// optionalTerm is a method with a term that a parameter turns on. By default it is off.
type optionalTerm struct {
	methods.FedMF
	Strength float32 `default:"0" min:"0" doc:"weight of the term"`
	Kind     string  `default:"none" choices:"none|l2" doc:"the term"`
	broken   func(method.Term) method.Term
}

func (m *optionalTerm) Visit(int) method.Visit {
	weight := learn.Const(0)
	if m.Kind == "l2" {
		weight = learn.Const(m.Strength)
	}
	rate := learn.Const(0.1)
	return learn.Epochs(1, 0, learn.Descend(whole(learn.BCE(m), m.broken(learn.L2(learn.ItemSlot, weight))),
		learn.SGD(learn.ItemSlot, rate, 0), learn.SGD(learn.UserSlot, rate, 0)))
}

func TestTermsThatAreOffByDefaultAreChecked(t *testing.T) {
	intact := func(t method.Term) method.Term { return t }
	for _, c := range []struct {
		name   string
		broken func(method.Term) method.Term
		want   string
	}{
		{"intact", intact, ""},
		{"with a flipped sign", flipped, "finite difference"},
		{"without effect", silent, "must be finite and above 0"},
	} {
		err := try("GradientOfEveryLossTermIsTheFiniteDifference", func() method.Method {
			m := &optionalTerm{broken: c.broken}
			param.Defaults(m)
			return m
		})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.want)
		}
	}
}

func TestTypingErrors(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "ab", 2},
		{"Phase", "Phase", 0},
		{"Phaes", "Phase", 1},
		{"Phas", "Phase", 1},
		{"Udpate", "Update", 1},
		{"Udpatee", "Update", 2},
		{"Base", "Phase", 2},
		{"Head", "Bind", 3},
	} {
		if got := typingErrors(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %d, expected %d", c.a, c.b, got, c.want)
		}
		if got := typingErrors(c.b, c.a); got != c.want {
			t.Errorf("%q and %q: %d, expected %d", c.b, c.a, got, c.want)
		}
	}
}

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
			{"left out of the gradient", true, regularised{term: term, build: lossOnly}},
			{"with no declared slots", true, regularised{term: declares(term), build: whole}},
			{"with another declared slot", true, regularised{term: declares(term, learn.UserSlot), build: whole}},
			{"with weight 0 and an effect", true, regularised{term: unweighted(term), build: whole}},
			{"with weight 0 and no effect", true, regularised{term: unweighted(silent(term)), build: whole}},
			{"not declared", true, regularised{term: term, build: undeclared}},
		} {
			err := try("GradientOfEveryLossTermIsTheFiniteDifference", func() method.Method {
				m := c.m
				param.Defaults(&m)
				return &m
			})
			if (err != nil) != c.broken {
				t.Errorf("%s %s: %v", name, c.name, err)
			} else {
				t.Logf("%s %s: %v", name, c.name, err)
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
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &swappedPhase{} }},
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &swappedUpdate{} }},
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &swappedCheck{} }},
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &otherWord{} }},
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &longer{} }},
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &transfersOnly{} }},
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &weighsOnly{} }},
		{"OptionalMethodsAreSpeltRight", func() method.Method { return &bindsMisspelt{} }},
		{"MethodsKeepNoState", func() method.Method { return &keepsItems{} }},
		{"MethodsKeepNoState", func() method.Method { return &keepsFeatures{} }},
		{"MethodsKeepNoState", func() method.Method { return &countsWhenBound{} }},
		{"MethodsKeepNoState", func() method.Method { return newKeepsFirst() }},
		{"MethodsKeepNoState", func() method.Method { return &hidden{} }},
		{"GradientOfEveryLossTermIsTheFiniteDifference", func() method.Method { return &silentOracles{} }},
		{"FindsTheHeldOutItem", func() method.Method { return &frozen{} }},
		{"GradientIsTheFiniteDifference", func() method.Method { return &wrong{} }},
		{"LocalTrainingDoesNotAllocate", func() method.Method { return &greedy{} }},
		{"DevicesDoNotWriteToBroadcastSlots", func() method.Method { return &scribbles{} }},
		{"ServerStepsChangeOnlyDeclaredSlots", func() method.Method { return &understates{} }},
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
			t.Errorf("%s accepts %T (%v)", c.check, c.build(), err)
		} else {
			t.Logf("%T: %v", c.build(), err)
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
