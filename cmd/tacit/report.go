package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/report"
)

func cores() int { return runtime.NumCPU() }

func (a *app) reportCmd() *cobra.Command {
	var out string
	writers := map[string]func(io.Writer, []*report.Run) error{".md": report.Markdown, ".csv": report.CSV, ".html": report.HTML}
	c := &cobra.Command{
		Use: "report RUN...", Short: "Make a table or a page of run folders: Markdown, CSV or HTML",
		Example: "  tacit report runs/a runs/b -o table.md\n  tacit report runs/a -o page.html", Args: args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, dirs []string) error {
			runs, err := loadRuns(dirs)
			if err != nil {
				return err
			}
			if out == "" {
				return a.result(results(runs), func(w io.Writer) error { return report.Markdown(w, runs) })
			}
			write, ok := writers[filepath.Ext(out)]
			if !ok {
				return input(fmt.Errorf("-o %s: want a name that ends in .md, .csv or .html", out), "")
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
	c.Flags().StringVarP(&out, "out", "o", "", "the file to write: .md, .csv or .html; standard output (Markdown) if not given")
	return c
}

func results(runs []*report.Run) []*report.Result {
	var out []*report.Result
	for _, r := range runs {
		out = append(out, r.Result)
	}
	return out
}
