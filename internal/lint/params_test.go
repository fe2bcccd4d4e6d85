package lint

import (
	"go/ast"
	"reflect"
	"regexp"
	"testing"

	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

func TestEveryParameterIsDocumented(t *testing.T) {
	for _, e := range methods.Default().Entries() {
		m := e.New()
		var want []string
		parameters(reflect.TypeOf(m).Elem(), func(f reflect.StructField) {
			want = append(want, param.Key(f.Name))
			for _, tag := range []string{"doc", "default"} {
				if f.Tag.Get(tag) == "" {
					t.Errorf("method %s: field %s has no `%s` tag; flags, TOML keys and the doc page come from it",
						e.Name, f.Name, tag)
				}
			}
		})
		if got := param.Keys(m); !reflect.DeepEqual(got, want) {
			t.Errorf("method %s: package param sees the keys %v, the exported fields are %v; give every field its "+
				"tags, or unexport it", e.Name, got, want)
		}
	}
}

// parameters visits the exported fields of a struct; embedded structs are walked.
func parameters(s reflect.Type, visit func(reflect.StructField)) {
	for f := range s.Fields() {
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			parameters(f.Type, visit)
		case f.IsExported():
			visit(f)
		}
	}
}

func TestNoParameterHidesAnOptionOfTheRun(t *testing.T) {
	taken := map[string]bool{}
	for _, key := range param.Keys(&sim.Options{}) {
		taken[key] = true
	}
	for _, e := range methods.Default().Entries() {
		own := map[string]bool{}
		for _, key := range param.Keys(e.New()) {
			if taken[key] {
				t.Errorf("method %s: parameter %q is also an option of every run; both are set by key=value, so "+
					"rename the method's", e.Name, key)
			}
			if own[key] {
				t.Errorf("method %s has two parameters %q; rename one", e.Name, key)
			}
			own[key] = true
		}
	}
}

func TestMethodFilesNameTheirPaper(t *testing.T) {
	source := regexp.MustCompile(`\b(19|20)\d\d\b|\breference\b`)
	for _, s := range every(t, aMethod) {
		found := false
		for _, d := range s.ast.Decls {
			if g, ok := d.(*ast.GenDecl); ok && source.MatchString(g.Doc.Text()) {
				found = true
			}
		}
		if !found {
			t.Errorf("%s: no type's comment names a paper with its year, or says that this is a reference; write "+
				"whose method it is and where we differ", s.name)
		}
	}
}
