package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// pageCommand is a command that a page shows.
type pageCommand struct {
	page   string
	line   int
	text   string
	inline bool // part of a sentence, where values may be placeholders such as DIR
}

func (c pageCommand) String() string { return fmt.Sprintf("%s:%d: %s", c.page, c.line, c.text) }

// ours matches the beginning of a command that this repository makes: the program or a target of the Makefile.
var ours = regexp.MustCompile(`^(\./)?(tacit|make) `)

// wrappers matches the words that may precede a command on its line.
var wrappers = regexp.MustCompile(`^(\$ |sudo |nohup |time |-u \S+ |exec |[A-Z_]+=\S+ )+`)

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// commandsOf lists the commands of a page: the lines of its blocks of code, and the code in its sentences.
func commandsOf(page, text string) (out []pageCommand) {
	add := func(n int, code string, inline bool) {
		for _, part := range shellParts(code) {
			if part = wrappers.ReplaceAllString(strings.TrimSpace(part), ""); ours.MatchString(part) {
				out = append(out, pageCommand{page, n, part, inline})
			}
		}
	}
	fenced, shell, session, held, began := false, false, false, "", 0
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
			session = fenced && trimmed[3:] == "console" // commands after a prompt, and their output
			shell = fenced && (session || trimmed == "```" || trimmed == "```sh")
		case session && !strings.HasPrefix(trimmed, "$ "):
		case fenced && shell, !fenced && strings.HasPrefix(line, "    "):
			if held == "" {
				began = n
			}
			held += strings.TrimSuffix(trimmed, "\\") + " "
			if !strings.HasSuffix(trimmed, "\\") {
				add(began, held, false)
				held = ""
			}
		case !fenced:
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				add(n, m[1], true)
			}
		}
	}
	return out
}

// shellParts splits a line of shell at pipes, lists, substitutions and comments.
func shellParts(line string) []string {
	var out []string
	var part strings.Builder
	quote := rune(0)
	before := ' '
	for _, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
			part.WriteRune(r)
		case r == '\'' || r == '"':
			quote = r
			part.WriteRune(r)
		case r == '#' && before == ' ':
			return append(out, part.String())
		case strings.ContainsRune("|;&()<>", r):
			out = append(out, part.String())
			part.Reset()
		default:
			part.WriteRune(r)
		}
		before = r
	}
	return append(out, part.String())
}

// fields splits a command into words and removes quotes.
func fields(command string) (out []string) {
	var word strings.Builder
	quote, open := rune(0), false
	end := func() {
		if open {
			out = append(out, word.String())
		}
		word.Reset()
		open = false
	}
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && r == ' ':
			end()
		default:
			word.WriteRune(r)
			open = true
		}
	}
	end()
	return out
}

// placeholder matches words that contain a name for a value: DIR, [SETTINGS], average=A, runs/P or an ellipsis.
var placeholder = regexp.MustCompile(`(^|[=/:+\[-])[A-Z][A-Z0-9_]*\b|\.\.\.|…`)

// notCommands are code in sentences that begins like a command: labels of signatures in docs/protocol.md, and settings
// of the method.
var notCommands = regexp.MustCompile(`^tacit ((app token|request|manifest|secagg|device) \d|[a-z-]+=)`)

