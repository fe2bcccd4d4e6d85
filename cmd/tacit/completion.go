package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/reproduce"
	"github.com/tacit-rec/tacit/internal/study/tune"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy"
)

// completer lists what may follow the words of a command; part is the beginning of the word to complete.
type completer = cobra.CompletionFunc

const (
	noFiles = cobra.ShellCompDirectiveNoFileComp
	noSpace = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	folders = cobra.ShellCompDirectiveFilterDirs
	files   = cobra.ShellCompDirectiveDefault
)

// completions adds the completion of names, parameters and run folders to a command and those below it. Flags of the
// same name take the same values in every command.
func completions(c *cobra.Command) {
	words := map[string]completer{
		"tacit methods":    firstWord(methodNames, noFiles),
		"tacit data fetch": firstWord(fetchedSets, noFiles), "tacit data describe": firstWord(setNames, files),
		"tacit data check": firstWord(setNames, files), "tacit reproduce": firstWord(paperNames, noFiles),
		"tacit compare": completeFolders(runMarks), "tacit report": completeFolders(reportMarks),
		"tacit tune save": completeFolders(searchMarks),
	}[c.CommandPath()]
	switch {
	case words != nil:
		c.ValidArgsFunction = words
	case strings.Contains(c.Use, "key=value"):
		c.ValidArgsFunction = completeSettings
	case c.ValidArgs == nil && c.Args != nil && !c.HasSubCommands() && !strings.Contains(c.Use, "FILE"):
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if complete := flagValues(c, f); complete != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, complete)
		}
	})
	for _, sub := range c.Commands() {
		completions(sub)
	}
}

// flagValues returns the completer of a flag; nil if its values are files, folders or free text.
func flagValues(c *cobra.Command, f *pflag.Flag) completer {
	switch f.Name {
	case "method":
		return oneOf(methodNames, noFiles)
	case "data":
		return oneOf(setNames, files)
	case "protocol":
		if c.Name() == "run" {
			return listOf(protocolNames)
		}
		return oneOf(protocolNames, noFiles)
	case "protocols":
		return listOf(protocolNames)
	case "sets":
		return listOf(setNames)
	case "only":
		if c.Name() == "export" {
			return listOf(named(exported...))
		}
		return listOf(methodNames)
	case "run":
		return completeFolders(runMarks)
	case "resume":
		if c.Name() == "tune" {
			return completeFolders(searchMarks)
		}
		return completeFolders(configMarks)
	case "dp":
		return completeDP
	case "grid":
		return completeGrid
	case "at":
		return listOf(cutoffs)
	case "preset":
		return oneOf(named("auto", "built-in", "none"), files)
	case "cohort":
		return oneOf(named("all", "100", "10%", "poisson:0.1", "cycle:100", "cycle:2%", "checkin:100/20"), noFiles)
	case "keep-model":
		return oneOf(named("auto", "always", "never"), noFiles)
	case "as":
		if c.Name() == "export" && c.Parent() == c.Root() {
			return oneOf(named(exportFormats...), noFiles)
		}
		return oneOf(named("npy", "csv"), noFiles)
	case "log-format":
		return oneOf(named("text", "json"), noFiles)
	case "log-level":
		return oneOf(named("debug", "info", "warn", "error"), noFiles)
	case "data-dir", "runs", "cells", "figures":
		if f.Value.Type() == "string" {
			return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return nil, folders }
		}
	}
	if words := settingChoices()[f.Name]; len(words) > 0 {
		return oneOf(named(words...), noFiles)
	}
	return nil
}

// settingChoices are the values of the settings that have few.
var settingChoices = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for _, v := range []any{&experiment.Settings{}, &tune.Options{}} {
		for _, p := range param.Fields(v) {
			out[p.Key] = p.Choices
		}
	}
	return out
})

// choices lists words, each followed by a tab and a description, if it has one.
type choices func() []string

func described(word, text string) string {
	if text == "" {
		return word
	}
	return word + "\t" + shorten(text, 70)
}

func named(words ...string) choices { return func() []string { return words } }

func methodNames() (out []string) {
	for _, e := range append(methods.Default().Entries(), methods.Default().Composed()...) {
		out = append(out, described(e.Name, e.Title))
	}
	return out
}

func setNames() []string {
	out := []string{described("world", "synthetic film catalogue, built in")}
	for _, k := range data.KnownSets() {
		out = append(out, described(k.Name, k.About))
	}
	return out
}

func fetchedSets() (out []string) {
	for _, k := range data.KnownSets() {
		if k.Archive.URL != "" {
			out = append(out, described(k.Name, k.About))
		}
	}
	return out
}

func protocolNames() (out []string) {
	for _, p := range data.Protocols() {
		out = append(out, described(p.Name, p.About))
	}
	return out
}

