package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

const settingsText = `A run has settings (tacit run --help --all), and its method has parameters (tacit methods NAME).
Sources further down override those above:

  1. built-in defaults, then the method's own
  2. a preset of the method, data set and protocol: yours if it exists, otherwise the built-in one
  3. the smallest number of interactions per user that the data set or protocol requires (min-rows)
  4. a TOML file, with the method's parameters under [params]: tacit run CONFIG.toml
  5. environment variables: TACIT_ROUNDS=50, TACIT_EVAL_EVERY=5
  6. key=value words: tacit run rounds=50 lr=0.05
  7. flags: tacit run --rounds 50

tacit run --explain prints every setting and its source. tacit tune save DIR makes a search's best
settings your preset, in $TACIT_PRESETS or in your settings folder. Without a preset, the methods
tacit and ials first try a small grid and keep the best on validation items; --no-preset skips that.`

func protocolsText() string {
	var b strings.Builder
	b.WriteString("A protocol says which interactions are held out and which items a device may draw as negatives.\n" +
		"A protocol leaks if the draws depend on the held-out items.\n\n")
	for _, p := range data.Protocols() {
		text := strings.ReplaceAll(format.Wrap(p.About, helpWidth-12, ""), "\n", "\n"+strings.Repeat(" ", 12))
		fmt.Fprintf(&b, "  %-9s %s\n", p.Name, text)
	}
	b.WriteString("\nExample: tacit run -m pfedrec -d ml-100k --protocol paper\n")
	return b.String()
}

// setting is the value of a flag that sets a setting. from is its place in a file; empty for a command line.
type setting struct{ text, kind, from string }

func (s *setting) String() string { return s.text }
func (s *setting) Type() string   { return s.kind }

func (s *setting) Set(text string) error {
	s.text = text
	return nil
}

// settingFlags adds a flag for each setting except those named, and returns a function that
// lists the settings that the user set.
func settingFlags(fs *pflag.FlagSet, except ...string) func() []experiment.Setting {
	return paramFlags(fs, &experiment.Settings{}, except...)
}

// paramFlags adds a flag for each parameter of a struct.
func paramFlags(fs *pflag.FlagSet, v any, except ...string) func() []experiment.Setting {
	short := map[string]string{"method": "m", "data": "d"}
	skip := map[string]bool{}
	for _, key := range except {
		skip[key] = true
	}
	values := map[string]*setting{}
	for _, f := range param.Fields(v) {
		if skip[f.Key] {
			continue
		}
		s := &setting{text: f.Default, kind: "TEXT"}
		switch f.Type {
		case "whole number":
			s.kind = "N"
		case "number":
			s.kind = "X"
		}
		fs.VarP(s, f.Key, short[f.Key], withChoices(f.Doc, f.Choices))
		values[f.Key] = s
	}
	return func() []experiment.Setting {
		var out []experiment.Setting
		fs.Visit(func(f *pflag.Flag) {
			if v, ok := values[f.Name]; ok {
				from := cmp.Or(v.from, "flag --"+f.Name)
				out = append(out, experiment.Setting{Key: f.Name, Value: v.text, From: from})
			}
		})
		return out
	}
}

// withChoices appends the possible values to a description that neither names them all nor refers to a
// page of help that does.
func withChoices(text string, choices []string) string {
	for _, c := range choices {
		if !strings.Contains(text, c) && !strings.Contains(text, "tacit help") {
			return text + " (" + strings.Join(choices, ", ") + ")"
		}
	}
	return text
}

// dataDirFlag adds the flag that names the folder of the data sets.
func dataDirFlag(fs *pflag.FlagSet, dir *string) {
	fs.StringVar(dir, "data-dir", "", "folder of the data sets, instead of $TACIT_DATA or the cache folder")
}

// jobsFlag adds the flag that sets the number of goroutines.
func jobsFlag(fs *pflag.FlagSet, jobs *int) {
	fs.IntVarP(jobs, "jobs", "j", runtime.NumCPU(), "goroutines; the result does not depend on their number")
}

// noPreset is the setting that --no-preset stands for.
var noPreset = experiment.Setting{Key: "preset", Value: "none", From: "flag --no-preset"}

// collectSettings lists settings from the file, the environment, words and flags, in increasing precedence.
func collectSettings(c *cobra.Command, words []string,
	flags func() []experiment.Setting,
) ([]experiment.Setting, error) {
	var all []experiment.Setting
	if len(words) > 0 && strings.HasSuffix(words[0], ".toml") {
		s, err := experiment.ReadFile(words[0])
		if err != nil {
			return nil, err
		}
		all, words = s, words[1:]
	}
	all = append(all, experiment.Environment(os.Environ())...)
	if err := missingFlag(c, words); err != nil {
		return nil, err
	}
	s, err := experiment.Assignments(words, "command line")
	if err != nil {
		return nil, err
	}
	return append(append(all, s...), flags()...), nil
}

// missingFlag recognises the name of a method or a data set without its flag.
func missingFlag(c *cobra.Command, words []string) error {
	for _, w := range words {
		if _, err := methods.Default().Lookup(w); err == nil {
			return input(fmt.Errorf("unexpected argument %q: a method needs the flag -m", w),
				"did you mean: "+c.CommandPath()+" -m "+w)
		}
		for _, k := range data.KnownSets() {
			if k.Name == w {
				return input(fmt.Errorf("unexpected argument %q: a data set needs the flag -d", w),
					"did you mean: "+c.CommandPath()+" -d "+w)
			}
		}
	}
	return nil
}

// explain prints every setting with its source.
func (a *app) explain(s *experiment.Spec) error {
	t := report.Table{Title: "settings", Header: []string{"key", "value", "from"}}
	rows := map[string]map[string]any{}
	for _, target := range []any{&s.Settings, s.Params} {
		values := param.Values(target)
		for _, f := range param.Fields(target) {
			from := s.From[f.Key]
			if from == "" {
				from = "default"
			}
			rows[f.Key] = map[string]any{"value": values[f.Key], "from": from}
			t.Rows = append(t.Rows, []any{f.Key, fmt.Sprint(values[f.Key]), from})
		}
	}
	return a.result(rows, t.Text)
}

// hide keeps flags out of the help.
func hide(fs *pflag.FlagSet, names ...string) {
	for _, name := range names {
		fs.Lookup(name).Hidden = true
	}
}

// oldFlag accepts the former name of a flag.
func oldFlag(fs *pflag.FlagSet, old, name string) {
	f := *fs.Lookup(name)
	f.Name, f.Shorthand = old, ""
	f.Hidden = true
	fs.AddFlag(&f)
}
