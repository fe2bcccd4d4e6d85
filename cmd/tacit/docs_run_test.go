package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shortCommands are the commands that the test below runs; servers, downloads and searches are left out.
var shortCommands = regexp.MustCompile(`^tacit (run|report|recommend|compare|export|methods|version|help|` +
	`data (check|describe)|privacy (keys|tables))\b`)

// Commands of the pages that need neither data nor a server run as they are written, in the order of the page, on a
// smaller world.
func TestShortCommandsOfThePagesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the commands of the pages: run without -short")
	}
	ran := 0
	pages := strings.Fields("README.md docs/start.md docs/concepts.md docs/faq.md docs/embed.md docs/guide.md")
	for _, page := range pages {
		b, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("TACIT_DATA", t.TempDir())
			t.Setenv("TACIT_ROUNDS", "3")
			writeTable(t, "ratings.csv", "uid,movie,stars,when")
			writeTable(t, "log.csv", map[bool]string{
				true: "uid,sku,stars,when,name", false: "user,item,rating,time,title",
			}[page == "README.md"])
			for _, c := range commandsOf(page, string(b)) {
				words := fields(c.text)
				if c.inline || !shortCommands.MatchString(c.text) || !hasInputs(words) {
					continue
				}
				ran++
				world := small
				if strings.Contains(c.text, ".csv") {
					world = ""
				}
				t.Setenv("TACIT_WORLD", world)
				if code, _, errs := tacit(append(words[1:], "--quiet")...); code != 0 {
					t.Errorf("%s: exit %d: %s", c, code, errs)
				}
			}
		})
	}
	if ran < 15 {
		t.Errorf("only %d commands ran", ran)
	}
}

// hasInputs reports whether a command reads only what exists: the world, files, and runs of earlier commands.
func hasInputs(words []string) bool {
	for i, w := range words {
		before := words[max(0, i-1)]
		switch {
		case placeholder.MatchString(w):
			return false
		case before == "-d" || before == "data" || slices.Contains([]string{"check", "describe"}, before):
			if _, err := os.Stat(w); err != nil && w != "world" && before != "data" {
				return false
			}
		case strings.HasPrefix(w, "runs/") && before != "-o", before == "--history", filepath.Ext(w) == ".toml",
			before == "report", before == "compare":
			if _, err := os.Stat(w); err != nil {
				return false
			}
		}
	}
	return true
}

// writeTable writes interactions of 40 users with a header: user, item, rating, time and perhaps title.
func writeTable(t *testing.T, name, header string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintln(&b, header)
	for u := range 40 {
		for k := range 12 {
			item := (u*7 + k*(u%5+1)) % 60
			fmt.Fprintf(&b, "u%d,i%d,%d,%d", u, item, 1+(u+k)%5, 1_700_000_000+1000*k)
			if strings.Count(header, ",") == 4 {
				fmt.Fprintf(&b, ",Item %d", item)
			}
			fmt.Fprintln(&b)
		}
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
