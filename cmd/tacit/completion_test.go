package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completed returns the words that completion offers for the last of words, without their descriptions, and the
// number that tells the shell what to do with them.
func completed(t *testing.T, words ...string) (out []string, directive string) {
	t.Helper()
	code, text, errs := tacit(append([]string{"__complete"}, words...)...)
	if code != 0 {
		t.Fatalf("tacit __complete %q exits %d: %s", words, code, errs)
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(line, "\t")
		out = append(out, word)
	}
	return out, lines[len(lines)-1]
}

func TestCompletionOffersNames(t *testing.T) {
	for _, c := range []struct {
		line  string // a trailing space asks for the next word
		wants []string
		not   string
	}{
		{"run -m pfed", []string{"pfedrec", "pfedrec+plgc"}, "fedmf"},
		{"tune --method fedm", []string{"fedmf"}, "pfedrec"},
		{"privacy plan -m fedm", []string{"fedmf"}, "pfedrec"},
		{"serve --method fedm", []string{"fedmf"}, "pfedrec"},
		{"run -d ml-", []string{"ml-100k", "ml-1m"}, "world"},
		{"data describe w", []string{"world"}, "ml-1m"},
		{"data fetch ml", []string{"ml-100k"}, "world"},
		{"bench --sets world,ml-1", []string{"world,ml-100k", "world,ml-1m"}, "world,world"},
		{"run --protocol ", []string{"paper", "deployed", "temporal"}, ""},
		{"run --protocol paper,d", []string{"paper,deployed"}, "paper,paper"},
		{"tune --protocol dep", []string{"deployed"}, "paper"},
		{"reproduce --protocols paper,iso", []string{"paper,isolated"}, ""},
		{"reproduce ", []string{"pfedrec", "fedrap"}, "ml-100k"},
		{"reproduce pfedrec --only fedm", []string{"fedmf"}, ""},
		{"methods fedn", []string{"fedncf", "fedncf+dualper"}, "pfedrec"},
		{"run -m pfedrec l", []string{"lr=", "layers=", "loss="}, "longest="},
		{"run method=fedmf lr=0.1 d", []string{"dim="}, "lr="},
		{"run -m pfedrec loss=", []string{"loss=bce"}, "lr="},
		{"run roun", []string{"rounds="}, "lr="},
		{"tune -m fedmf di", []string{"dim="}, "lr="},
		{"serve -m fedmf di", []string{"dim="}, "lr="},
		{"fleet -m fedmf di", []string{"dim="}, "lr="},
		{"admin begin -m fedmf di", []string{"dim="}, "lr="},
		{"privacy plan -m fedmf di", []string{"dim="}, "lr="},
		{"run -m fedmf --grid di", []string{"dim="}, "data="},
		{"run --dp epsilon=8,mech", []string{"epsilon=8,mechanism="}, ""},
		{"run --dp epsilon=8,mechanism=t", []string{"epsilon=8,mechanism=tree"}, ""},
		{"run --secagg a", []string{"assumed"}, "on"},
		{"run --at 5,2", []string{"5,20"}, ""},
		{"tune --search h", []string{"halving"}, "random"},
		{"export --only items,u", []string{"items,users"}, "items,items"},
		{"run --keep-model a", []string{"auto", "always"}, "never"},
		{"run --format j", []string{"json"}, "text"},
		{"help data ", []string{"fetch", "check"}, "run"},
		{"help prot", []string{"protocols"}, "run"},
		{"completion ", []string{"bash", "zsh", "fish", "powershell"}, ""},
	} {
		got, _ := completed(t, strings.Split(c.line, " ")...)
		for _, w := range c.wants {
			if !slices.Contains(got, w) {
				t.Errorf("%q offers %q, without %s", c.line, got, w)
			}
		}
		if slices.Contains(got, c.not) {
			t.Errorf("%q offers %s", c.line, c.not)
		}
	}
}

func TestCompletionOffersRunFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{
		"runs/a/result.json", "runs/a/seed-1/result.json", "runs/b/config.toml", "runs/deep/er/c/result.json",
		"runs/search/tune.toml", "other/file.txt", ".hidden/result.json",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := filepath.FromSlash("runs/deep/er/c")
	for line, wants := range map[string][]string{
		"report ":                      {"runs/a", c, "runs/search"},
		"compare runs/a ":              {c},
		"export --run ":                {"runs/a", c},
		"recommend --run runs/d":       {c},
		"run --resume ":                {"runs/b"},
		"tune --resume ":               {"runs/search"},
		"tune save runs/":              {"runs/search"},
		"recommend --run runs/a/":      {"runs/a/seed-1"},
		"recommend --run oth":          nil, // the shell offers folders
		"export --run runs/a -o runs/": nil,
	} {
		got, directive := completed(t, strings.Split(line, " ")...)
		if !slices.Equal(got, wants) {
			t.Errorf("%q offers %q, not %q", line, got, wants)
		}
		if strings.HasSuffix(line, " oth") && directive != ":16" {
			t.Errorf("%q: the shell is told %s, not to offer folders", line, directive)
		}
	}
}

// Flags of a kind are completed in every command that has them.
func TestEveryFlagWithNamesIsCompleted(t *testing.T) {
	names := strings.Fields("method data protocol protocols sets run resume dp grid at only secagg ties sums")
	seen := 0
	everyCommand(func(_ *app, c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(names, f.Name) {
				return
			}
			seen++
			if _, ok := c.GetFlagCompletionFunc(f.Name); !ok {
				t.Errorf("%s --%s is not completed", c.CommandPath(), f.Name)
			}
		})
	})
	if seen < 40 {
		t.Errorf("only %d flags", seen)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, errs := tacit("completion", shell); code != 0 || !strings.Contains(out, "__complete") {
			t.Errorf("tacit completion %s exits %d: %s", shell, code, errs)
		}
	}
	if code, _, errs := tacit("completion", "bsh"); code != exitInput || !strings.Contains(errs, "did you mean bash?") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestTheNearestRunFolderIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"runs/tacit/result.json", "runs/tacit/config.toml", "runs/search/tune.toml"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"run --resume runs/taict":             "did you mean runs/tacit?",
		"report runs/taict":                   "did you mean runs/tacit?",
		"compare runs/taict runs/b":           "did you mean runs/tacit?",
		"export --run runs/taict":             "did you mean runs/tacit?",
		"recommend --run runs/taict --user 1": "did you mean runs/tacit?",
		"tune --resume runs/serach":           "did you mean runs/search?",
		"tune save runs/serach":               "did you mean runs/search?",
		"run --resume runs/elsewhere":         "tacit run -o DIR creates a run folder",
	} {
		code, _, errs := tacit(strings.Fields(line)...)
		if code != exitInput || !strings.Contains(filepath.ToSlash(errs), want) {
			t.Errorf("tacit %s exits %d, without %q: %s", line, code, want, errs)
		}
	}
}