// check reports what is wrong with a command. In sentences, and if a value is a placeholder, only names are checked.
func (c pageCommand) check(t *testing.T, root *cobra.Command, targets []string) {
	t.Helper()
	if c.inline && notCommands.MatchString(c.text) {
		return
	}
	words := fields(c.text)
	if words[0] == "make" {
		command, _, _ := strings.Cut(c.text, "   ") // lists of targets explain them in a second column
		words = fields(command)
		for _, w := range words[1:] {
			if !strings.Contains(w, "=") && !placeholder.MatchString(w) && !slices.Contains(targets, w) {
				t.Errorf("%s: the Makefile has no target %q", c, w)
			}
		}
		return
	}
	words = words[1:]
	exact := !c.inline && !slices.ContainsFunc(words, placeholder.MatchString)
	if exact { // parsing changes the flags
		root = (&app{out: &bytes.Buffer{}, err: &bytes.Buffer{}}).root()
	}
	root.InitDefaultHelpCmd()
	found, rest, err := root.Find(words)
	if err != nil {
		t.Errorf("%s: %v", c, err)
		return
	}
	if found.HasSubCommands() && len(rest) > 0 && rest[0][:1] != "-" && !placeholder.MatchString(rest[0]) {
		t.Errorf("%s: %s has no command %q", c, found.CommandPath(), rest[0])
		return
	}
	if !exact {
		checkFlagNames(t, c, found, rest)
		return
	}
	if err := found.ParseFlags(rest); err != nil {
		t.Errorf("%s: %v", c, err)
		return
	}
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		t.Errorf("%s: %v", c, err)
	}
	protocols := found.Flags().Lookup("protocol")
	if protocols == nil {
		checkSettings(t, c.String(), found)
		return
	}
	for _, p := range strings.Split(protocols.Value.String(), ",") { // several are several runs
		if protocols.Changed {
			if err := protocols.Value.Set(p); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		}
		checkSettings(t, c.String(), found)
	}
}

// checkFlagNames checks that the flags of a command exist, whatever their values are.
func checkFlagNames(t *testing.T, c pageCommand, found *cobra.Command, words []string) {
	t.Helper()
	found.InitDefaultHelpFlag()
	for _, w := range words {
		name, long := strings.CutPrefix(w, "--")
		name, _, _ = strings.Cut(name, "=")
		switch {
		case w == "--":
			return
		case long:
			if found.Flags().Lookup(name) == nil && found.InheritedFlags().Lookup(name) == nil {
				t.Errorf("%s: %s has no flag --%s", c, found.CommandPath(), name)
			}
		case len(w) == 2 && w[0] == '-' && (w[1] < '0' || w[1] > '9'):
			if found.Flags().ShorthandLookup(w[1:]) == nil && found.InheritedFlags().ShorthandLookup(w[1:]) == nil {
				t.Errorf("%s: %s has no flag %s", c, found.CommandPath(), w)
			}
		}
	}
}

// makeTargets lists the targets of the Makefile.
func makeTargets(t *testing.T) (out []string) {
	t.Helper()
	b, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`).FindAllStringSubmatch(string(b), -1) {
		out = append(out, m[1])
	}
	return out
}

// Every command that a page of the repository shows exists, with its flags and settings.
func TestCommandsOfThePagesExist(t *testing.T) {
	targets := makeTargets(t)
	root := (&app{out: &bytes.Buffer{}, err: &bytes.Buffer{}}).root()
	seen := 0
	for _, pattern := range strings.Fields("*.md docs/*.md docs/*/*.md python/*.md deploy/*.md web/*.md web/*/*.md " +
		"examples/*.md examples/*/*.md") {
		pages, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pages {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			page := filepath.ToSlash(strings.TrimPrefix(name, filepath.FromSlash("../../")))
			for _, c := range commandsOf(page, string(b)) {
				c.check(t, root, targets)
				seen++
			}
		}
	}
	if seen < 300 {
		t.Errorf("only %d commands were found in the pages", seen)
	}
	t.Logf("%d commands", seen)
}

func TestCommandsAreFoundInPages(t *testing.T) {
	page := "Run `tacit run -d X` first.\n```\ntacit serve | tee log   # tacit comment\n" +
		"sudo -u tacit tacit admin status \\\n  --format json\n" +
		"x=$(tacit version)\n```\n```go\ntacit run\n```\n\n    make test\n"
	var got []string
	for _, c := range commandsOf("p.md", page) {
		got = append(got, fmt.Sprintf("%d %s", c.line, c.text))
	}
	want := []string{
		"1 tacit run -d X", "3 tacit serve", "4 tacit admin status  --format json", "6 tacit version", "12 make test",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, expected %q", got, want)
	}
	words := fields(`tacit run --grid 'a b' x="c d" ''`)
	if want := []string{"tacit", "run", "--grid", "a b", "x=c d", ""}; !slices.Equal(words, want) {
		t.Errorf("words %q, expected %q", words, want)
	}
}
