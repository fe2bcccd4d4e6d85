package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestTunePrintsNoTestMetrics(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t")
	code, out, errs := tacit("tune", "-m", "fedmf", "-d", "world", "--world", small, "--rounds", "6", "--trials", "10",
		"lr=0.01..1,log", "-o", dir, "--format", "json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	data := decode(t, out)["data"].(map[string]any)
	if data["method"] != "fedmf" || data["trials"] != 10.0 || data["best"] == nil || data["default"] == nil ||
		strings.Contains(out, `"test`) {
		t.Errorf("the envelope is %s", out)
	}
	if !strings.Contains(errs, "search    fedmf on world") || !strings.Contains(errs, "rung 1/2  trial 10/10") {
		t.Errorf("progress is %s", errs)
	}
	code, out, errs = tacit("tune", "--resume", dir) // a finished search tells it again
	if code != 0 || !strings.Contains(out, "best settings on validation") ||
		!strings.Contains(out, "0 (current)") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	code, out, errs = tacit("run", filepath.Join(dir, "preset.toml"), "--no-references", "--format", "json")
	if code != 0 {
		t.Fatalf("the preset does not run: exit %d: %s", code, errs)
	}
	ran := decode(t, out)["data"].(map[string]any)
	if a, b := at(ran, "valid", "sampled", "hr@10"), at(data["best"], "value"); a != b {
		t.Errorf("a run of the preset has a validation HR@10 of %g, the search found %g", a, b)
	}
}

func TestRunUsesSavedPreset(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine")
	t.Setenv("TACIT_PRESETS", mine)
	dir := filepath.Join(t.TempDir(), "t")
	if code, _, errs := tacit("tune", "-m", "fedmf", "-d", "world", "--rounds", "2", "--trials", "2", "lr=0.01|0.02",
		"-o", dir, "-q"); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if code, out, errs := tacit("tune", "save", dir); code != 0 ||
		!strings.Contains(out, "saved preset fedmf/world/deployed to "+mine) {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	_, out, _ := tacit("run", "-m", "fedmf", "-d", "world", "--explain")
	if !strings.Contains(out, "preset fedmf/world/deployed, "+mine) {
		t.Errorf("--explain does not name the preset:\n%s", out)
	}
	for _, c := range []struct {
		words string
		want  any
	}{
		{"", "fedmf/world/deployed"},
		{"--no-preset", nil},
		{"--protocol paper", nil},
		{"--preset " + filepath.Join(dir, "preset.toml") + " --protocol paper", "fedmf/world/deployed"},
	} {
		words := append([]string{
			"run", "-m", "fedmf", "-d", "world", "--rounds", "2", "--no-references", "--format",
			"json",
		}, strings.Fields(c.words)...)
		_, out, errs := tacit(words...)
		if got := decode(t, out)["data"].(map[string]any)["preset"]; got != c.want {
			t.Errorf("with %q the preset is %v, want %v", c.words, got, c.want)
		}
		if c.want != nil && !strings.Contains(errs, "preset fedmf/world/deployed (") {
			t.Errorf("with %q the card does not name the preset: %s", c.words, errs)
		}
	}
}

func TestInvalidSearchesExitWith2(t *testing.T) {
	for words, want := range map[string]string{
		"tune -m fedmf -d world":                    "a search logs its trials in a folder",
		"tune -m fedmf -d world lrr=1..2 -o x":      `did you mean "lr"?`,
		"tune -m fedmf -d world nonsense -o x":      `unknown key "nonsense"`,
		"tune -m fedmf -d world --trials 0 -o x":    "trials = 0",
		"tune -m fedmf -d world --search grid -o x": "must be one of halving, random",
		"tune -m fedmf -d nothing-here -o x":        "unknown data set",
		"tune --resume /nonexistent":                "tune.toml",
		"tune --resume /nonexistent lr=1":           "no others can be given",
		"tune save /nonexistent":                    "preset.toml",
		"tune save": "missing argument: expected tacit tune save " +
			"DIR|PRESET.toml",
		"tune -j 0":                 "-j 0",
		"tune missing.toml -o x":    "missing.toml",
		"run --preset missing.toml": "missing.toml",
		"run --preset best":         "must be auto, built-in, none or a .toml file",
		"tune -m fedmf -d world --metric full --protocol isolated": "ranks sampled candidates only",
	} {
		if code, _, errs := tacit(strings.Fields(words)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("tacit %s: exit %d, want 2; it says %q, want %q in it", words, code, errs, want)
		}
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("a bad search leaves a folder behind")
	}
}

// A search that was interrupted or killed resumes to the answer of an undisturbed search.
func TestResumedSearchHasTheSameAnswer(t *testing.T) {
	words := []string{
		"tune", "-m", "pfedrec", "-d", "world", "--world", "users=200,items=300,mean-rows=20",
		"--rounds", "60", "--trials", "30", "--format", "json",
	}
	whole := filepath.Join(t.TempDir(), "whole")
	if code, _, errs := tacit(append(words, "-o", whole)...); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	want := presetOf(t, whole)
	for signal, exit := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGKILL: -1} {
		part, out := interrupted(t, words, "trials.jsonl", 5, signal, exit)
		if signal == syscall.SIGINT {
			var v struct{ Error struct{ Code, Hint string } }
			if err := json.Unmarshal([]byte(out), &v); err != nil || v.Error.Code != "stopped" ||
				v.Error.Hint != "resume with: tacit tune --resume "+part {
				t.Errorf("stopped, it says %s", out)
			}
		}
		if code, _, errs := tacit("tune", "--resume", part); code != 0 {
			t.Fatalf("%v: resume exits %d: %s", signal, code, errs)
		}
		if got := presetOf(t, part); got != want {
			t.Errorf("%v: the preset is\n%s\nwant\n%s", signal, got, want)
		}
	}
}

func presetOf(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "preset.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
