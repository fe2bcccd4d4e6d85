package site

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/tacit-rec/tacit/docs"
)

// rendered is the site of the documentation.
var rendered = sync.OnceValues(func() (*Site, error) { return New(docs.Files) })

func mustNew(t *testing.T) *Site {
	t.Helper()
	s, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The documentation has no dead link or anchor: New checks the sources, and this test what was rendered.
func TestEveryLinkOfTheSiteLeadsSomewhere(t *testing.T) {
	s := mustNew(t)
	target := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	id := regexp.MustCompile(` id="([^"]*)"`)
	ids := map[string]map[string]bool{}
	for name, b := range s.files {
		ids[name] = map[string]bool{"": true}
		for _, m := range id.FindAllSubmatch(b, -1) {
			ids[name][string(m[1])] = true
		}
	}
	links := 0
	for name, b := range s.files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range target.FindAllSubmatch(b, -1) {
			to, fragment, _ := strings.Cut(string(m[1]), "#")
			if strings.Contains(to, "://") {
				continue
			}
			links++
			file := name
			if to != "" {
				file = path.Join(path.Dir(name), to)
			}
			if s.files[file] == nil || !ids[file][fragment] {
				t.Errorf("%s links to %s", name, m[1])
			}
		}
	}
	if links < 1000 || s.Pages() < 60 || s.files["index.html"] == nil {
		t.Errorf("%d links on %d pages", links, s.Pages())
	}
}

