package lint

import (
	"bytes"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The worked method of the guide must work. The test extracts it from the guide and builds
// it in a module of its own, with public packages only. It must pass the conformance suite,
// run in a simulation, and train on a coordinator with devices over TCP.
func TestTheMethodInTheGuideConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and tests a module: run without -short")
	}
	dir := t.TempDir()
	for name, code := range guideFiles(t) {
		write(t, filepath.Join(dir, name), code)
	}
	home, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.mod"), "module example.com/toy\n\ngo 1.26.0\n\nrequire "+module+
		" v0.0.0\n\nreplace "+module+" => "+strconv.Quote(filepath.ToSlash(home))+"\n")
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.sum"), string(sums))

	test := exec.Command("go", "test", "-v", "-count=1", "./...")
	test.Dir = dir
	test.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOPROXY=off", "GOWORK=off")
	out, err := test.CombinedOutput()
	if err != nil {
		t.Fatalf("the method in docs/add-a-method.md does not pass its test (%v); correct the page, or the change "+
			"that broke it:\n%s", err, out)
	}
	for _, name := range []string{"TestBiasedRunsInSimulation", "TestBiasedTrainsOnDevices"} {
		if !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
			t.Errorf("the method in docs/add-a-method.md did not pass %s:\n%s", name, out)
		}
	}
	for _, check := range suite(t) {
		if !bytes.Contains(out, []byte("--- PASS: TestBiasedConforms/"+check+" ")) {
			t.Errorf("the method in docs/add-a-method.md was not checked for %s:\n%s", check, out)
		}
	}
}

// guideFiles returns the Go blocks of the guide that start with `// file: NAME`.
func guideFiles(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", "add-a-method.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```go\n// file: (\\S+)\n(.*?)^```$").FindAllStringSubmatch(string(b),
		-1) {
		out[m[1]] = m[2]
	}
	for _, name := range []string{"toy.go", "toy_test.go"} {
		if out[name] == "" {
			t.Fatalf("docs/add-a-method.md has no Go block that starts with `// file: %s`", name)
		}
	}
	if n := strings.Count(out["toy.go"], "\n"); n > 80 {
		t.Errorf("the method in docs/add-a-method.md has %d lines, want at most 80: a first method must look easy", n)
	}
	return out
}

// suite returns the names of the conformance checks, from conform's table.
func suite(t *testing.T) []string {
	t.Helper()
	s, err := read("conform/conform.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(s.ast, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != "checks" {
			return true
		}
		ast.Inspect(v, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				if name, err := strconv.Unquote(lit.Value); err == nil {
					names = append(names, name)
				}
			}
			return true
		})
		return false
	})
	if len(names) < 5 {
		t.Fatalf("found the checks %v in conform/conform.go, want its whole table `checks`; correct this test if "+
			"the table has moved", names)
	}
	return names
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
