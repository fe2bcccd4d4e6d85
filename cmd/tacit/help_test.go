package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/tune"
	"github.com/tacit-rec/tacit/param"
)

// everyCommand calls f for each command that users see.
func everyCommand(f func(a *app, c *cobra.Command)) {
	a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		f(a, c)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(a.root())
}

func TestHelpFitsAScreen(t *testing.T) {
	longer := map[string]int{
		"tacit": 45, "tacit run": 44, "tacit tune": 40, "tacit serve": 40, "tacit fleet": 40, "tacit device": 42,
		"tacit admin begin": 38, "tacit admin": 42,
	}
	everyCommand(func(a *app, c *cobra.Command) {
		var out bytes.Buffer
		c.SetOut(&out)
		a.help(c, nil)
		lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if most := max(30, longer[c.CommandPath()]); len(lines) > most {
			t.Errorf("%s --help has %d lines, more than %d", c.CommandPath(), len(lines), most)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > helpWidth+4 {
				t.Errorf("%s --help has a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
		if !strings.HasSuffix(lines[0], ".") {
			t.Errorf("%s --help starts with %q, not with a summary", c.CommandPath(), lines[0])
		}
	})
}

func TestEveryFlagHasAHeadingAndAShortText(t *testing.T) {
	everyCommand(func(a *app, c *cobra.Command) {
		page, ok := a.pages[c]
		var names []string
		for _, g := range page.groups {
			names = append(names, g.common...)
			names = append(names, g.rare...)
		}
		for _, name := range names {
			if c.Flags().Lookup(name) == nil {
				t.Errorf("%s --help lists --%s, which does not exist", c.CommandPath(), name)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || c.Root().PersistentFlags().Lookup(f.Name) != nil {
				return
			}
			if ok && len(names) > 0 && !slices.Contains(names, f.Name) {
				t.Errorf("%s --%s is under no heading", c.CommandPath(), f.Name)
			}
			if n := utf8.RuneCountInString(f.Usage); n > 90 && !strings.HasSuffix(f.Usage, ")") {
				t.Errorf("%s --%s: the text has %d letters, more than 90", c.CommandPath(), f.Name, n)
			}
		})
	})
}

// shellWords splits a line as a shell does, without comment and redirection.
func shellWords(line string) []string {
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " >")
	return strings.Fields(strings.ReplaceAll(line, "'", ""))
}

func TestExamplesInHelpAreValid(t *testing.T) {
	seen := 0
	everyCommand(func(_ *app, c *cobra.Command) {
		for _, line := range strings.Split(c.Example, "\n") {
			words := shellWords(line)
			if len(words) == 0 || words[0] != "tacit" {
				continue
			}
			seen++
			a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
			found, rest, err := a.root().Find(words[1:])
			if err != nil {
				t.Errorf("%q: %v", line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
				continue
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			checkSettings(t, line, found)
		}
	})
	if seen < 60 {
		t.Errorf("only %d examples", seen)
	}
}

// checkSettings resolves the settings of an example.
func checkSettings(t *testing.T, line string, c *cobra.Command) {
	t.Helper()
	if !strings.Contains(c.Use, "key") || c.Name() == "plan" || c.Flags().Changed("resume") {
		return
	}
	var given []experiment.Setting
	keys := append(param.Keys(&experiment.Settings{}), param.Keys(&tune.Options{})...)
	c.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(keys, f.Name) && f.Value.Type() != "int" {
			given = append(given, experiment.Setting{Key: f.Name, Value: f.Value.String(), From: "flag --" + f.Name})
		}
	})
	words := slices.DeleteFunc(slices.Clone(c.Flags().Args()), func(w string) bool {
		return strings.HasSuffix(w, ".toml")
	})
	var err error
	if c.Name() == "tune" {
		var s []experiment.Setting
		if s, err = tune.Words(words); err == nil {
			_, err = tune.New(append(given, s...))
		}
	} else {
		var s []experiment.Setting
		if s, err = experiment.Assignments(words, "command line"); err == nil {
			_, err = experiment.Resolve(append(given, s...))
		}
	}
	if err != nil {
		t.Errorf("%q: %v", line, err)
	}
}

func TestHelpAllShowsMoreFlags(t *testing.T) {
	code, short, _ := tacit("run", "--help")
	if code != 0 || strings.Contains(short, "--straggle") || !strings.Contains(short, "tacit run --help --all") {
		t.Errorf("exit %d:\n%s", code, short)
	}
	code, long, _ := tacit("run", "--help", "--all")
	if code != 0 || !strings.Contains(long, "--straggle") || strings.Contains(long, "--help --all") {
		t.Errorf("exit %d:\n%s", code, long)
	}
	for _, topic := range []string{"exit-codes", "protocols", "settings"} {
		if code, out, _ := tacit("help", topic); code != 0 || len(out) < 200 {
			t.Errorf("tacit help %s exits %d and prints %q", topic, code, out)
		}
	}
	if code, out, _ := tacit("help", "data", "fetch"); code != 0 || !strings.Contains(out, "tacit data fetch NAME") {
		t.Errorf("tacit help data fetch exits %d and prints %q", code, out)
	}
}
