package site

import (
	"path"
	"slices"
	"strings"
)

// section is a heading of the navigation with its pages.
type section struct {
	Title string
	Pages []*page
}

// homePage is the source of index.html.
const homePage = "start.md"

// outline is the order of the pages. A page that it does not name is listed at its end.
var outline = []struct {
	title string
	pages string // sources, separated by spaces
}{
	{"Start", "start.md concepts.md faq.md glossary.md"},
	{"Experiments", "guide.md data.md evaluation.md schema.md"},
	{"Methods", "methods.md add-a-method.md leaderboard.md parity.md tacit.md ials.md sequence.md fedrap.md plgc.md " +
		"privrec.md"},
	{"Privacy", "privacy.md security.md threat-model.md"},
	{"Operate", "federation.md operate.md admin-api.md protocol.md"},
	{"Embed", "embed.md"},
	{"More", "performance.md adr/README.md README.md"},
}

// names are the titles of pages in the navigation, if they differ from the headings.
var names = map[string]string{
	"start.md": "Start here", "README.md": "All pages", "faq.md": "Questions and answers",
	"schema.md":     "Output schema",
	"evaluation.md": "Evaluation", "privacy.md": "What privacy costs", "methods.md": "All methods",
	"tacit.md": "Study: tacit", "ials.md": "Study: iALS", "sequence.md": "Study: sequences",
	"fedrap.md": "Study: FedRAP",
	"plgc.md":   "Study: PLGC", "privrec.md": "Study: PrivRec", "federation.md": "A first federation",
	"operate.md": "Operator's guide", "admin-api.md": "Admin API", "protocol.md": "Wire protocol",
	"embed.md": "In your own program", "leaderboard.md": "Leaderboard", "parity.md": "Published numbers",
	"adr/README.md": "Decisions", "threat-model.md": "Threat model",
}

// arrange sorts the pages into the sections of the navigation. Pages of folders have no entry: the page of their
// folder lists them.
func arrange(pages map[string]*page) []section {
	var out []section
	known := map[string]bool{}
	for _, s := range outline {
		next := section{Title: s.title}
		for _, source := range strings.Fields(s.pages) {
			known[source] = true
			if p := pages[source]; p != nil {
				next.Pages = append(next.Pages, p)
			}
		}
		if s.title == "More" {
			for _, source := range sortedKeys(pages) {
				if !known[source] && path.Dir(source) == "." {
					next.Pages = append(next.Pages, pages[source])
				}
			}
		}
		if len(next.Pages) > 0 {
			out = append(out, next)
		}
	}
	return out
}

// neighbours returns the pages before and after a page; nil at the ends.
func neighbours(sections []section, p *page) (before, after *page) {
	var all []*page
	for _, s := range sections {
		all = append(all, s.Pages...)
	}
	i := slices.Index(all, p)
	if i > 0 {
		before = all[i-1]
	}
	if i >= 0 && i+1 < len(all) {
		after = all[i+1]
	}
	return before, after
}

// parent is the source of the page that lists the pages of a folder, by which the navigation marks where a reader is.
func parent(source string) string {
	switch path.Dir(source) {
	case "methods":
		return "methods.md"
	case "adr":
		return "adr/README.md"
	}
	return source
}
