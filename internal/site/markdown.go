package site

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// repository is where links to files outside of the documentation lead.
const repository = "https://github.com/tacit-rec/tacit/blob/main/"

// heading is a title within a page.
type heading struct {
	Level    int
	ID, Text string
}

// page is one page of the site.
type page struct {
	Source   string // such as methods/fedmf.md
	URL      string // such as methods/fedmf.html
	Title    string
	Name     string // in the navigation
	Body     template.HTML
	Headings []heading
	parts    []part
	links    []link
}

// part is a piece of a page that the search finds.
type part struct {
	Title string `json:"title"`
	Head  string `json:"head,omitempty"`
	URL   string `json:"url"`
	Text  string `json:"text,omitempty"`
}

// link is a link from a page to another one, or to a file of the documentation.
type link struct{ from, to, fragment string }

// markdown parses and renders pages. Cells are aligned by attributes, because the pages allow no inline style.
var markdown = goldmark.New(
	goldmark.WithExtensions(
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
		extension.Strikethrough,
	),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(codeBlocks{}, 100))),
)

// anchors makes the identifiers of headings as GitHub does, so that links work on both.
type anchors map[string]int

func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(string(value)) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	id := b.String()
	n := a[id]
	a[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

func (a anchors) Put(value []byte) { a[string(value)]++ }

// urlOf is where the page of a source is.
func urlOf(source string) string {
	switch {
	case source == homePage:
		return "index.html"
	case source == "README.md":
		return "pages.html"
	case path.Base(source) == "README.md":
		return path.Dir(source) + "/index.html"
	}
	return strings.TrimSuffix(source, ".md") + ".html"
}

// render makes a page from its text.
func render(files fs.FS, source string, src []byte) (*page, error) {
	p := &page{Source: source, URL: urlOf(source)}
	ids := anchors{}
	doc := markdown.Parser().Parse(text.NewReader(src), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			p.addHeading(n, src)
		case *ast.Paragraph, *ast.TextBlock:
			p.addText(plainText(n, src))
		case *ast.Link:
			n.Destination = []byte(p.resolve(files, string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(p.resolve(files, string(n.Destination)))
		case *ast.RawHTML, *ast.HTMLBlock:
			return ast.WalkStop, fmt.Errorf("%s: has HTML, which is not rendered; use Markdown", source)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, src, doc); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if p.Title == "" {
		return nil, fmt.Errorf("%s: has no title; its first line must be `# Title`", source)
	}
	p.Name = names[source]
	if p.Name == "" {
		p.Name = p.Title
	}
	// A table that is wider than the page scrolls, with the keyboard too.
	p.Body = template.HTML(strings.NewReplacer( // the renderer escapes text
		"<table>", `<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>`,
		"</table>", "</table></div>",
	).Replace(b.String()))
	return p, nil
}

func (p *page) addHeading(n *ast.Heading, src []byte) {
	id := ""
	if v, ok := n.AttributeString("id"); ok {
		id = string(v.([]byte))
	}
	title := plainText(n, src)
	if n.Level == 1 && p.Title == "" {
		p.Title = title
		p.parts = append(p.parts, part{Title: title, URL: p.URL})
	} else if n.Level <= 3 {
		p.parts = append(p.parts, part{Title: p.Title, Head: title, URL: p.URL + "#" + id})
	}
	p.Headings = append(p.Headings, heading{n.Level, id, title})
}

// indexed is how much of the text of a section the search reads.
const indexed = 500

func (p *page) addText(text string) {
	if n := len(p.parts) - 1; n >= 0 && len(p.parts[n].Text) < indexed {
		p.parts[n].Text = strings.TrimSpace(p.parts[n].Text + " " + text)
	}
}

// plainText is the text of a node without its format.
func plainText(n ast.Node, src []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(src))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		}
		return ast.WalkContinue, nil
	})
	return html.UnescapeString(b.String())
}

// resolve turns the destination of a link in the text into one of the site, and notes it for the check.
func (p *page) resolve(files fs.FS, dest string) string {
	if strings.Contains(dest, "://") || strings.HasPrefix(dest, "mailto:") {
		return dest
	}
	file, fragment, _ := strings.Cut(dest, "#")
	if file == "" {
		p.links = append(p.links, link{p.Source, p.Source, fragment})
		return dest
	}
	if fragment != "" {
		fragment = "#" + fragment
	}
	to := path.Join(path.Dir(p.Source), file)
	if strings.HasPrefix(to, "../") {
		for strings.HasPrefix(to, "../") {
			to = to[len("../"):]
		}
		return repository + to + fragment
	}
	if info, err := fs.Stat(files, to); err == nil && info.IsDir() {
		to = path.Join(to, "README.md")
	}
	p.links = append(p.links, link{p.Source, to, strings.TrimPrefix(fragment, "#")})
	if path.Ext(to) == ".md" {
		to = urlOf(to)
	}
	return rootOf(p.URL) + to + fragment
}

// rootOf is the way from a page to the root of the site.
func rootOf(url string) string { return strings.Repeat("../", strings.Count(url, "/")) }

// codeBlocks renders blocks of code with comments of commands in a class of their own.
type codeBlocks struct{}

func (c codeBlocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, c.render)
	r.Register(ast.KindCodeBlock, c.render)
}

func (codeBlocks) render(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	shell := true
	if f, ok := n.(*ast.FencedCodeBlock); ok {
		language := string(f.Language(src))
		shell = language == "" || language == "sh" || language == "console"
	}
	_, _ = w.WriteString(`<pre tabindex="0"><code>`) // a BufWriter keeps its error
	for _, line := range n.Lines().Sliced(0, n.Lines().Len()) {
		code, comment := string(line.Value(src)), ""
		if shell {
			code, comment = cutComment(code)
		}
		_, _ = w.WriteString(html.EscapeString(code))
		if comment != "" {
			comment = html.EscapeString(strings.TrimRight(comment, "\n"))
			_, _ = w.WriteString(`<span class="comment">` + comment + "</span>\n")
		}
	}
	_, _ = w.WriteString("</code></pre>\n")
	return ast.WalkContinue, nil
}

// cutComment splits a line of shell before its comment.
func cutComment(line string) (code, comment string) {
	if strings.HasPrefix(line, "# ") {
		return "", line
	}
	if i := strings.Index(line, "  # "); i >= 0 {
		return line[:i+2], line[i+2:]
	}
	return line, ""
}
