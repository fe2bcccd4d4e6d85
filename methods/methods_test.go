package methods_test

import (
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/conform"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// small holds settings with which a method learns the conformance suite's small data set;
// the learning rates for real catalogues are too small for it.
var small = map[string][]string{
	"fedncf":    {"lr=0.5", "user-eta=20"},
	"fedrecgel": {"dim=8", "layers=16,8", "server-lr=0.01"}, // the defaults work but are slow
	"metamf":    {"lr=0.003", "hidden=64", "memory=16", "start=0.3"},
	// The authors' weights separate the tables too strongly for the small data set: see docs/adr/0004.
	"fedrap": {"lambda=0", "mu=0"},
	// The default layers take minutes.
	"privrec":     {"dim=8", "layers=16,8", "lr=0.5", "epochs=2", "adapt=1"},
	"dp-privrec":  {"dim=8", "layers=16,8", "lr=0.5", "epochs=2", "adapt=1"},
	"privrec-cen": {"dim=8", "layers=16,8", "lr=0.01"},
	"nn-self":     {"dim=8", "layers=16,8", "lr=0.2", "outer=0.5", "epochs=4", "adapt=1"},
	// Histories of the small data set have no order.
	"markov":    {"last=20", "decay=1"},
	"bank":      {"width=16", "rank=16", "train=2", "lr=0.03"},
	"sasrec":    {"width=16", "rank=16", "train=2", "lr=0.03"},
	"gru4rec":   {"dim=16", "lr=1", "row-lr=30"},
	"tacit":     {"rank=8", "width=8", "dim=8", "lr=0.05"},
	"fofl-self": {"dim=8", "layers=16,8", "lr=0.5", "row-lr=10", "epochs=5", "adapt=5"},
}

func TestEveryMethodConforms(t *testing.T) {
	for _, e := range methods.Default().Entries() {
		t.Run(e.Name, func(t *testing.T) {
			conform.Method(t, func() method.Method { return with(t, e.New(), small[e.Name]...) })
		})
	}
}

func TestVariantsConform(t *testing.T) {
	for _, words := range []string{
		"pfedrec infer=global",
		"pfedrec epochs=3",
		"pfedrec decay=0.00001",
		"pfedrec dim=20",
		"pfedrec loss=bpr",
		"pfedrec loss=squared eta=4",
		"pfedrec layers=16,8 lr=0.5",
		"pfedrec layers=20 private=1 lr=0.5 dim=12 order=joint",
		"fedmf+dualper",
		"fedncf+dualper lr=0.5",
		"fedncf+dualper network=shared lr=0.2",
		"fedncf loss=bpr lr=0.5 user-eta=20",
		"fedrecon+dualper",
		"mf loss=squared lr=0.01",
		"fedrecgel rho-shared=0 rho-user=0 dim=8 layers=16,8 server-lr=0.01",
		"fedrecgel rho-user=0 dim=12 layers=20,9,5 server-lr=0.01",
		"fedrap lambda=0 mu=0.001 dim=20",
		"fedrap lambda=0 mu=0.001 regular=l2",
		"fedrap lambda=0.001 mu=0.01 regular=prox curriculum=tanh",
		"fedrap lambda=0 mu=0 tables=shared",
		"fedrap tables=own",
		"privrec identity=on context=off dim=6 layers=8,6",
		"privrec-cen identity=on dim=6 layers=8,6",
		"ials average=3",
		"ease-sketch rank=5 few=1 reg=3",
	} {
		t.Run(words, func(t *testing.T) {
			f := strings.Fields(words)
			e, err := methods.Default().Lookup(f[0])
			if err != nil {
				t.Fatal(err)
			}
			conform.Method(t, func() method.Method { return with(t, e.New(), f[1:]...) })
		})
	}
}

// Loss terms that the variants above do not cover.
func TestLossTermsOfVariantsHaveTheirGradients(t *testing.T) {
	for _, words := range []string{
		"fedrap", "fedrap regular=l2", "fedrap tables=shared", "fedrap tables=shared regular=l2",
		"privrec dim=8 layers=16,8 prox=norm",
		"fedmf+plgc", "fedmf+plgc decor-view=mixed", "fedmf+plgc decor-view=self", "fedncf+plgc", "fedrap+plgc",
		"pfedrec loss=squared", "pfedrec loss=bpr",
		"gru4rec dim=16 drop=0.5", "gru4rec dim=16 drop=0 alike=rows",
	} {
		t.Run(words, func(t *testing.T) {
			f := strings.Fields(words)
			e, err := methods.Default().Lookup(f[0])
			if err != nil {
				t.Fatal(err)
			}
			conform.Gradients(t, func() method.Method { return with(t, e.New(), f[1:]...) })
		})
	}
}

func TestMethodsWithPluginsKeepPrivateSlotsPrivate(t *testing.T) {
	for _, e := range methods.Default().Composed() {
		base, _, _ := strings.Cut(e.Name, "+")
		t.Run(e.Name, func(t *testing.T) {
			conform.Private(t, func() method.Method { return with(t, e.New(), small[base]...) })
		})
	}
}

func TestContractFitsMethodsWithoutGradients(t *testing.T) {
	for name, build := range map[string]conform.Build{
		"ials": func() method.Method { return with(t, &ials{}) },
	} {
		t.Run(name, func(t *testing.T) { conform.Method(t, build) })
	}
}

// with returns m with its defaults and the given settings.
func with(t testing.TB, m method.Method, settings ...string) method.Method {
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
