package conform

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/tacit-rec/tacit/method"
)

// optional lists the interfaces that a method may implement. A runtime detects them by type
// assertion, so a misspelt method compiles and is never called.
var optional = []reflect.Type{
	reflect.TypeFor[method.Method](),
	reflect.TypeFor[method.Learner](),
	reflect.TypeFor[method.Headed](),
	reflect.TypeFor[method.Linear](),
	reflect.TypeFor[method.Wrapper](),
	reflect.TypeFor[method.Rewrapper](),
	reflect.TypeFor[method.Ready](),
	reflect.TypeFor[method.Featured](),
	reflect.TypeFor[method.Updater](),
	reflect.TypeFor[method.EmptyUpdater](),
	reflect.TypeFor[method.PartialUpdater](),
	reflect.TypeFor[method.PostUpdater](),
	reflect.TypeFor[method.PopularityRanker](),
	reflect.TypeFor[method.Phased](),
	reflect.TypeFor[method.PhasedSlots](),
	reflect.TypeFor[method.InPasses](),
	reflect.TypeFor[method.BudgetWeighter](),
	reflect.TypeFor[method.FinalRound](),
	reflect.TypeFor[method.Central](),
	reflect.TypeFor[method.Checker](),
}

// optionalMethods checks the exported methods of every layer of a method, and of the method that
// Bind returns. A method with a name of the contract must have its signature and belong to an
// interface that the layer implements. No other method may resemble one of the contract.
func optionalMethods(build Build) error {
	if err := checkLayers(build()); err != nil {
		return err
	}
	r, err := start(build, options(1), 1)
	if err != nil {
		return err
	}
	if err := checkLayers(r.Plan().Method); err != nil {
		return fmt.Errorf("the bound method: %w", err)
	}
	return nil
}

// checkLayers checks a method and the methods that it wraps.
func checkLayers(m method.Method) error {
	for {
		if err := checkType(reflect.TypeOf(m)); err != nil {
			return err
		}
		w, wraps := m.(method.Wrapper)
		if !wraps {
			return nil
		}
		m = w.Unwrap()
	}
}

func checkType(t reflect.Type) error {
	for i := range t.NumMethod() {
		m := t.Method(i)
		if err := checkMethod(t, m.Name, withoutReceiver(m.Type)); err != nil {
			return err
		}
	}
	return nil
}

// checkMethod checks the method of type t with the given name and signature.
func checkMethod(t reflect.Type, name string, signature reflect.Type) error {
	var missing []string // interfaces with this method that t does not implement
	for _, i := range optional {
		m, ok := i.MethodByName(name)
		switch {
		case !ok:
		case signature != m.Type:
			return fmt.Errorf("%v.%s has type %v: the contract expects %v, so it would never be called", t, name,
				signature, m.Type)
		case t.Implements(i):
			return nil
		default:
			missing = append(missing, lacks(t, i))
		}
	}
	if missing != nil {
		return fmt.Errorf("%v.%s would never be called: %s", t, name, strings.Join(missing, "; "))
	}
	if near := resembles(name, signature); near != "" {
		return fmt.Errorf("%v.%s is not part of the contract, but %s is; rename it if it is meant as %s, and "+
			"unexport it otherwise", t, name, near, near)
	}
	return nil
}

// lacks says which methods of interface i type t lacks.
func lacks(t, i reflect.Type) string {
	var names []string
	for k := range i.NumMethod() {
		m := i.Method(k)
		if has, ok := t.MethodByName(m.Name); !ok || withoutReceiver(has.Type) != m.Type {
			names = append(names, m.Name)
		}
	}
	return fmt.Sprintf("%v also requires %s", i, strings.Join(names, " and "))
}

// resembles returns the method of the contract that a name is probably meant as, or "". The
// names are a few typing errors apart, or they start with the same word and have the same
// signature.
func resembles(name string, signature reflect.Type) string {
	for _, i := range optional {
		for k := range i.NumMethod() {
			m := i.Method(k)
			allowed := 1
			if min(len(name), len(m.Name)) >= 5 {
				allowed = 2
			}
			if typingErrors(name, m.Name) <= allowed ||
				m.Type == signature && firstWord(name) == firstWord(m.Name) {
				return m.Name
			}
		}
	}
	return ""
}

// typingErrors returns the number of letters to add, remove, replace or swap with their neighbour
// that turn a into b (Damerau and Levenshtein; no letter changes twice).
func typingErrors(a, b string) int {
	var before, last []int // the rows of i-2 and of i-1
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// firstWord returns the first word of an exported name: Reports of ReportsFinalRound.
func firstWord(name string) string {
	next := slices.IndexFunc([]rune(name[1:]), unicode.IsUpper)
	if next < 0 {
		return name
	}
	return name[:next+1]
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
