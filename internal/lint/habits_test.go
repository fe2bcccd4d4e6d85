package lint

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

func TestNothingRunsBeforeMain(t *testing.T) {
	for _, s := range every(t, goFile) {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s:%d: no init functions: they run in an order nobody sees; call it from where it is "+
					"needed, or write a table", s.name, s.line(f.Pos()))
			}
		}
	}
}

func TestLibrariesNeitherPrintNorLog(t *testing.T) {
	for _, s := range every(t, library) {
		for _, spec := range s.ast.Imports {
			if p, _ := strconv.Unquote(spec.Path.Value); within(p, "log") {
				t.Errorf("%s imports %s: libraries have no logger; return an error, or an event that the caller may "+
					"tell", s.name, p)
			}
		}
		calls(s, func(pkg, name string, c *ast.CallExpr) {
			if pkg == "fmt" && strings.HasPrefix(name, "Print") || pkg == "" && (name == "print" || name == "println") {
				t.Errorf("%s:%d: only cmd prints; return the text, or write to an io.Writer that the caller gives",
					s.name, s.line(c.Pos()))
			}
		})
	}
}

func TestSkippedTestsSayWhy(t *testing.T) {
	for _, s := range every(t, goFile) {
		calls(s, func(pkg, name string, c *ast.CallExpr) {
			if slices.Contains(list("t b f tb"), pkg) && len(c.Args) == 0 && (name == "Skip" || name == "SkipNow") {
				t.Errorf("%s:%d: a test that is skipped says why and how to run it: give %s.Skip a text", s.name,
					s.line(c.Pos()), pkg)
			}
		})
	}
}

func TestNothingIsLeftForLater(t *testing.T) {
	later := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, s := range every(t, anyFile) {
		for n, line := range numbered(s) {
			if m := later.FindString(line); m != "" {
				t.Errorf("%s:%d: %s: do it now, open an issue, or say in plain words what does not work", s.name, n, m)
			}
		}
	}
}

// The folders are spelled so that this file does not name them.
func TestNoPathOfAMachineIsWritten(t *testing.T) {
	machine := regexp.MustCompile(`(^|[^A-Za-z0-9_.])/(w[o]rk|f[a]rm|r[o]ot|h[o]me)/`)
	for _, s := range every(t, anyFile) {
		for n, line := range numbered(s) {
			if machine.MatchString(line) {
				t.Errorf("%s:%d: names a folder of one machine; use a path relative to the repository, $TACIT_DATA "+
					"or a temporary folder: %s", s.name, n, strings.TrimSpace(line))
			}
		}
	}
}

// numbered yields the lines of a file, from 1.
func numbered(s *source) func(func(int, string) bool) {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.Lines(s.text) {
			if n++; !yield(n, line) {
				return
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	doc := map[string]string{}
	name := map[string]string{}
	for _, s := range every(t, shipped) {
		name[s.pkg()] = s.ast.Name.Name
		if d := s.ast.Doc.Text(); len(d) > len(doc[s.pkg()]) {
			doc[s.pkg()] = d
		}
	}
	for pkg, n := range name {
		want := "Package " + n + " "
		if n == "main" {
			want = "Command " + path.Base(pkg) + " "
		}
		if !strings.HasPrefix(doc[pkg], want) {
			t.Errorf("%s has no package comment that starts with %q; say what it is, what it never does, and its "+
				"one convention", pkg, want)
		}
	}
}

func TestErrorsAreLowerCaseAndSayTheRule(t *testing.T) {
	for _, s := range every(t, shipped) {
		calls(s, func(pkg, name string, c *ast.CallExpr) {
			if !(pkg == "errors" && name == "New" || pkg == "fmt" && name == "Errorf") || len(c.Args) == 0 {
				return
			}
			lit, ok := c.Args[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			if capitalised(text) {
				t.Errorf("%s:%d: error text starts with a capital: %q; it stands in the middle of a sentence", s.name,
					s.line(c.Pos()), text)
			}
			if strings.Contains(strings.ToLower(text), "failed to") {
				t.Errorf("%s:%d: error text says \"failed to\": %q; say the thing, its value, the rule "+
					"and the way out", s.name, s.line(c.Pos()), text)
			}
		})
	}
}

// capitalised reports whether a text starts with a word such as Bad; HR and
// OrderOnly are names, and may stand first.
func capitalised(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	rs := []rune(strings.TrimRight(word, ".,:;"))
	return len(rs) > 1 && unicode.IsUpper(rs[0]) &&
		!slices.ContainsFunc(rs[1:], func(r rune) bool { return !unicode.IsLower(r) })
}

func TestEveryDependencyHasItsReason(t *testing.T) {
	var reasons strings.Builder
	for _, s := range every(t, decision) {
		reasons.WriteString(s.text)
	}
	for _, mod := range every(t, func(s *source) bool { return path.Base(s.name) == "go.mod" }) {
		for _, dep := range dependencies(mod.text, imported(t)) {
			if !strings.Contains(reasons.String(), dep) {
				t.Errorf("%s needs %s, and no page of docs/adr names it; write there why, instead of what, and what "+
					"would change our mind", mod.name, dep)
			}
		}
	}
}

// imported lists what the Go files of the tree import.
func imported(t *testing.T) []string {
	var out []string
	for _, s := range every(t, goFile) {
		for _, spec := range s.ast.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
	}
	return out
}

// dependencies lists the modules of a go.mod that are required directly, by its
// word or because something imports them, and the packages of its tools.
func dependencies(mod string, imports []string) []string {
	var out []string
	block := ""
	for line := range strings.Lines(mod) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(f[0], "//"):
			continue
		case len(f) == 2 && f[1] == "(":
			block = f[0]
			continue
		case f[0] == ")":
			block = ""
			continue
		}
		kind, rest := block, f
		if block == "" {
			kind, rest = f[0], f[1:]
		}
		used := func(p string) bool { return within(p, rest[0]) }
		if kind == "tool" || kind == "require" && (!strings.Contains(line, "// indirect") ||
			slices.ContainsFunc(imports, used)) {
			out = append(out, rest[0])
		}
	}
	return out
}

func TestDependenciesAreReadFromGoMod(t *testing.T) {
	mod := "module x\n\ngo 1.26.0\n\nrequire a.b/c v1.0.0\n\nrequire (\n\td.e/f v1.2.3\n\tg.h/i v0.0.1 // " +
		"indirect\n\tq.r/s v1.0.0 // indirect\n)\n\n" +
		"tool j.k/l/cmd/m\n\ntool (\n\tn.o/p\n)\n"
	got := dependencies(mod, list("fmt q.r/s/t g.h/in"))
	if want := list("a.b/c d.e/f q.r/s j.k/l/cmd/m n.o/p"); !slices.Equal(got, want) {
		t.Errorf("dependencies are %v, want %v", got, want)
	}
}
