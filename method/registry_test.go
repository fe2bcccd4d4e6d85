package method_test

import (
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/method"
)

// empty is a method that does nothing.
type empty struct {
	Rate float64 `default:"0.5" doc:"a rate"`
}

func (*empty) Slots(int) []method.Slot { return nil }

func (*empty) Visit(int) method.Visit { return method.Visit{} }

func (*empty) Logits(*method.Work, *method.Batch, []float32) {}

func newEmpty() method.Method { return &empty{} }

func registryOf(t *testing.T, names ...string) *method.Registry {
	t.Helper()
	r := &method.Registry{}
	for _, name := range names {
		if err := r.Add(method.Entry{Name: name, Title: name, New: newEmpty}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestLookupFindsMethodsAndPlugins(t *testing.T) {
	r := registryOf(t, "first", "second")
	on := func(base method.Method) (method.Method, error) { return base, nil }
	if err := r.AddPlugin(method.Plugin{Name: "twist", Title: "Twist", On: on}); err != nil {
		t.Fatal(err)
	}
	e, err := r.Lookup("second+twist")
	if err != nil {
		t.Fatal(err)
	}
	if e.Name != "second+twist" || e.Build().(*empty).Rate != 0.5 {
		t.Errorf("got entry %q with %+v", e.Name, e.Build())
	}
	if n := len(r.Composed()); n != 2 {
		t.Errorf("%d composed methods, expected 2", n)
	}
}

func TestCloneKeepsParameters(t *testing.T) {
	r := registryOf(t, "first")
	e := r.Entries()[0]
	if got := e.Clone(&empty{Rate: 3}).(*empty); got.Rate != 3 {
		t.Errorf("rate = %g after Clone, expected 3", got.Rate)
	}
}

func TestLookupSuggestsTheNearestName(t *testing.T) {
	r := registryOf(t, "fedmf", "pfedrec")
	for name, part := range map[string]string{
		"fedfm":    `did you mean "fedmf"?`,
		"zzzzzzzz": "known: fedmf, pfedrec",
		"fedmf+":   "invalid method name",
		"fedmf+x":  `unknown plug-in "x"`,
		"":         "invalid method name",
	} {
		if _, err := r.Lookup(name); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Lookup(%q): %v, expected %q", name, err, part)
		}
	}
}

func TestRegistryRejectsBadEntries(t *testing.T) {
	r := registryOf(t, "fedmf")
	for _, e := range []method.Entry{
		{Name: "fedmf", New: newEmpty},
		{Name: "", New: newEmpty},
		{Name: "a+b", New: newEmpty},
		{Name: "new"},
	} {
		if err := r.Add(e); err == nil {
			t.Errorf("Add accepted %q", e.Name)
		}
	}
}

func TestCloneOfARegistryIsIndependent(t *testing.T) {
	r := registryOf(t, "fedmf")
	c := r.Clone()
	if err := c.Add(method.Entry{Name: "mine", New: newEmpty}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Lookup("mine"); err == nil {
		t.Error("a method added to a clone is in the original")
	}
}
