package methods

import (
	"fmt"
	"strings"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
)

// Named returns the entry of a method, or of a method with plug-ins, such as
// fedncf+dualper.
func Named(name string) (method.Entry, error) {
	base, rest, _ := strings.Cut(name, "+")
	if base == "" || strings.HasSuffix(name, "+") {
		return method.Entry{}, fmt.Errorf("%q is no method: write a method, or a method and a plug-in, such as "+
			"fedncf+dualper", name)
	}
	e, err := find("method", base, All(), func(e method.Entry) string { return e.Name })
	if err != nil || rest == "" && base == name {
		return e, err
	}
	for _, plugin := range strings.Split(rest, "+") {
		p, err := find("plug-in", plugin, Plugins(), func(p method.Plugin) string { return p.Name })
		if err != nil {
			return e, err
		}
		if e, err = with(e, p); err != nil {
			return e, err
		}
	}
	return e, nil
}

// Composed returns every method with every plug-in that fits it.
func Composed() []method.Entry {
	var out []method.Entry
	for _, p := range Plugins() {
		for _, e := range All() {
			if both, err := with(e, p); err == nil {
				out = append(out, both)
			}
		}
	}
	return out
}

// with is a method with a plug-in.
func with(e method.Entry, p method.Plugin) (method.Entry, error) {
	inner := e.New
	if _, err := p.On(inner()); err != nil {
		return e, fmt.Errorf("%s cannot have +%s: %w", e.Name, p.Name, err)
	}
	e.New = func() method.Method {
		m, err := p.On(inner())
		if err != nil {
			panic(err) // it was tried above
		}
		return m
	}
	e.Name, e.Title = e.Name+"+"+p.Name, e.Title+" + "+p.Title
	e.Paper += "; plug-in: " + p.Paper
	e.Caution = strings.TrimSpace(e.Caution + " " + p.Caution)
	return e, nil
}

func find[T any](what, name string, all []T, nameOf func(T) string) (T, error) {
	var names []string
	for _, e := range all {
		if nameOf(e) == name {
			return e, nil
		}
		names = append(names, nameOf(e))
	}
	var none T
	if near := param.Nearest(name, names); near != "" {
		return none, fmt.Errorf("unknown %s %q; did you mean %q?", what, name, near)
	}
	return none, fmt.Errorf("unknown %s %q; see tacit methods", what, name)
}

// Clone returns a copy of a method with the same parameters.
func Clone(e method.Entry, m method.Method) method.Method {
	c := e.New()
	for key, value := range param.Values(m) {
		if err := param.Set(c, key, fmt.Sprint(value)); err != nil {
			panic(err) // it was set so before
		}
	}
	return c
}

// New returns a method with its defaults.
func New(e method.Entry) method.Method {
	m := e.New()
	param.Defaults(m)
	return m
}

const sumCaution = "Exact sums are not private by themselves: the sum of an item that one device of a cohort has is " +
	"that device's vector. Rows that fewer than `few` devices have are not learnt."

// alsGrid is what closed-form runs try where there is no preset: from a catalogue that
// many users know to one that few do.
var alsGrid = []string{"dim=64 a0=0.1", "dim=32 a0=0.3", "dim=32 a0=0.03 reg=0.03", "dim=16 a0=0.3"}

const exactCaution = "Made for a privacy budget (`dp=epsilon=10`). Without one, exact sums are not private by " +
	"themselves."

// budgeted are Tacit's own methods that are made for a privacy budget.
func budgeted() []method.Entry {
	return []method.Entry{
		{
			Name: "oneshot", Title: "One-shot Gram", Paper: "Tacit's own; noise as by Dwork et al., Analyze Gauss, " +
				"STOC 2014", New: func() method.Method { return &OneShot{} },
			Options: map[string]string{"rounds": "2"},
			Caution: "Items outside the head are ranked by their counts alone. " + exactCaution,
		},
		{
			Name: "norm-grad", Title: "Normalised gradient", Paper: "Tacit's own; a form of DP-FedAvg, McMahan et " +
				"al., Learning Differentially Private Recurrent Language Models, ICLR 2018",
			New:     func() method.Method { return &NormGrad{} },
			Options: map[string]string{"rounds": "20", "negatives": "1", "eval-every": "10"},
			Caution: exactCaution,
		},
		{
			Name: "tacit-private", Title: "Tacit, private", Paper: "Tacit's own: oneshot and norm-grad",
			New:     func() method.Method { return &TacitPrivate{} },
			Options: map[string]string{"rounds": "22", "negatives": "1", "eval-every": "10"},
			Caution: exactCaution,
		},
	}
}

// seldom is for networks whose evaluation takes far longer than a round.
var seldom = map[string]string{"eval-every": "20"}
