package lint

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is the largest number of lines of a decision record.
const page = 60

func TestDecisionsFillOnePage(t *testing.T) {
	name := regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	seen := map[string]string{}
	for _, s := range every(t, decision) {
		m := name.FindStringSubmatch(path.Base(s.name))
		if m == nil {
			t.Errorf("%s: name a decision by number and subject, such as 0007-fixed-point-sums.md", s.name)
			continue
		}
		if other := seen[m[1]]; other != "" {
			t.Errorf("%s has the number of %s; take the next free one", s.name, other)
		}
		seen[m[1]] = s.name
		if !strings.HasPrefix(s.text, "# "+m[1]+" ") {
			t.Errorf("%s: the first line must be its title, such as `# %s What was chosen`", s.name, m[1])
		}
		last := 0
		for _, section := range []string{"Context", "Choice", "Price", "What would change our mind"} {
			at := strings.Index(s.text, "\n## "+section+"\n")
			if at < last {
				t.Errorf("%s: section `## %s` is missing or out of order; the order is Context, Choice, Price, What "+
					"would change our mind", s.name, section)
			}
			last = max(last, at)
		}
		if n := strings.Count(s.text, "\n"); n > page {
			t.Errorf("%s has %d lines, a decision is one page of at most %d; keep what a reader needs to change our "+
				"mind", s.name, n, page)
		}
	}
}

func TestDecisionsThatAreNamedExist(t *testing.T) {
	mention := regexp.MustCompile(`docs/adr/(\d{4})`)
	have := map[string]bool{}
	for _, s := range every(t, decision) {
		if base := path.Base(s.name); len(base) > 4 {
			have[base[:4]] = true
		}
	}
	for _, s := range every(t, anyFile) {
		if s.pkg() == "internal/lint" {
			continue
		}
		for _, m := range mention.FindAllStringSubmatch(s.text, -1) {
			if !have[m[1]] {
				t.Errorf("%s names docs/adr/%s, which does not exist; write it or correct the number", s.name, m[1])
			}
		}
	}
}

func TestTheReadmeNamesTheCommands(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("README.md does not exist yet")
	} else if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"make demo", "make test"} {
		if !strings.Contains(string(b), command) {
			t.Errorf("README.md does not mention `%s`; new users look for it there", command)
		}
	}
}

// Every relative link in the documentation leads to a file.
func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)\)`)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			b, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(b), -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
					t.Errorf("%s links to %s, which does not exist", page, m[1])
				}
			}
		}
	}
}

// Every test that the threat model and the security page name exists, and a claim of the threat model without a test
// says so.
func TestTheThreatModelNamesTestsThatExist(t *testing.T) {
	have := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, s := range every(t, goFile) {
		if s.isTest() {
			for _, m := range declared.FindAllStringSubmatch(s.text, -1) {
				have[s.pkg()+": "+m[1]] = true
			}
		}
	}
	mention := regexp.MustCompile("`([a-z/]+: Test\\w+)`")
	var b []byte
	for _, page := range []string{"docs/security.md", "docs/threat-model.md"} {
		var err error
		if b, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(page))); err != nil {
			t.Fatal(err)
		}
		named := mention.FindAllStringSubmatch(string(b), -1)
		if len(named) == 0 {
			t.Errorf("%s names no test; write one as `privacy: TestName`", page)
		}
		for _, m := range named {
			if !have[m[1]] {
				t.Errorf("%s names `%s`, which does not exist; name the test that shows the claim, as "+
					"`privacy: TestName`", page, m[1])
			}
		}
	}
	for _, item := range regexp.MustCompile(`(?m)^- .*(\n  .*)*`).FindAllString(string(b), -1) {
		if !mention.MatchString(item) && !strings.Contains(item, "No test") {
			t.Errorf("docs/threat-model.md: this claim has no test; name one, or say \"No test\" and why:\n%s", item)
		}
	}
}
