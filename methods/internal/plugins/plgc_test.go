package plugins

import (
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/conform"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/closed"
	"github.com/tacit-rec/tacit/methods/internal/factorisation"
	"github.com/tacit-rec/tacit/methods/internal/testworld"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/vec"
)

// registry returns a registry with the plug-ins and some methods.
func registry(t *testing.T) *method.Registry {
	t.Helper()
	r := &method.Registry{}
	for name, build := range map[string]func() method.Method{
		"fedmf":    func() method.Method { return &factorisation.FedMF{} },
		"fedncf":   func() method.Method { return &factorisation.FedNCF{} },
		"fedrecon": func() method.Method { return &factorisation.FedRecon{} },
		"pfedrec":  func() method.Method { return &factorisation.PFedRec{} },
		"fedrap":   func() method.Method { return &factorisation.FedRAP{} },
		"mf":       func() method.Method { return &factorisation.MF{} },
		"fcf":      func() method.Method { return &closed.FCF{} },
		"local":    func() method.Method { return &factorisation.Local{} },
	} {
		if err := r.Add(method.Entry{Name: name, New: build}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.AddPlugin(method.Plugin{Name: "dualper", On: NewDualPer}); err != nil {
		t.Fatal(err)
	}
	if err := r.AddPlugin(method.Plugin{Name: "plgc", On: NewPLGC}); err != nil {
		t.Fatal(err)
	}
	return r
}

// made builds a method from "method key=value ...".
func made(t *testing.T, words string) method.Method {
	t.Helper()
	f := strings.Fields(words)
	e, err := registry(t).Lookup(f[0])
	if err != nil {
		t.Fatal(err)
	}
	return testworld.Set(t, e.Build(), f[1:]...)
}

func alike(t *testing.T, a, b string, plain bool) {
	t.Helper()
	_, pa, va := testworld.Trained(t, made(t, a), plain)
	_, pb, vb := testworld.Trained(t, made(t, b), plain)
	if !slices.Equal(pa, pb) || !slices.Equal(va, vb) {
		t.Errorf("%q and %q do not end with the same bits", a, b)
	}
}

func TestPLGCWithoutWeightsIsItsBase(t *testing.T) {
	for _, base := range []string{"fedmf", "pfedrec", "fedncf", "fedmf+dualper"} {
		alike(t, base+"+plgc ntk=none decor=0", base, false)
	}
	alike(t, "fedrap+plgc ntk=none decor=0", "fedrap", true) // a wrapped FedRAP uses no fused step
	// With all weight on the own rows it equals the base too, without fused steps.
	for _, base := range []string{"fedmf", "pfedrec", "fedncf"} {
		alike(t, base+"+plgc ntk=fixed ntk-start=1 decor=0 serve=base", base, true)
	}
}

func TestPLGCAndDualPerFitInEitherOrder(t *testing.T) {
	alike(t, "fedmf+dualper+plgc", "fedmf+plgc+dualper", false)
	alike(t, "fedncf+dualper+plgc", "fedncf+plgc+dualper", false)
	alike(t, "fedmf+dualper+plgc", "pfedrec+plgc", false)
	for name, want := range map[string]string{
		"fedmf+plgc+plgc": "plgc fits fedmf, fedncf, pfedrec and fedrap, once", "fedrecon+plgc": "plgc fits",
		"fcf+plgc": "plgc fits", "mf+plgc": "plgc fits",
		"local+plgc": "plgc fits", "fedrecon+dualper+plgc": "plgc fits", "pfedrec+plgc+dualper": "dualper fits",
		"fedmf+dualper+plgc+dualper": "dualper fits",
		"fedrap+dualper":             "dualper fits",
	} {
		if _, err := registry(t).Lookup(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestPLGCConforms(t *testing.T) {
	for _, words := range []string{
		"fedmf+plgc",
		"pfedrec+plgc ntk=lmax ntk-center=true decor-view=mixed",
		"pfedrec+plgc ntk=residual ntk-running=ema decor-view=self decay=0.00001",
		"fedncf+plgc lr=0.5 user-eta=20 serve=base",
		"fedncf+plgc+dualper lr=0.5 ntk-running=none",
		"fedmf+plgc ntk-scope=item epochs=2 eta=40",
		"fedmf+plgc ntk=none",
		"fedrap+plgc lambda=0 mu=0",
		"fedrap+plgc tables=shared lambda=0 mu=0",
	} {
		t.Run(words, func(t *testing.T) { conform.Method(t, func() method.Method { return made(t, words) }) })
	}
}

func TestPLGCWeightStaysOnTheDevice(t *testing.T) {
	r, _, _ := testworld.Trained(t, made(t, "fedmf+plgc"), false)
	found := false
	for _, s := range r.Slots() {
		if s.Name == balance {
			found = s.Scope == method.Private
		}
	}
	if !found {
		t.Error("the slot of the weight is not private")
	}
}

func TestPLGCsRunningWeights(t *testing.T) {
	// The moving average starts as a mean.
	for running, want := range map[string]float32{"mean": 0.7, "none": 0.9, "ema": 0.7} {
		m := &PLGC{NTKRunning: running}
		s := make([]float32, 8)
		m.update(s, 0.5)
		m.update(s, 0.7)
		m.update(s, 0.9)
		if d := s[0] - want; d > 1e-6 || d < -1e-6 || s[1] != 3 {
			t.Errorf("%s of 0.5, 0.7, 0.9 is %g after %g, want %g", running, s[0], s[1], want)
		}
	}
}

// additive adds the rows of two item tables, as FedRAP does.
type additive struct{ factorisation.FedMF }

const addOwn = 3

func (m *additive) Slots(int) []method.Slot {
	s := m.FedMF.Slots(0)
	own := s[learn.ItemSlot]
	own.Name, own.Scope, own.Init = "own", method.Private, method.Init{Kind: method.Normal, A: 0.1}
	return append(s, own)
}

func (m *additive) Head() *method.Head { return nil }
func (m *additive) ItemTables() (learn.Blend, error) {
	return learn.Blend{Own: addOwn, Frozen: learn.ItemSlot}, nil
}

func (m *additive) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.FedMF.Logits(w, b, out)
	for x, r := range b.Rd[addOwn] {
		out[x] += vec.Dot(w.View[addOwn].Row(r), w.View[learn.UserSlot].Val)
	}
}

func (m *additive) Back(w *method.Work, b *method.Batch, dz []float32) {
	m.FedMF.Back(w, b, dz)
	own := &w.View[addOwn]
	vec.WSum(own.Arena, own.Stride, b.Rd[addOwn], dz, w.View[learn.UserSlot].Grad)
	vec.Spread(own.GradRows, own.Stride, b.Pos, dz, w.View[learn.UserSlot].Val)
}
func (m *additive) Visit(items int) method.Visit { return m.PluggedVisit(m, items, learn.Plug{}) }

func (m *additive) PluggedVisit(of method.Learner, items int, p learn.Plug) method.Visit {
	row := m.LR
	row.V *= float32(items) * m.Eta
	step := learn.Descend(learn.BCE(of), learn.SGD(learn.UserSlot, m.LR, 0), learn.SGD(learn.LayerSlot, m.LR, 0),
		learn.SGD(learn.ItemSlot, row, 0), learn.SGD(addOwn, learn.Const(1), 0))
	steps := append([]method.Step{step}, p.After...)
	return learn.Epochs(1, 0, learn.Alternate(steps...))
}

func TestPLGCFitsTwoTables(t *testing.T) {
	conform.Method(t, func() method.Method {
		m, err := NewPLGC(&additive{})
		if err != nil {
			t.Fatal(err)
		}
		param.Defaults(m)
		return m
	})
}
