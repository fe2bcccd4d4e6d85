package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/coordinator"
)

// codeBlock matches a block of code in a page.
var codeBlock = regexp.MustCompile("(?s)```(sh|json)\n(.*?)```")

// The commands of docs/admin-api.md run as they are written, and their answers have the keys that the page shows.
func TestCurlExamplesOfTheAdminAPI(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	dir := serving(t)
	w, err := readLocalAccess(dir)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/admin-api.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := codeBlock.FindAllStringSubmatch(string(page), -1)
	prelude := strings.NewReplacer("/var/lib/tacit/state", dir, "https://127.0.0.1:7633", w.URL).Replace(blocks[0][2])
	out, commands := "", 0
	for _, b := range blocks[1:] {
		if b[1] == "sh" {
			commands++
			text, err := exec.Command("sh", "-euc", prelude+b[2]).CombinedOutput()
			if out = string(text); err != nil {
				t.Errorf("%s%v: %s", b[2], err, out)
			}
			continue
		}
		var shown, got any
		if err := json.Unmarshal([]byte(b[2]), &shown); err != nil {
			t.Fatalf("%v: %s", err, b[2])
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, missing := range missingKeys(shown, got, "") {
			t.Errorf("the page shows %s, and the answer lacks it: %s", missing, out)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "model.zip")); commands < 10 || err != nil || info.Size() < 100 {
		t.Errorf("%d commands ran; the export: %v, %v", commands, info, err)
	}
	for _, call := range adminCallsOf(t) {
		if !strings.Contains(string(page), "`"+call) {
			t.Errorf("the page does not list %s", call)
		}
	}
}

// missingKeys lists the keys of a value that another one does not have; for lists, of their first elements.
func missingKeys(want, got any, at string) (out []string) {
	switch want := want.(type) {
	case map[string]any:
		other, _ := got.(map[string]any)
		for key, value := range want {
			x, ok := other[key]
			if !ok {
				out = append(out, at+"."+key)
				continue
			}
			out = append(out, missingKeys(value, x, at+"."+key)...)
		}
	case []any:
		other, _ := got.([]any)
		if len(want) > 0 && len(other) > 0 {
			return missingKeys(want[0], other[0], at+"[0]")
		}
		if len(want) > 0 {
			out = append(out, at+"[0]")
		}
	default:
		if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
			out = append(out, fmt.Sprintf("%s as %T", at, want))
		}
	}
	return out
}

// adminCallsOf lists the calls that the coordinator has, from its table.
func adminCallsOf(t *testing.T) (out []string) {
	t.Helper()
	b, err := os.ReadFile("../../coordinator/admin_http.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t"((?:GET|POST) [a-z/-]+)":`).FindAllStringSubmatch(string(b), -1) {
		out = append(out, m[1])
	}
	if len(out) < 15 {
		t.Fatalf("only %d calls were found", len(out))
	}
	return out
}

// The pages name every field of the status and every state of a coordinator.
func TestPagesNameFieldsAndStates(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	names := func(page string, words []string, least int) {
		text := read(page)
		for _, word := range words {
			if !strings.Contains(text, "`"+word+"`") {
				t.Errorf("%s does not name %s", page, word)
			}
		}
		if len(words) < least {
			t.Errorf("only %d names for %s were found", len(words), page)
		}
	}
	b, err := json.Marshal(coordinator.Status{})
	var status map[string]any
	if err = errors.Join(err, json.Unmarshal(b, &status)); err != nil {
		t.Fatal(err)
	}
	names("docs/admin-api.md", slices.Collect(maps.Keys(status)), 25)
	var states []string
	for _, m := range regexp.MustCompile(`(?:State|Fault) += "([a-z-]+)"`).FindAllStringSubmatch(
		read("coordinator/state.go")+read("internal/store/health.go"), -1) {
		states = append(states, m[1])
	}
	names("docs/operate.md", states, 18)
}
