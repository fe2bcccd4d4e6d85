package lint

import (
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var arm64 = flag.String("arm64", "", "the program, built for linux/arm64, to search for fused multiply-add")

// sameBits are the packages that must compute the same bits on every platform, beside the pure ones of the table.
var sameBits = []string{"internal/engine/round", "sim"}

// mayFuse lists pure packages, and functions of others, that may use fused multiply-add, with the reason.
var mayFuse = map[string]string{
	"privacy/account":                        "functions of package math that it calls differ between platforms too",
	"internal/study/figure":                  "drawings",
	"internal/engine/local.Plan.MemoryBytes": "an estimate that is printed",
}

// On arm64 the compiler fuses x*y + z into one instruction that rounds once, and amd64 rounds twice. An explicit
// conversion, float64(x*y) + z, prevents it.
func TestNoFusedMultiplyAddWhereBitsAreEqual(t *testing.T) {
	if *arm64 == "" {
		t.Skip("requires -arm64 with a program for arm64: make arm64 builds one")
	}
	found, err := fused(*arm64)
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, where := range found {
		file := strings.TrimPrefix(strings.TrimPrefix(where.file, filepath.ToSlash(top)+"/"), module+"/")
		pkg := path.Dir(file)
		if row, known := table[pkg]; !known || !row.pure && !slices.Contains(sameBits, pkg) {
			continue
		}
		name := functionAt(t, file, where.line)
		if full := pkg + "." + name; mayFuse[full] != "" {
			used[full] = true
			continue
		}
		if mayFuse[pkg] != "" {
			used[pkg] = true
			continue
		}
		t.Errorf("%s:%d, %s: fused multiply-add; write float64(x*y) + z, or float32 alike", file, where.line, name)
	}
	for _, name := range slices.Sorted(maps.Keys(mayFuse)) {
		if !used[name] {
			t.Errorf("%s has no fused multiply-add: remove it from mayFuse", name)
		}
	}
}

type position struct {
	file string
	line int
}

// fused returns where a program for arm64 has FMADD, FMSUB, FNMADD or FNMSUB.
func fused(name string) ([]position, error) {
	f, err := elf.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, lines := f.Section(".text"), f.Section(".gopclntab")
	if f.Machine != elf.EM_AARCH64 || text == nil || lines == nil {
		return nil, fmt.Errorf("%s is not a Go program for arm64", name)
	}
	code, err := text.Data()
	if err != nil {
		return nil, err
	}
	pcln, err := lines.Data()
	if err != nil {
		return nil, err
	}
	symbols, err := gosym.NewTable(nil, gosym.NewLineTable(pcln, text.Addr))
	if err != nil {
		return nil, err
	}
	seen := map[position]bool{}
	for at := 0; at+4 <= len(code); at += 4 {
		if binary.LittleEndian.Uint32(code[at:])>>24 != 0x1f { // floating-point data processing with 3 sources
			continue
		}
		if file, line, fn := symbols.PCToLine(text.Addr + uint64(at)); fn != nil {
			seen[position{file, line}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b position) int {
		return strings.Compare(fmt.Sprintf("%s:%6d", a.file, a.line), fmt.Sprintf("%s:%6d", b.file, b.line))
	}), nil
}

// functionAt returns the declared function around a line of a file, as Type.Method or Function.
func functionAt(t *testing.T, name string, line int) string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, filepath.Join(root, name), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || line < set.Position(fn.Pos()).Line || line > set.Position(fn.End()).Line {
			continue
		}
		if fn.Recv == nil {
			return fn.Name.Name
		}
		recv := fn.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		return fmt.Sprint(recv) + "." + fn.Name.Name
	}
	return "?"
}
