package methods_test

import (
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/conform"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

func TestEveryMethodConforms(t *testing.T) {
	for _, e := range methods.All() {
		t.Run(e.Name, func(t *testing.T) {
			conform.Method(t, func() method.Method { return methods.New(e) })
		})
	}
}

func TestPFedRecConformsInEveryVariant(t *testing.T) {
	for _, setting := range []string{"infer=global", "epochs=3", "decay=0.00001", "dim=20"} {
		t.Run(setting, func(t *testing.T) {
			conform.Method(t, func() method.Method {
				return with(t, &methods.PFedRec{}, setting)
			})
		})
	}
}

func TestTheContractCarriesVeryDifferentMethods(t *testing.T) {
	for name, build := range map[string]conform.Build{
		// With the authors' weights the tables are pushed apart so hard that the board is not found: see docs/adr/0004.
		"fedrap": func() method.Method { return with(t, &fedRAP{}, "lambda=0", "mu=0") },
		"ials":   func() method.Method { return with(t, &ials{}) },
	} {
		t.Run(name, func(t *testing.T) { conform.Method(t, build) })
	}
}

// with returns m with its defaults and the given settings.
func with(t *testing.T, m method.Method, settings ...string) method.Method {
	t.Helper()
	param.Defaults(m)
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		if err := param.Set(m, key, value); err != nil {
			t.Fatal(err)
		}
	}
	return m
}
