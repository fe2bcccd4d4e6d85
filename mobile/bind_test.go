package mobile_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nothing imports empty packages: an API that gobind can bind uses no types of other packages.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	p.MarkComplete()
	return p, nil
}

// declared type-checks the declarations of files, without function bodies.
func declared(t *testing.T, sources map[string]string) *types.Package {
	t.Helper()
	set, files := token.NewFileSet(), []*ast.File{}
	for name, text := range sources {
		f, err := parser.ParseFile(set, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// unknown types are not bound
	c := types.Config{Importer: nothing{}, IgnoreFuncBodies: true, Error: func(error) {}}
	p, _ := c.Check("mobile", set, files, nil)
	return p
}

// bound reports whether gobind binds a type: signed numbers, strings, bytes, errors, pointers to structs of
// the package, and its interfaces.
func bound(p *types.Package, t types.Type) bool {
	own := func(t types.Type) *types.Named {
		n, ok := types.Unalias(t).(*types.Named)
		if !ok || n.Obj().Pkg() != p || !n.Obj().Exported() || n.TypeParams().Len() > 0 {
			return nil
		}
		return n
	}
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		return slices.Contains([]types.BasicKind{
			types.Bool, types.Int, types.Int8, types.Uint8, types.Int16,
			types.Int32, types.Int64, types.Float32, types.Float64, types.String,
		}, t.Kind())
	case *types.Slice:
		b, ok := types.Unalias(t.Elem()).(*types.Basic)
		return ok && b.Kind() == types.Uint8
	case *types.Pointer:
		if n := own(t.Elem()); n != nil {
			_, ok := n.Underlying().(*types.Struct)
			return ok
		}
	case *types.Named:
		if n := own(t); n != nil {
			_, ok := n.Underlying().(*types.Interface)
			return ok
		}
		return types.Identical(t, types.Universe.Lookup("error").Type())
	}
	return false
}

// unbound lists the exported names that gobind would silently leave out.
func unbound(p *types.Package) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	function := func(name string, f *types.Signature) {
		for i := range f.Params().Len() {
			if x := f.Params().At(i); !bound(p, x.Type()) {
				add("%s: parameter %s", name, x.Type())
			}
		}
		n := f.Results().Len()
		for i := range n {
			if x := f.Results().At(i); !bound(p, x.Type()) {
				add("%s: result %s", name, x.Type())
			}
		}
		if n > 2 || n == 2 && !types.Identical(f.Results().At(1).Type(), types.Universe.Lookup("error").Type()) {
			add("%s: results, want one, or one and an error", name)
		}
		if f.TypeParams().Len() > 0 || f.Variadic() {
			add("%s: any types or any number of them", name)
		}
	}
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		switch obj := obj.(type) {
		case *types.Func:
			function(name, obj.Signature())
		case *types.TypeName:
			out = append(out, unboundType(p, obj, function)...)
		case *types.Const:
		default:
			add("%s: global state", name)
		}
	}
	return out
}

func unboundType(p *types.Package, obj *types.TypeName, function func(string, *types.Signature)) (out []string) {
	n, ok := obj.Type().(*types.Named)
	if !ok || n.TypeParams().Len() > 0 {
		return []string{obj.Name() + ": neither struct nor interface"}
	}
	for m := range n.Methods() {
		if m.Exported() {
			function(obj.Name()+"."+m.Name(), m.Signature())
		}
	}
	switch u := n.Underlying().(type) {
	case *types.Interface:
		for m := range u.Methods() {
			function(obj.Name()+"."+m.Name(), m.Signature())
		}
		if u.NumMethods() == 0 || u.NumEmbeddeds() > 0 {
			out = append(out, obj.Name()+": an interface without methods of its own")
		}
	case *types.Struct:
		for f := range u.Fields() {
			if f.Exported() && (f.Embedded() || !bound(p, f.Type())) {
				out = append(out, fmt.Sprintf("%s.%s: field %s", obj.Name(), f.Name(), f.Type()))
			}
		}
	default:
		out = append(out, obj.Name()+": neither struct nor interface")
	}
	return out
}

// gobind silently leaves out what it cannot bind, so this test applies its rules to every exported name.
// `go run golang.org/x/mobile/cmd/gobind@latest -lang=java,go,objc -outdir DIR ./mobile` is the tool itself:
// it writes "skipped" there.
func TestEveryExportedNameIsBoundForApps(t *testing.T) {
	sources := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sources[name] = string(b)
		}
	}
	p := declared(t, sources)
	for _, what := range unbound(p) {
		t.Error(what)
	}
	for _, name := range []string{"Config", "Device", "Eligibility", "List", "Listener", "NewConfig", "Open", "Pick"} {
		if p.Scope().Lookup(name) == nil {
			t.Errorf("%s was not looked at", name)
		}
	}
	if n := p.Scope().Lookup("Device").Type().(*types.Named).NumMethods(); n < 12 {
		t.Errorf("Device has %d methods, want at least 12", n)
	}
}

// The rules find each of these: every line has one thing that gobind leaves out.
func TestBindingRulesFindMissingNames(t *testing.T) {
	const head = "package mobile\n\nimport \"time\"\n\ntype Good struct{ N int; b []string }\ntype Told interface{ " +
		"Tell(string) error }\nvar _ time.Time\n"
	if got := unbound(declared(t, map[string]string{"x.go": head + "func F(g *Good, t Told, b []byte) (float64, " +
		"error) { return 0, nil }\nfunc (g *Good) inside(x ...any) {}\n"})); len(got) != 0 {
		t.Errorf("what is bound is refused: %v", got)
	}
	for _, line := range []string{
		"func F(x uint64) {}", "func F(x []string) {}", "func F(x map[string]int) {}", "func F(x Good) {}",
		"func F(x *Told) {}", "func F(x ...int) {}", "func F(x any) {}",
		"func F() (int, int) { return 0, 0 }", "func F() (int, string, error) { return 0, \"\", nil }",
		"func F() time.Time { panic(0) }", "func F(f func()) {}", "func F[T int](x int) {}",
		"func (g *Good) M(t time.Duration) {}", "type T struct{ At time.Time }", "type T struct{ Good }",
		"type T struct{ S []int }", "type T int", "type T = Good2\ntype Good2 []int",
		"type T interface{ M(chan int) }", "type T interface{}", "type T[X any] struct{}", "var V int",
	} {
		if got := unbound(declared(t, map[string]string{"x.go": head + line + "\n"})); len(got) == 0 {
			t.Errorf("%s is taken for something that is bound", line)
		}
	}
}
