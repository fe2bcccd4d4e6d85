package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.." // of the repository, from this folder, where tests run
	module = "github.com/tacit-rec/tacit"
)

// source is one file of the tree. Names are relative to the root, with slashes.
type source struct {
	name string
	text string
	fset *token.FileSet
	ast  *ast.File // nil where it is not Go
}

// pkg is the folder of the file: the import path within the module.
func (s *source) pkg() string { return path.Dir(s.name) }

func (s *source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// files holds every text file that people write, Go and other.
var files = sync.OnceValues(func() ([]*source, error) {
	ignored, err := ignored()
	if err != nil {
		return nil, err
	}
	var out []*source
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			if ignored[name] || d.Name() == ".git" || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		// made from wire/tacit.proto
		if ignored[name] || !isText(name) || !d.Type().IsRegular() || within(path.Dir(name), "internal/pb") &&
			!within(path.Dir(name), "internal/pb/gen") && d.Name() != "doc.go" {
			return nil
		}
		s, err := read(name)
		if err == nil {
			out = append(out, s)
		}
		return err
	})
	return out, err
})

func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".mod", ".toml", ".json", ".yml", ".yaml", ".html", ".js", ".css", ".txt", ".sh", ".s":
		return true
	}
	return name == "Makefile" || name == ".ci/run"
}

func read(name string) (*source, error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	s := &source{name: name, text: string(b)}
	if path.Ext(name) == ".go" {
		s.fset = token.NewFileSet()
		s.ast, err = parser.ParseFile(s.fset, name, b, parser.ParseComments|parser.SkipObjectResolution)
	}
	return s, err
}

// ignored lists the files and folders at the root that .gitignore names.
func ignored() (map[string]bool, error) {
	b, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	out := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
			out[strings.Trim(line, "/")] = true
		}
	}
	return out, err
}

// every returns the files of the tree that keep says.
func every(t *testing.T, keep func(*source) bool) []*source {
	t.Helper()
	all, err := files()
	if err != nil {
		t.Fatalf("the tree cannot be read: %v", err)
	}
	var out []*source
	for _, s := range all {
		if keep(s) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		t.Fatal("no file matches: this check looks at nothing, so it is broken")
	}
	return out
}

func anyFile(*source) bool   { return true }
func goFile(s *source) bool  { return s.ast != nil }
func shipped(s *source) bool { return s.ast != nil && !s.isTest() }
func library(s *source) bool {
	return shipped(s) && !within(s.pkg(), "cmd") && !within(s.pkg(), "examples")
}
func decision(s *source) bool { return s.pkg() == "docs/adr" && path.Ext(s.name) == ".md" }

// aMethod reports whether a file declares a method: a type with slots and local training.
func aMethod(s *source) bool {
	return shipped(s) && within(s.pkg(), "methods/internal") && strings.Contains(s.text, ") Slots(") &&
		strings.Contains(s.text, ") Visit(")
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// calls visits every call of a file as package and function name: fmt, Errorf.
// A call of something else than a name in a package has an empty package.
func calls(s *source, visit func(pkg, name string, c *ast.CallExpr)) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := c.Fun.(type) {
		case *ast.Ident:
			visit("", f.Name, c)
		case *ast.SelectorExpr:
			if x, ok := f.X.(*ast.Ident); ok {
				visit(x.Name, f.Sel.Name, c)
			}
		}
		return true
	})
}
