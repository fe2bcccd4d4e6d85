package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const (
	columns      = 120 // a tab counts as four
	structFields = 30
	publicFolder = 18
)

// rejected reads the names that docs/glossary.md rejects, with their replacements.
func rejected(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(b), "```rejected\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("docs/glossary.md has no block ```rejected; add it back")
	}
	out := map[string]string{}
	for line := range strings.Lines(block) {
		name, instead, ok := strings.Cut(strings.TrimSpace(line), " -> ")
		if !ok || name == "" || instead == "" {
			t.Errorf("docs/glossary.md: %q: expected a line such as `hall -> open round`", strings.TrimSpace(line))
		}
		out[name] = instead
	}
	if len(out) < 10 {
		t.Errorf("docs/glossary.md rejects %d names; expected 10 or more", len(out))
	}
	return out
}

// words splits a Go name at its capitals: openRound is open and round.
func words(name string) []string {
	var out []string
	word := ""
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) && word != "" && !unicode.IsUpper(rune(word[len(word)-1])) {
			out = append(out, strings.ToLower(word))
			word = ""
		}
		word += string(r)
	}
	return append(out, strings.ToLower(word))
}

// rejectedWord returns the first word of a name that is rejected, in singular or plural.
func rejectedWord(name string, list map[string]string) string {
	for _, w := range words(name) {
		for _, form := range []string{w, strings.TrimSuffix(w, "s")} {
			if list[form] != "" {
				return form
			}
		}
	}
	return ""
}

func TestNamesAreSplitAtCapitals(t *testing.T) {
	for name, want := range map[string]string{
		"openRound": "open round", "halls": "halls", "MaskedHall": "masked hall", "RPCGate": "rpcgate", "gate": "gate",
	} {
		if got := strings.Join(words(name), " "); got != want {
			t.Errorf("%s splits into %q, expected %q", name, got, want)
		}
	}
	list := map[string]string{"hall": "open round"}
	if rejectedWord("maskedHalls", list) != "hall" || rejectedWord("shallow", list) != "" {
		t.Error("a rejected word is found inside another word, or not found at all")
	}
}

func TestNoTypeHasARejectedName(t *testing.T) {
	list := rejected(t)
	for _, s := range every(t, goFile) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if w := rejectedWord(spec.Name.Name, list); w != "" {
				t.Errorf("%s:%d: type %s: docs/glossary.md rejects %q; use %q", s.name, s.line(spec.Pos()),
					spec.Name.Name,
					w, list[w])
			}
			return true
		})
	}
}

func TestStructsAreSmall(t *testing.T) {
	for _, s := range every(t, goFile) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			st, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			fields := 0
			for _, f := range st.Fields.List {
				fields += max(1, len(f.Names))
			}
			if fields > structFields {
				t.Errorf("%s:%d: struct %s has %d fields, the limit is %d; group fields that change together in a "+
					"struct of their own", s.name, s.line(spec.Pos()), spec.Name.Name, fields, structFields)
			}
			return true
		})
	}
}

// exempt lists the lines that cannot be broken: struct tags, raw strings and links.
func exempt(s *source) map[int]bool {
	out := map[int]bool{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if ok && lit.Kind == token.STRING && strings.HasPrefix(lit.Value, "`") {
			for line := s.line(lit.Pos()); line <= s.line(lit.End()); line++ {
				out[line] = true
			}
		}
		return true
	})
	return out
}

func TestLinesAreNarrow(t *testing.T) {
	for _, s := range every(t, goFile) {
		if ast.IsGenerated(s.ast) || within(s.pkg(), "vec/gen") { // signatures of kernels are strings
			continue
		}
		unbreakable := exempt(s)
		number := 0
		for line := range strings.Lines(s.text) {
			number++
			line = strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\n")
			if n := len([]rune(line)); n > columns && !unbreakable[number] && !strings.Contains(line, "://") {
				t.Errorf("%s:%d has %d columns, the limit is %d; break it", s.name, number, n, columns)
			}
		}
	}
}

func TestFewFoldersArePublic(t *testing.T) {
	public := map[string]bool{}
	for _, s := range every(t, shipped) {
		p := s.pkg()
		if s.ast.Name.Name != "main" && !slices.Contains(strings.Split(p, "/"), "internal") && !within(p, "vec/gen") {
			public[p] = true
		}
	}
	if len(public) > publicFolder {
		t.Errorf("%d folders have public packages, the limit is %d; what we would not support for years goes under "+
			"internal", len(public), publicFolder)
	}
}

// dialect matches phrases that need to be read twice. CONTRIBUTING.md says how we write.
var dialect = regexp.MustCompile(`\b(is none|are none|if there (is|are) (one|none)|is not one|is no [a-z]+|goes on|went on|so many|` +
	`nobody hears|found out|stands? (in|beside|for itself)|else it|who (runs|comes|came|is absent|was)|has to be had|is said to|` +
	`in the clear it)\b`)

// plain matches good English that dialect would match too.
var plain = regexp.MustCompile(`\b([Tt]here is no [a-z]+|is no (longer|more|less) [a-z]+|it is no (longer|error))\b`)

func TestProseIsPlain(t *testing.T) {
	for _, s := range every(t, anyFile) {
		ext := path.Ext(s.name)
		if s.pkg() == "internal/lint" || ext != ".go" && ext != ".md" && ext != ".html" {
			continue
		}
		number := 0
		for line := range strings.Lines(s.text) {
			number++
			if m := dialect.FindString(plain.ReplaceAllString(line, "")); m != "" {
				t.Errorf("%s:%d: %q: write it as the standard library's documentation would", s.name, number, m)
			}
		}
	}
}

func TestTheReadmeFitsAScreenOrTwo(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n > 150 {
		t.Errorf("README.md has %d lines, the limit is 150; move how-tos to docs/", n)
	}
	if n := len(every(t, decision)); n > 15 {
		t.Errorf("docs/adr has %d decisions, the limit is 15; merge or mark what is superseded", n)
	}
}
