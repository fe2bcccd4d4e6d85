package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/report"
)

func cores() int { return runtime.NumCPU() }

const reportLong = `Make a table or a page of run folders, or of the folder of a search (tacit tune -o).

The page is one file that makes no request: results with significance marks, references,
convergence, accuracy against bytes, who is served, popularity, maps of the items, spectra
and the loss landscape. Where runs differ in a setting, a curve shows what it does.
--figures writes every figure as a standalone SVG, with its numbers as CSV beside it.`

func (a *app) reportCmd() *cobra.Command {
	var out, figures string
	writers := map[string]func(io.Writer, []*report.Run) error{
		".md": report.Markdown, ".csv": report.CSV,
		".html": report.HTML,
	}
	c := &cobra.Command{
		Use: "report RUN...", Short: "Make a table, a page or figures of run folders: Markdown, CSV, HTML, SVG",
		Long: reportLong,
		Example: "  tacit report runs/a runs/b -o table.md\n  tacit report runs/a -o page.html\n  tacit report " +
			"runs/a --figures figures\n  tacit report runs/tune -o search.html", Args: args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, dirs []string) error {
			runs, err := loadRuns(dirs)
			if err != nil {
				return err
			}
			if figures != "" {
				if err := a.drawings(runs, figures, out == ""); err != nil || out == "" {
					return err
				}
			}
			if filepath.Ext(out) != ".html" {
				if err := noSearch(runs); err != nil {
					return err
				}
			}
			if out == "" {
				return a.result(results(runs), func(w io.Writer) error { return report.Markdown(w, runs) })
			}
			write, ok := writers[filepath.Ext(out)]
			if !ok {
				return input(fmt.Errorf("-o %s: want a name that ends in .md, .csv or .html", out),
					"--figures DIR writes a folder of SVG and CSV")
			}
			var b bytes.Buffer
			if err := write(&b, runs); err != nil {
				return err
			}
			if err := os.WriteFile(out, b.Bytes(), 0o644); err != nil {
				return input(err, "")
			}
			return a.result(map[string]any{"file": out, "runs": len(runs)}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "wrote %s\n", out)
				return err
			})
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "the file to write: .md, .csv or .html; standard output (Markdown) "+
		"if not given")
	c.Flags().StringVar(&figures, "figures", "", "a folder to write every figure to, as NAME.svg and NAME.csv")
	return c
}

// noSearch refuses folders of searches where a table of runs is asked for.
func noSearch(runs []*report.Run) error {
	for _, r := range runs {
		if r.Search != nil {
			return input(fmt.Errorf("%s is a search and no run", r.Dir), "tacit report "+r.Dir+
				" -o page.html shows it; its table is tuned.md")
		}
		if r.Board != nil {
			return input(fmt.Errorf("%s is a leaderboard and no run", r.Dir), "tacit report "+r.Dir+
				" -o page.html shows it; tacit docs leaderboard --found writes its tables")
		}
	}
	return nil
}

// drawings writes the figures, and says so if that is all that was asked for.
func (a *app) drawings(runs []*report.Run, dir string, alone bool) error {
	all, err := report.Drawings(runs)
	if err != nil {
		return input(err, "")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return input(err, "give another --figures")
	}
	var names []string
	for _, d := range all {
		for end, b := range map[string][]byte{".svg": d.SVG, ".csv": d.CSV} {
			if err := os.WriteFile(filepath.Join(dir, d.Name+end), b, 0o644); err != nil {
				return input(err, "")
			}
		}
		names = append(names, d.Name)
	}
	if !alone {
		return nil
	}
	return a.result(map[string]any{"folder": dir, "figures": names}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "wrote %d figures to %s, each as .svg and .csv\n", len(names), dir)
		return err
	})
}

func results(runs []*report.Run) []*report.Result {
	var out []*report.Result
	for _, r := range runs {
		out = append(out, r.Result)
	}
	return out
}