func paperNames() (out []string) {
	for _, p := range reproduce.Papers() {
		out = append(out, described(p.Name, p.Title))
	}
	return out
}

func cutoffs() (out []string) {
	for _, k := range metrics.KS {
		out = append(out, fmt.Sprint(k))
	}
	return out
}

// oneOf completes one word.
func oneOf(all choices, otherwise cobra.ShellCompDirective) completer {
	return func(_ *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return beginning(all(), part), otherwise
	}
}

// firstWord completes the only argument of a command.
func firstWord(all choices, otherwise cobra.ShellCompDirective) completer {
	return func(_ *cobra.Command, words []string, part string) ([]string, cobra.ShellCompDirective) {
		if len(words) > 0 {
			return nil, noFiles
		}
		return beginning(all(), part), otherwise
	}
}

// listOf completes the last of several words with commas between them.
func listOf(all choices) completer {
	return func(_ *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndex(part, ",") + 1
		before := strings.Split(part[:at], ",")
		var out []string
		for _, w := range beginning(all(), part[at:]) {
			if name, _, _ := strings.Cut(w, "\t"); !slices.Contains(before, name) {
				out = append(out, part[:at]+w)
			}
		}
		return out, noFiles
	}
}

// beginning returns the words that begin with part.
func beginning(words []string, part string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, part) })
}

func completeHelp(c *cobra.Command, words []string, part string) ([]string, cobra.ShellCompDirective) {
	found, rest, err := c.Root().Find(words)
	if err != nil || len(rest) > 0 {
		return nil, noFiles
	}
	var out []string
	for _, s := range found.Commands() {
		if s.IsAvailableCommand() || isTopic(s) {
			out = append(out, described(s.Name(), s.Short))
		}
	}
	return beginning(out, part), noFiles
}

// completeSettings completes the key=value words of a command: parameters of the method that the command line names.
func completeSettings(c *cobra.Command, words []string, part string) ([]string, cobra.ShellCompDirective) {
	if key, _, ok := strings.Cut(part, "="); ok {
		for _, p := range append(commandFields(c, words), param.Fields(&experiment.Settings{})...) {
			if p.Key == key {
				return beginning(pairsOf(p), part), noFiles
			}
		}
		return nil, noFiles
	}
	given := map[string]bool{}
	for _, w := range words {
		key, _, _ := strings.Cut(w, "=")
		given[key] = true
	}
	all := commandFields(c, words)
	if part != "" && c.Flag("rounds") != nil { // settings have flags, which are listed elsewhere
		all = append(all, param.Fields(&experiment.Settings{})...)
	}
	var out []string
	for _, p := range all {
		if !given[p.Key] && strings.HasPrefix(p.Key, part) {
			out = append(out, described(p.Key+"=", p.Doc))
		}
	}
	if len(words) == 0 && strings.Contains(c.Use, ".toml") && len(out) == 0 {
		return []string{"toml"}, cobra.ShellCompDirectiveFilterFileExt
	}
	return out, noSpace
}

// commandFields lists the parameters of the method that a command line names.
func commandFields(c *cobra.Command, words []string) []param.Field {
	name := "tacit"
	if f := c.Flag("method"); f != nil && f.Value.String() != "" {
		name = f.Value.String()
	}
	if f := c.Flag("method"); f == nil || !f.Changed {
		for _, w := range words {
			if strings.HasSuffix(w, ".toml") {
				settings, _ := experiment.ReadFile(w)
				for _, s := range settings {
					if s.Key == "method" {
						name = s.Value
					}
				}
			}
			if value, ok := strings.CutPrefix(w, "method="); ok {
				name = value
			}
		}
	}
	e, err := methods.Default().Lookup(name)
	if err != nil {
		return nil
	}
	return param.Fields(e.Build())
}

// pairsOf lists key=value words of a parameter: its choices, or its default.
func pairsOf(p param.Field) (out []string) {
	values := p.Choices
	if p.Type == "true or false" || p.Default == "true" || p.Default == "false" {
		values = []string{"true", "false"}
	}
	for _, v := range values {
		out = append(out, p.Key+"="+v)
	}
	if len(out) == 0 && p.Default != "" {
		out = append(out, described(p.Key+"="+p.Default, "the default"))
	}
	return out
}

// completeGrid completes the keys of --grid.
func completeGrid(c *cobra.Command, words []string, part string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(part, "=") {
		return nil, noFiles
	}
	var out []string
	for _, p := range append(commandFields(c, words), param.Fields(&experiment.Settings{})...) {
		if !slices.Contains(notInGrid, p.Key) && strings.HasPrefix(p.Key, part) {
			out = append(out, described(p.Key+"=", p.Doc))
		}
	}
	return out, noSpace
}

