package web_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// compiler is TypeScript's compiler, which is not part of this repository; make web-check passes it.
var compiler = flag.String("tsc", "", "tsc of TypeScript, to check types")

// example is the program of the package's README.
func example(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("js/README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```ts\n(.*?)```").FindSubmatch(b)
	if m == nil {
		t.Fatal("js/README.md has no example in TypeScript")
	}
	return string(m[1])
}

// The scripts, the declarations and the README's example agree, and the compiler notices if they do not.
func TestTypes(t *testing.T) {
	dir := dist(t)
	if *compiler == "" {
		t.Skip("NOT RUN: types need TypeScript's compiler: make web-check")
	}
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	program := strings.Replace(example(t), `"@tacit/device"`, `"./device/index.js"`, 1)
	check := func(program string) ([]byte, error) {
		if err := os.WriteFile(filepath.Join(work, "example.ts"), []byte(program), 0o644); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(*compiler, "--noEmit", "--allowJs", "--strict", "--target", "es2022", "--module", "esnext",
			"--moduleResolution", "bundler", "--lib", "es2023,dom,dom.iterable", "--types", "", "page.js", "view.js",
			"device/index.js", "device/worker.js", "device/store.js", "device/index.d.ts", "example.ts")
		c.Dir = work
		return c.CombinedOutput()
	}
	if out, err := check(program); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := check(program + "\nconst wrong: number = device.recommend(10);\n"); err == nil {
		t.Errorf("a wrong type is not noticed: %s", out)
	}
}
