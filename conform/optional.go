package conform

import (
	"fmt"
	"reflect"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
)

// optional lists the interfaces that a method may implement. A runtime detects them by type
// assertion, so a misspelt method compiles and is never called.
var optional = []reflect.Type{
	reflect.TypeFor[method.Method](),
	reflect.TypeFor[method.Learner](),
	reflect.TypeFor[method.Headed](),
	reflect.TypeFor[method.Rewrapper](),
	reflect.TypeFor[method.Ready](),
	reflect.TypeFor[method.Featured](),
	reflect.TypeFor[method.Updater](),
	reflect.TypeFor[method.PostUpdater](),
	reflect.TypeFor[method.PhasedSlots](),
	reflect.TypeFor[method.BudgetWeighter](),
	reflect.TypeFor[method.FinalRound](),
	reflect.TypeFor[method.Central](),
	reflect.TypeFor[method.Checker](),
}

// optionalMethods checks the exported methods of every wrapped layer: a method with a name of
// the contract must have its signature, and no method may have a name that is almost one of the
// contract.
func optionalMethods(build Build) error {
	signature := map[string]reflect.Type{}
	var names []string
	for _, i := range optional {
		for k := range i.NumMethod() {
			m := i.Method(k)
			signature[m.Name] = m.Type
			names = append(names, m.Name)
		}
	}
	for m := build(); ; {
		if err := checkSpelling(reflect.TypeOf(m), signature, names); err != nil {
			return err
		}
		w, wraps := m.(method.Wrapper)
		if !wraps {
			return nil
		}
		m = w.Unwrap()
	}
}

func checkSpelling(t reflect.Type, signature map[string]reflect.Type, names []string) error {
	for i := range t.NumMethod() {
		m := t.Method(i)
		if expected, ok := signature[m.Name]; ok {
			if got := withoutReceiver(m.Type); got != expected {
				return fmt.Errorf("%v.%s has type %v: the contract expects %v, so it would never be called", t, m.Name,
					got,
					expected)
			}
			continue
		}
		if near := closest(m.Name, names); near != "" {
			return fmt.Errorf("%v.%s is not part of the contract, but %s is; rename it if it is meant as %s, and "+
				"unexport it otherwise", t, m.Name, near, near)
		}
	}
	return nil
}

// closest returns the name within one edit, or within two for long names, or "".
func closest(name string, names []string) string {
	near := param.Nearest(name, names)
	allowed := 1
	if len(name) > 6 {
		allowed = 2
	}
	if near == "" || param.Distance(name, near) > allowed {
		return ""
	}
	return near
}

func withoutReceiver(t reflect.Type) reflect.Type {
	var in, out []reflect.Type
	for i := 1; i < t.NumIn(); i++ {
		in = append(in, t.In(i))
	}
	for i := range t.NumOut() {
		out = append(out, t.Out(i))
	}
	return reflect.FuncOf(in, out, t.IsVariadic())
}
