// Package site renders the documentation as a site: static pages with navigation, drawings and a search that needs no
// server. It never loads anything from another host. Its one convention: links are relative, so that the site works
// below any path and from a folder.
package site

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

// Policy allows a page its own style, script, pictures and search index, and nothing else.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'"

// Site is a rendered documentation.
type Site struct {
	files   map[string][]byte
	missing []byte
	pages   int
}

var layout = template.Must(template.ParseFS(assets, "assets/layout.html"))

// view is what the layout shows.
type view struct {
	*page
	Root          string // the way to the root of the site
	Here          string // the source that the navigation marks
	Sections      []section
	Before, After *page
	Contents      []heading
	Policy        string
}

// New renders the documentation in a folder. Dead links within it are an error.
func New(docs fs.FS) (*Site, error) {
	pages, files, err := load(docs)
	if err != nil {
		return nil, err
	}
	if err := checkLinks(pages, files); err != nil {
		return nil, err
	}
	sections := arrange(pages)
	s := &Site{files: files, pages: len(pages)}
	var index []part
	for _, source := range sortedKeys(pages) {
		p := pages[source]
		index = append(index, p.parts...)
		if err := s.add(p, sections); err != nil {
			return nil, err
		}
	}
	if err := s.add(searchPage, sections); err != nil {
		return nil, err
	}
	if s.missing, err = show(missingPage, "/", sections); err != nil {
		return nil, err
	}
	if files["search.json"], err = json.Marshal(index); err != nil {
		return nil, err
	}
	for _, name := range []string{"site.css", "search.js", "icon.svg"} {
		if files["assets/"+name], err = assets.ReadFile("assets/" + name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// searchPage is where the search form leads without a script.
var searchPage = &page{
	Source: "search", URL: "search.html", Title: "Search", Name: "Search",
	Body: "<h1>Search</h1><p>The search runs in your browser and needs JavaScript. Without it, use the list of " +
		"pages.</p>",
}

// missingPage is what a server answers for an unknown address.
var missingPage = &page{
	Source: "missing", URL: "missing.html", Title: "Page not found", Name: "Page not found",
	Body: `<h1>Page not found</h1><p>This address has no page. Use the search or the list of pages.</p>`,
}

// add renders a page into the files of the site.
func (s *Site) add(p *page, sections []section) error {
	b, err := show(p, rootOf(p.URL), sections)
	s.files[p.URL] = b
	return err
}

// show renders a page with its surroundings.
func show(p *page, root string, sections []section) ([]byte, error) {
	v := view{page: p, Root: root, Here: parent(p.Source), Sections: sections, Policy: Policy}
	v.Before, v.After = neighbours(sections, p)
	for _, h := range p.Headings {
		if h.Level == 2 {
			v.Contents = append(v.Contents, h)
		}
	}
	if len(v.Contents) < 2 {
		v.Contents = nil
	}
	var b bytes.Buffer
	err := layout.Execute(&b, v)
	return b.Bytes(), err
}

// load reads a folder: pages by their source, and the other files.
func load(docs fs.FS) (pages map[string]*page, files map[string][]byte, err error) {
	pages, files = map[string]*page{}, map[string][]byte{}
	err = fs.WalkDir(docs, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(docs, name)
		if err != nil {
			return err
		}
		switch path.Ext(name) {
		case ".md":
			pages[name], err = render(docs, name, b)
		case ".svg", ".json", ".png":
			files[name] = b
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if pages["adr/README.md"] == nil {
		var list strings.Builder
		for _, source := range sortedKeys(pages) {
			if path.Dir(source) == "adr" {
				fmt.Fprintf(&list, "- [%s](%s)\n", pages[source].Title, path.Base(source))
			}
		}
		if list.Len() > 0 {
			text := "# Decisions\n\nWhy things are as they are. Each page has the context, the choice, its " +
				"price, and what would change our mind.\n\n" + list.String()
			pages["adr/README.md"], err = render(docs, "adr/README.md", []byte(text))
		}
	}
	return pages, files, err
}

// checkLinks lists the links that lead nowhere.
func checkLinks(pages map[string]*page, files map[string][]byte) error {
	var dead []error
	for _, source := range sortedKeys(pages) {
		for _, l := range pages[source].links {
			to := pages[l.to]
			switch {
			case to == nil && files[l.to] == nil:
				dead = append(dead, fmt.Errorf("%s links to %s, which does not exist", l.from, l.to))
			case to != nil && l.fragment != "" && !to.has(l.fragment):
				dead = append(dead, fmt.Errorf("%s links to %s#%s, and the page has no such heading", l.from, l.to,
					l.fragment))
			}
		}
	}
	return errors.Join(dead...)
}

func (p *page) has(id string) bool {
	return slices.ContainsFunc(p.Headings, func(h heading) bool { return h.ID == id })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
