package mobile_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/mobile"
)

// safe reports whether gomobile binds a type. own are the package's types.
func safe(e ast.Expr, own map[string]bool, result bool) bool {
	switch e := e.(type) {
	case *ast.Ident:
		switch e.Name {
		case "int", "int64", "int32", "float64", "float32", "bool", "string":
			return true
		case "error":
			return result
		}
		return own[e.Name] // an interface of ours
	case *ast.StarExpr:
		id, ok := e.X.(*ast.Ident)
		return ok && own[id.Name]
	case *ast.ArrayType:
		id, ok := e.Elt.(*ast.Ident)
		return ok && e.Len == nil && id.Name == "byte"
	}
	return false
}

// api is the exported part of the package.
type api struct {
	t       *testing.T
	decls   []ast.Decl
	own     map[string]bool
	checked int
}

func parse(t *testing.T) *api {
	a := &api{t: t, own: map[string]bool{}}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.decls = append(a.decls, f.Decls...)
	}
	a.each(func(s ast.Spec) {
		if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() {
			a.own[ts.Name.Name] = true
		}
	})
	return a
}

func (a *api) each(do func(spec ast.Spec)) {
	for _, d := range a.decls {
		if g, ok := d.(*ast.GenDecl); ok {
			for _, s := range g.Specs {
				do(s)
			}
		}
	}
}

func (a *api) fields(what string, l *ast.FieldList, result bool) {
	if l == nil {
		return
	}
	for _, p := range l.List {
		if a.checked++; !safe(p.Type, a.own, result) {
			a.t.Errorf("%s: gomobile has no %T", what, p.Type)
		}
	}
}

func (a *api) function(name string, f *ast.FuncType) {
	if f.TypeParams != nil {
		a.t.Errorf("%s has type parameters", name)
	}
	a.fields(name, f.Params, false)
	a.fields(name, f.Results, true)
	switch n := f.Results.NumFields(); {
	case n > 2:
		a.t.Errorf("%s has more than two results", name)
	case n == 2:
		if id, ok := f.Results.List[1].Type.(*ast.Ident); !ok || id.Name != "error" {
			a.t.Errorf("%s: the second result must be an error", name)
		}
	}
}

func (a *api) declared(s *ast.TypeSpec) {
	switch typ := s.Type.(type) {
	case *ast.StructType:
		for _, f := range typ.Fields.List {
			for _, n := range f.Names {
				if a.checked++; n.IsExported() && !safe(f.Type, a.own, false) {
					a.t.Errorf("field %s.%s: gomobile has no %T", s.Name.Name, n.Name, f.Type)
				}
			}
		}
	case *ast.InterfaceType:
		for _, m := range typ.Methods.List {
			if f, ok := m.Type.(*ast.FuncType); ok {
				a.function(s.Name.Name+"."+m.Names[0].Name, f)
			}
		}
	default:
		a.t.Errorf("type %s is neither struct nor interface", s.Name.Name)
	}
}

// A signature that gomobile cannot bind is left out of the binding without a word, so
// every exported one is looked at.
func TestEverySignatureIsSafeForGomobile(t *testing.T) {
	a := parse(t)
	for _, d := range a.decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() {
			a.function(f.Name.Name, f.Type)
		}
	}
	a.each(func(s ast.Spec) {
		switch s := s.(type) {
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.IsExported() {
					t.Errorf("%s is global state", n.Name)
				}
			}
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				a.declared(s)
			}
		}
	})
	if a.checked < 30 {
		t.Errorf("only %d types were looked at", a.checked)
	}
}

// The test above must be able to fail.
func TestUnsafeSignaturesAreFound(t *testing.T) {
	own := map[string]bool{"Device": true}
	for text, want := range map[string]bool{
		"map[string]int": false, "[]string": false, "chan int": false, "func()": false, "uint64": false, "*other": false, "time.Time": false, "...int": false,
		"[]byte": true, "*Device": true, "int64": true, "error": true,
	} {
		e, err := parser.ParseExpr("func() (" + strings.TrimPrefix(text, "...") + ") { return }")
		if err != nil {
			t.Fatal(text, err)
		}
		typ := e.(*ast.FuncLit).Type.Results.List[0].Type
		if strings.HasPrefix(text, "...") {
			typ = &ast.Ellipsis{Elt: typ}
		}
		if got := safe(typ, own, true); got != want {
			t.Errorf("%s is taken to be safe: %v", text, got)
		}
	}
}

type guard struct{ why string }

func (g *guard) Ready() string { return g.why }

type listener struct{ steps []string }

func (l *listener) Stepped(step, failure string) { l.steps = append(l.steps, step+failure) }

func TestADeviceOfAnApp(t *testing.T) {
	c := mobile.NewConfig()
	c.StateFile = filepath.Join(t.TempDir(), "device.state")
	g, l := &guard{"on battery"}, &listener{}
	d, err := mobile.Open(c, g)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := d.Step(l); err != nil || after < 1000 || len(l.steps) != 1 || !strings.Contains(l.steps[0], "on battery") {
		t.Errorf("%d, %v, %v", after, err, l.steps)
	}
	if n, err := d.AddAll("a,5\nb,6\na,5\n"); err != nil || n != 3 {
		t.Error(n, err)
	}
	if n, err := d.AddAll("a,5\nb,6\na,5\nc,7\n"); err != nil || n != 1 {
		t.Errorf("what is there is added again: %d, %v", n, err)
	}
	if item, err := d.Undo(); err != nil || item != "c" {
		t.Error(item, err)
	}
	if _, err := d.Recommend(3); err == nil {
		t.Error("it recommends without a model")
	}
	if d.Pause() != nil {
		t.Error("it cannot be paused")
	}
	again, err := mobile.Open(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	about, err := again.About()
	if err != nil || !strings.Contains(about, `"paused":true`) || !strings.Contains(about, `"events":3`) {
		t.Error(about, err)
	}
	d.Cancel()
	if err := d.Forget(); err != nil {
		t.Error(err)
	}
	if _, err := mobile.Open(&mobile.Config{}, nil); err == nil {
		t.Error("a device without a state file")
	}
}

// stalled is a guard that does not answer until it is let.
type stalled struct{ asked, answer chan struct{} }

func (g *stalled) Ready() string {
	g.asked <- struct{}{}
	<-g.answer
	return "not now"
}

// A step that takes long holds up nothing of the owner's.
func TestTheOwnerDoesNotWaitForAStep(t *testing.T) {
	c := mobile.NewConfig()
	c.StateFile, c.Passphrase = filepath.Join(t.TempDir(), "device.state"), "a phrase"
	g := &stalled{make(chan struct{}), make(chan struct{})}
	d, err := mobile.Open(c, g)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := d.Step(nil)
		ended <- err
	}()
	<-g.asked // the step is in progress until the guard answers: what follows must not wait
	if err := d.Add("a"); err != nil {
		t.Error(err)
	}
	if err := d.Pause(); err != nil {
		t.Error(err)
	}
	if _, err := d.Recommend(3); err == nil {
		t.Error("it recommends without a model")
	}
	if about, err := d.About(); err != nil || !strings.Contains(about, `"events":1`) || !strings.Contains(about, `"paused":true`) {
		t.Error(about, err)
	}
	d.Cancel()
	g.answer <- struct{}{}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := d.Step(nil); err != nil { // paused by its owner: the guard is not asked
		t.Error(err)
	}
}
