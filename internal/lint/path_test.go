package lint

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// CONTRIBUTING.md walks a reader along the path of an update. A walk past functions
// that were renamed would be worse than none.
func TestPathOfAnUpdateNamesFunctionsThatExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## The path of an update\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md has no section `## The path of an update`")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	have := map[string]bool{}
	for _, s := range every(t, shipped) {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				have[s.pkg()+": "+funcName(f)] = true
			}
		}
	}
	named := regexp.MustCompile("`([a-z/]+: [A-Za-z.]+)`").FindAllStringSubmatch(text, -1)
	if len(named) == 0 {
		t.Error("the section names no function; write one as `device: Device.Step`")
	}
	for _, m := range named {
		if !have[m[1]] {
			t.Errorf("CONTRIBUTING.md names the function `%s`, which does not exist; correct the path of an update",
				m[1])
		}
	}
}

// funcName is Func, or Type.Method whether or not the receiver is a pointer.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	name, ok := typ.(*ast.Ident)
	if !ok {
		return f.Name.Name
	}
	return name.Name + "." + f.Name.Name
}
