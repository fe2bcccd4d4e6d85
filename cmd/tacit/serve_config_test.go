package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeTemp(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file has the keys of the flags, and flags win. What --print-config prints is such a file.
func TestServeReadsAConfigurationFile(t *testing.T) {
	path := writeTemp(t, "serve.toml", `
listen = "127.0.0.1:0"
metrics = "127.0.0.1:9"
data = "world"
devices = 80
deadline = "10m"
dp = "epsilon=8"
cohort = "poisson:0.5"
deterministic = true
user-column = ["age=young|old", "tone=x"]

[params]
dim = 4
decay = 1e-6
`)
	code, out, errs := tacit("serve", "--config", path, "--metrics", "", "--rounds", "7", "dim=8", "--print-config")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{
		"\nlisten = '127.0.0.1:0'\n", "\nmetrics = ''\n", "\ndevices = 80\n", "\nrounds = '7'\n",
		"\ndeadline = '10m0s'\n",
		"\ndeterministic = true\n", "\nuser-column = ['age=young|old', 'tone=x']\n", "\ndim = '8'\n",
		"\ndecay = '1e-06'\n", "\n# goal = 1\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "dim = '4'") {
		t.Error("the file wins over the command line")
	}
	again := writeTemp(t, "again.toml", out)
	if code, second, errs := tacit("serve", "--config", again, "--print-config"); code != 0 || second != out {
		t.Errorf("exit %d, %s; what was printed is read as\n%s", code, errs, second)
	}
}

func TestServeRejectsBadConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"listne = ':1'":                    `unknown key "listne"`,
		"repair = true":                    `unknown key "repair"`,
		"noise = 1":                        `unknown key "noise"`,
		"devices = 'many'":                 "line 1 of",
		"listen = ':1'\ndevices = 'many'":  "c.toml: devices = many: must be an integer",
		"\ndevices = [1]":                  "devices = [1]: must be an integer, not a list",
		"\ndeadline = 5":                   "deadline = 5: must be a time such as 30s or 5m",
		"\n\nlistne = ':1'":                `line 3 of`,
		"devices = 1\ndevices = 2":         "line 2",
		"[params]\n[other]\nx = 1":         `unknown key "other"`,
		"log-level = 'loud'\nlisten='x:0'": "--log-level loud",
		"data='world'\nrounds = 'two'":     "line 2 of",
		"rounds = 5":                       "the settings of a run need its items",
	} {
		rejected(t, want, "serve", "--state", filepath.Join(t.TempDir(), "s"), "--config", writeTemp(t, "c.toml", text))
	}
	_, _, errs := tacit("serve", "--config", writeTemp(t, "c.toml", "listne = ':1'"))
	if !strings.Contains(errs, "did you mean listen?") {
		t.Errorf("no hint: %s", errs)
	}
	rejected(t, "no.toml", "serve", "--config", "no.toml")
}