// Files outside of the documentation keep their names, also those that begin with a dot, and their anchors.
func TestLinksOutOfTheDocumentationLeadToTheRepository(t *testing.T) {
	s, err := New(fstest.MapFS{
		"a.md":     {Data: []byte("# A\n\n[x](../.github/ci.yml) [y](../CONTRIBUTING.md#tests)")},
		"sub/b.md": {Data: []byte("# B\n\n[x](../../.gitignore)")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"a.html": {".github/ci.yml", "CONTRIBUTING.md#tests"}, "sub/b.html": {".gitignore"},
	} {
		for _, want := range wants {
			if !strings.Contains(string(s.files[file]), `href="`+repository+want+`"`) {
				t.Errorf("%s has no link to %s in the repository", file, want)
			}
		}
	}
}

func TestDeadLinksAreAnError(t *testing.T) {
	for text, want := range map[string]string{
		"# A\n\n[x](gone.md)":              "a.md links to gone.md, which does not exist",
		"# A\n\n[x](#gone)":                "a.md links to a.md#gone, and the page has no such heading",
		"# A\n\n[x](b.md#gone)":            "a.md links to b.md#gone, and the page has no such heading",
		"# A\n\n![x](img/gone.svg)":        "a.md links to img/gone.svg, which does not exist",
		"# A\n\n<b>x</b>":                  "a.md: has HTML, which is not rendered; use Markdown",
		"no title":                         "a.md: has no title; its first line must be `# Title`",
		"# A\n\n[x](b.md#its-part-2)":      "",
		"# A\n\n[x](../CONTRIBUTING.md#x)": "",
	} {
		_, err := New(fstest.MapFS{
			"a.md": {Data: []byte(text)}, "b.md": {Data: []byte("# B\n\n## Its `part` (2)\n")},
		})
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
}

// Pages have what assistive technology and a strict policy need, and load nothing from another host.
func TestPagesAreAccessibleAndSelfContained(t *testing.T) {
	s := mustNew(t)
	forbidden := regexp.MustCompile(`(?i)<style|<script>|\sstyle="|\son[a-z]+="|javascript:|` +
		`(?:src|action)="(?:https?:)?//|<link[^>]*href="(?:https?:)?//`)
	for name, b := range s.files {
		if path.Ext(name) != ".html" {
			continue
		}
		text := string(b)
		if m := forbidden.FindString(text); m != "" {
			t.Errorf("%s contains %q", name, m)
		}
		for _, part := range []string{
			`<html lang="en">`, `<a class="skip" href="#main">`, `<main id="main">`,
			`<nav class="pages" aria-label="Pages">`, `role="search"`,
			`<label class="hidden" for="query">`, `name="viewport"`, `<header `, `<footer>`,
		} {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %s", name, part)
			}
		}
		if n := strings.Count(text, "<h1"); n != 1 {
			t.Errorf("%s has %d titles", name, n)
		}
		if strings.Contains(text, `alt=""`) && strings.Count(text, `alt=""`) != 1 { // the icon beside the name
			t.Errorf("%s has a picture without a description", name)
		}
	}
}

func TestServerSetsHeaders(t *testing.T) {
	server := httptest.NewServer(mustNew(t))
	defer server.Close()
	for _, c := range []struct {
		path, kind, contains string
		code                 int
	}{
		{"/", "text/html; charset=utf-8", "Start here", 200},
		{"/methods/fedmf+plgc.html", "text/html; charset=utf-8", `href="../assets/site.css"`, 200},
		{"/adr/", "text/html; charset=utf-8", "0001", 200},
		{"/assets/search.js", "text/javascript; charset=utf-8", "search.json", 200},
		{"/img/round.svg", "image/svg+xml", "<svg", 200},
		{"/gone/page.html", "text/html; charset=utf-8", `href="/assets/site.css"`, 404},
		{"/../../go.mod", "text/html; charset=utf-8", "Page not found", 404},
	} {
		r, err := http.Get(server.URL + c.path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		policy := r.Header.Get("Content-Security-Policy")
		if err != nil || r.StatusCode != c.code || r.Header.Get("Content-Type") != c.kind ||
			!strings.Contains(string(b), c.contains) || !strings.HasPrefix(policy, "default-src 'none'; ") {
			t.Errorf("%s: %d %q %q, lacks %q: %v", c.path, r.StatusCode, r.Header.Get("Content-Type"), policy,
				c.contains, err)
		}
		if strings.Contains(policy, "unsafe") != strings.HasSuffix(c.path, ".svg") {
			t.Errorf("%s has the policy %s", c.path, policy)
		}
	}
	r, err := http.Post(server.URL+"/", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST is answered with %s", r.Status)
	}
}

func TestSearchIndexNamesPagesThatExist(t *testing.T) {
	s := mustNew(t)
	var parts []part
	if err := json.Unmarshal(s.files["search.json"], &parts); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range parts {
		file, _, _ := strings.Cut(p.URL, "#")
		if s.files[file] == nil || p.Title == "" {
			t.Errorf("the index names %+v", p)
		}
		found = found || p.URL == "concepts.html#masking" && strings.Contains(p.Text, "secure aggregation")
	}
	if size := len(s.files["search.json"]); !found || len(parts) < 300 || size > 400_000 {
		t.Errorf("the index has %d entries in %d bytes; masking is found: %v", len(parts), size, found)
	}
}

func TestSiteIsWrittenAsFiles(t *testing.T) {
	dir := t.TempDir()
	s := mustNew(t)
	size, err := s.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "methods", "tacit.html"))
	if err != nil || size < 500_000 || string(b) != string(s.files["methods/tacit.html"]) {
		t.Errorf("wrote %d bytes: %v", size, err)
	}
}

// contrast is the contrast of two colours by WCAG 2.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	light := func(hex string) float64 {
		hex = strings.TrimPrefix(hex, "#")
		if len(hex) == 3 {
			hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
		}
		v := [3]float64{}
		for i := range v {
			n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			if v[i] = float64(n) / 255; v[i] <= 0.04045 {
				v[i] /= 12.92
			} else {
				v[i] = math.Pow((v[i]+0.055)/1.055, 2.4)
			}
		}
		return 0.2126*v[0] + 0.7152*v[1] + 0.0722*v[2]
	}
	x, y := light(a), light(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestColoursHaveContrast(t *testing.T) {
	css, err := assets.ReadFile("assets/site.css")
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`--([a-z]+): (#[0-9a-f]{3,6})`)
	modes := strings.SplitN(string(css), "prefers-color-scheme: dark", 2)
	for mode, text := range modes {
		text, _, _ = strings.Cut(text, "* {")
		v := map[string]string{}
		for _, m := range variable.FindAllStringSubmatch(text, -1) {
			v[m[1]] = m[2]
		}
		for _, ink := range []string{"ink", "sub", "link"} {
			for _, back := range []string{"panel", "bg", "soft"} {
				if c := contrast(t, v[ink], v[back]); c < 4.5 {
					t.Errorf("mode %d: %s on %s has a contrast of %.1f, less than 4.5", mode, ink, back, c)
				}
			}
		}
	}
	rule := regexp.MustCompile(`\.?([a-z]+) \{ ?([^}]*) ?\}`)
	colour := regexp.MustCompile(`(fill|stroke): (#[0-9a-f]{3,6})`)
	for _, name := range []string{"stays-leaves", "round", "masking", "budget"} {
		b, err := docs.Files.ReadFile("img/" + name + ".svg")
		if err != nil {
			t.Fatal(err)
		}
		style, _, _ := strings.Cut(string(b), "</style>")
		for mode, text := range strings.SplitN(style, "prefers-color-scheme: dark) {", 2) {
			v := map[string]string{}
			for _, m := range rule.FindAllStringSubmatch(text, -1) {
				for _, c := range colour.FindAllStringSubmatch(m[2], -1) {
					v[m[1]+" "+c[1]] = c[2]
				}
			}
			check := func(ink, back string, least float64) {
				if c := contrast(t, v[ink], v[back]); c < least {
					t.Errorf("%s, mode %d: %s on %s has a contrast of %.1f, less than %.1f", name, mode, ink, back, c,
						least)
				}
			}
			for _, back := range []string{"bg fill", "box fill", "own fill", "hub fill"} {
				for _, ink := range []string{"text fill", "sub fill"} {
					check(ink, back, 4.5)
				}
				for _, ink := range []string{"up stroke", "down stroke", "own stroke", "hub stroke"} {
					check(ink, back, 3)
				}
			}
			check("on fill", "upfill fill", 4.5)
			check("on fill", "downfill fill", 4.5)
		}
	}
}
