package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// The limits are warnings, not walls. Code that is better long says why: a comment
// `//lint:size reason` inside a function or its doc comment exempts that function; elsewhere
// it exempts the file.
const (
	fileLines   = 450
	testLines   = 600
	methodLines = 170
	funcLines   = 75
	exports     = 25
)

// wide lists the packages that may export more than the limit, with the reason.
var wide = map[string]string{
	"method":                "the contract: a method's author needs all of its words in one place",
	"vec":                   "kernels are plain functions, one for each loop; a type would only be a prefix",
	"internal/study/result": "most of its names are the parts of result.json, which is one contract",
	"learn":                 "the parts that methods are made of: a reader picks from one list",
	"internal/study/experiment": "settings, presets, run folder and progress events of one experiment are " +
		"one subject",
	"device":         "an app's whole API: the device, what it shows its owner, and the errors that an app handles",
	"methods":        "one type for each published method",
	"privacy/secagg": "each message of the protocol is a type, so that none can be passed for another",
	"privacy":        "a policy, its stack and what devices enforce are one subject",
	"internal/rpc":   "server, clients and error codes of one protocol; a code is a name that both sides use",
	"coordinator":    "each answer of the admin API is a type, which server and client share",
	"wire":           "each thing that travels has a form, a reader and a check",
	"internal/study/chart": "one function and its values for each " +
		"kind of drawing",
	"coordinator/internal/dashboard": "each card of the pages has a type, which the coordinator fills " +
		"and a template reads",
	"data": "sets, splits, protocols and the world are one subject to a reader; loaders have " +
		"no API of their own",
}

var waiver = regexp.MustCompile(`^//lint:size\s+\S+`)

// waived reports whether a file has a waiver between two positions.
func waived(s *source, from, to token.Pos) bool {
	for _, g := range s.ast.Comments {
		for _, c := range g.List {
			if c.Pos() >= from && c.End() <= to && waiver.MatchString(c.Text) {
				return true
			}
		}
	}
	return false
}

// extent is the range of a function and its comment.
func extent(f *ast.FuncDecl) (from, to token.Pos) {
	if f.Doc != nil {
		return f.Doc.Pos(), f.End()
	}
	return f.Pos(), f.End()
}

// fileWaived reports whether a file has a waiver outside its functions.
func fileWaived(s *source) bool {
	at := s.ast.FileStart
	for _, d := range s.ast.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			from, to := extent(f)
			if waived(s, at, from) {
				return true
			}
			at = to
		}
	}
	return waived(s, at, s.ast.FileEnd)
}

func TestFilesAreShort(t *testing.T) {
	for _, s := range every(t, goFile) {
		limit := fileLines
		switch {
		case s.isTest():
			limit = testLines
		case aMethod(s):
			limit = methodLines
		}
		if n := strings.Count(s.text, "\n"); n > limit && !ast.IsGenerated(s.ast) && !fileWaived(s) {
			t.Errorf("%s has %d lines, the limit is %d; split it by subject, or write //lint:size and the reason at "+
				"its top", s.name, n, limit)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	for _, s := range every(t, goFile) {
		if ast.IsGenerated(s.ast) {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			limit := funcLines
			if s.isTest() {
				limit = 2 * funcLines
			}
			from, to := extent(f)
			if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > limit && !waived(s, from, to) {
				t.Errorf("%s:%d: %s has %d lines, the limit is %d; take a step of it out under a name, or write "+
					"//lint:size and the reason in its comment", s.name, s.line(f.Pos()), f.Name.Name, n, limit)
			}
		}
	}
}

func TestPackagesExportLittle(t *testing.T) {
	count := map[string]int{}
	for _, s := range every(t, shipped) {
		for _, d := range s.ast.Decls {
			count[s.pkg()] += exported(d)
		}
	}
	for pkg, n := range count {
		if n > exports && wide[pkg] == "" {
			t.Errorf("package %s exports %d names, the limit is %d; unexport or split it, or give the reason in the "+
				"table `wide` of internal/lint/size_test.go", pkg, n, exports)
		}
	}
}

// exported counts the exported names of a declaration. Methods belong to their
// type, and a group of constants is one enumeration: neither counts by its names.
func exported(d ast.Decl) int {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.IsExported() {
			return 1
		}
	case *ast.GenDecl:
		n := 0
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					n++
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						n++
					}
				}
			}
		}
		if d.Tok == token.CONST {
			n = min(n, 1)
		}
		return n
	}
	return 0
}
