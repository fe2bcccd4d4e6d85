package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/result"
)

const reportLong = `
It reads run folders (tacit run -o) or the folder of a search (tacit tune -o). The HTML page is one
file that loads nothing from the network: results with significance, reference rows, convergence,
traffic, popularity, maps of the items and the loss landscape. --figures writes SVG and CSV files.`

func (a *app) reportCmd() *cobra.Command {
	var out, figures, at string
	writers := map[string]func(io.Writer, []*result.Run, ...int) error{
		".md": report.Markdown, ".csv": report.CSV,
		".html": report.HTML,
	}
	c := &cobra.Command{
		Use: "report RUN...", Short: "Make a table, an HTML page or figures from run folders",
		Long: reportLong,
		Example: "  tacit report runs/a runs/b -o table.md\n  tacit report runs/a -o page.html\n  tacit report " +
			"runs/a --figures figures\n  tacit report runs/tune -o search.html", Args: minArgs(1),
		RunE: func(_ *cobra.Command, dirs []string) error {
			lengths, err := listLengths(at)
			if err != nil {
				return err
			}
			runs, err := loadRuns(dirs)
			if err != nil {
				return err
			}
			if figures != "" {
				if err := a.writeFigures(runs, figures, out == ""); err != nil || out == "" {
					return err
				}
			}
			if filepath.Ext(out) != ".html" {
				if err := noSearch(runs); err != nil {
					return err
				}
			}
			if out == "" {
				return a.result(resultsOf(runs), func(w io.Writer) error {
					return report.Markdown(w, runs, lengths...)
				})
			}
			write, ok := writers[filepath.Ext(out)]
			if !ok {
				return input(fmt.Errorf("-o %s: the name must end in .md, .csv or .html", out),
					"--figures DIR writes SVG and CSV files")
			}
			if err := writeFile(out, func(w io.Writer) error { return write(w, runs, lengths...) }); err != nil {
				return err
			}
			return a.resultLine(map[string]any{"file": out, "runs": len(runs)}, "wrote %s", out)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "write to this file (.md, .csv or .html) instead of standard output")
	atFlag(c.Flags(), &at)
	c.Flags().StringVar(&figures, "figures", "", "write every figure to this folder, as NAME.svg and NAME.csv")
	return c
}

// writeFile writes a file only if write succeeds.
func writeFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return input(err, "choose another file")
	}
	return nil
}

// noSearch rejects folders of searches and leaderboards, which have no table of runs.
func noSearch(runs []*result.Run) error {
	for _, r := range runs {
		if r.Search != nil {
			return input(fmt.Errorf("%s holds a search, not a run", r.Dir), "tacit report "+r.Dir+
				" -o page.html shows it; its table is tuned.md")
		}
		if r.Leaderboard != nil {
			return input(fmt.Errorf("%s holds a leaderboard, not a run", r.Dir), "tacit report "+r.Dir+
				" -o page.html shows it; tacit docs leaderboard --found writes its tables")
		}
	}
	return nil
}

// writeFigures writes the figures, and prints so if alone is set.
func (a *app) writeFigures(runs []*result.Run, dir string, alone bool) error {
	all, err := report.Drawings(runs)
	if err != nil {
		return input(err, "")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return input(err, "choose another folder with --figures")
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
	return a.resultLine(map[string]any{"folder": dir, "figures": names}, "wrote %s to %s, each as .svg and .csv",
		format.Plural(len(names), "figure"), dir)
}

func resultsOf(runs []*result.Run) []*result.Result {
	var out []*result.Result
	for _, r := range runs {
		out = append(out, r.Result)
	}
	return out
}
