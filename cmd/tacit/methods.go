package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/methoddoc"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

func (a *app) methodsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "methods [NAME]", Short: "List the methods, or explain one: what it shares, keeps and sends",
		Args: maxArgs(1),
		Long: "With NAME it prints the method's page: what leaves a device, the parameters, the presets and the " +
			"paper.",
		Example: "  tacit methods\n  tacit methods pfedrec\n  tacit run -m fedncf+dualper -d world     # a method " +
			"with a plug-in",
		RunE: func(_ *cobra.Command, words []string) error {
			if len(words) == 0 {
				return a.listMethods()
			}
			e, err := methods.Default().Lookup(words[0])
			if err != nil {
				return input(err, "tacit methods lists them")
			}
			doc, err := methoddoc.Page(e)
			if err != nil {
				return err
			}
			about, err := methoddoc.About(e)
			if err != nil {
				return err
			}
			presets, err := experiment.Presets(e)
			if err != nil {
				return err
			}
			data := map[string]any{
				"name": e.Name, "title": e.Title, "paper": e.Paper, "about": about, "caution": e.Caution,
				"slots": e.Build().Slots(0), "params": param.Fields(e.Build()), "presets": presets,
			}
			return a.result(data, func(w io.Writer) error {
				_, err := io.WriteString(w, doc)
				return err
			})
		},
	}
}

func (a *app) listMethods() error {
	t := report.Table{Header: []string{"method", "what it is", "paper"}}
	var data []map[string]string
	for _, e := range methods.Default().Entries() {
		t.Rows = append(t.Rows, []any{e.Name, e.Title, source(e.Paper)})
		data = append(data, map[string]string{"name": e.Name, "title": e.Title, "paper": e.Paper})
	}
	for _, p := range methods.Default().Plugins() {
		var fits []string
		for _, e := range methods.Default().Composed() {
			if base, ok := strings.CutSuffix(e.Name, "+"+p.Name); ok {
				fits = append(fits, base)
			}
		}
		about := p.Title + ", a plug-in for " + strings.Join(fits, ", ")
		t.Rows = append(t.Rows, []any{"+" + p.Name, p.Title + ", a plug-in", source(p.Paper)})
		data = append(data, map[string]string{"name": "+" + p.Name, "title": about, "paper": p.Paper})
	}
	t.Notes = []string{
		"tacit methods NAME explains a method; tacit run -m NAME -d world runs it.",
		"A plug-in is appended to a method: tacit run -m fedncf+dualper -d world.",
	}
	return a.result(data, t.Text)
}

// source shortens a citation to its authors, venue and year.
func source(paper string) string {
	paper, _, _ = strings.Cut(paper, ";")
	if own := "Tacit's own"; strings.HasPrefix(paper, own) {
		return own
	}
	parts := strings.Split(paper, ", ")
	if len(parts) < 3 {
		return paper
	}
	authors := parts[0]
	if second := parts[1]; strings.Contains(second, " and ") && len(strings.Fields(second)) <= 4 {
		authors += ", " + second
	}
	return authors + ", " + parts[len(parts)-1]
}

func (a *app) methodPagesCmd() *cobra.Command {
	var dir string
	pages := &cobra.Command{
		Use: "methods", Short: "Write a page for each method: docs/methods", Args: noArgs,
		Example: "  tacit docs methods -o docs/methods",
		RunE: func(*cobra.Command, []string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			all := append(methods.Default().Entries(), methods.Default().Composed()...)
			for _, e := range all {
				doc, err := methoddoc.Page(e)
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(dir, e.Name+".md"), []byte(doc), 0o644); err != nil {
					return err
				}
			}
			a.progress("wrote %s to %s", format.Plural(len(all), "page"), dir)
			return nil
		},
	}
	pages.Flags().StringVarP(&dir, "out", "o", "docs/methods", "write the pages to this folder")
	return pages
}