// completeDP completes the keys of --dp and those of their values that are words.
func completeDP(_ *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
	at := strings.LastIndex(part, ",") + 1
	key, _, valued := strings.Cut(part[at:], "=")
	var out []string
	for _, k := range privacy.Keys() {
		switch {
		case valued && k.Name == key:
			for _, v := range k.Choices {
				out = append(out, part[:at]+key+"="+v)
			}
			return beginning(out, part), noFiles
		case !valued:
			out = append(out, part[:at]+described(k.Name+"=", k.About))
		}
	}
	return beginning(out, part), noSpace
}

// The files that mark folders of finished runs, of runs to resume, of searches, and of whatever a report shows.
var (
	runMarks    = []string{experiment.ResultFile}
	configMarks = []string{experiment.ConfigFile, severalFile}
	searchMarks = []string{tune.ConfigFile}
	reportMarks = []string{experiment.ResultFile, tune.ConfigFile}
)

// Limits of the search for run folders, so that completion answers at once in large folders.
const (
	folderDepth   = 4
	folderEntries = 20_000
)

// completeFolders completes folders below the path typed so far that hold one of the files marks. Without such folders,
// the shell completes folders.
func completeFolders(marks []string) completer {
	return func(_ *cobra.Command, words []string, part string) ([]string, cobra.ShellCompDirective) {
		dir, begin := filepath.Split(part)
		left := folderEntries
		var out []string
		var search func(dir, begin string, depth int)
		search = func(dir, begin string, depth int) {
			entries, err := os.ReadDir(filepath.Join(dir, "."))
			if left -= len(entries); err != nil || left < 0 {
				return
			}
			for _, e := range entries {
				name := e.Name()
				hidden := strings.HasPrefix(name, ".") && !strings.HasPrefix(begin, ".")
				if hidden || !strings.HasPrefix(name, begin) {
					continue
				}
				path := dir + name
				if st, err := os.Stat(path); err != nil || !st.IsDir() {
					continue
				}
				if slices.ContainsFunc(marks, func(m string) bool { return exists(filepath.Join(path, m)) }) {
					if !slices.Contains(words, path) {
						out = append(out, path)
					}
				} else if depth > 1 {
					search(path+string(filepath.Separator), "", depth-1)
				}
			}
		}
		search(dir, begin, folderDepth)
		if len(out) == 0 {
			return nil, folders
		}
		return out, noFiles
	}
}

// nearestFolder returns the hint for a folder that does not hold what it should: a folder of a similar name that does,
// beside it, or otherwise the hint of the caller. A folder that holds what it should and is corrupt has no other name.
func nearestFolder(path string, marks []string, otherwise string) string {
	dir, name := filepath.Split(filepath.Clean(path))
	entries, _ := os.ReadDir(filepath.Join(dir, "."))
	var names []string
	for _, e := range entries[:min(len(entries), folderEntries)] {
		at := filepath.Join(dir, e.Name())
		if slices.ContainsFunc(marks, func(m string) bool { return exists(filepath.Join(at, m)) }) {
			names = append(names, e.Name())
		}
	}
	if near := param.Nearest(name, names); near != "" && !slices.Contains(names, name) {
		return "did you mean " + dir + near + "?"
	}
	return otherwise
}

// completionCmd prints the completion script of a shell.
func (a *app) completionCmd() *cobra.Command {
	shells := map[string]func(*cobra.Command) error{
		"bash":       func(root *cobra.Command) error { return root.GenBashCompletionV2(a.out, true) },
		"zsh":        func(root *cobra.Command) error { return root.GenZshCompletion(a.out) },
		"fish":       func(root *cobra.Command) error { return root.GenFishCompletion(a.out, true) },
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(a.out) },
	}
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print a completion script for bash, zsh, fish or powershell",
		Long: `The script completes commands and flags when you press Tab, and names: methods, data sets,
protocols, papers, parameters of the method (lr=) and run folders.`,
		Example: "  source <(tacit completion bash)\n  tacit completion zsh > \"${fpath[1]}/_tacit\"\n" +
			"  tacit completion fish > ~/.config/fish/completions/tacit.fish",
		Args: exactArgs(1), ValidArgs: slices.Sorted(maps.Keys(shells)),
		RunE: func(c *cobra.Command, words []string) error {
			script, ok := shells[words[0]]
			if !ok {
				names := slices.Sorted(maps.Keys(shells))
				hint := "supported: " + strings.Join(names, ", ")
				if near := param.Nearest(words[0], names); near != "" {
					hint = fmt.Sprintf("did you mean %s? %s", near, hint)
				}
				return input(fmt.Errorf("unknown shell %q", words[0]), hint)
			}
			return script(c.Root())
		},
	}
}
