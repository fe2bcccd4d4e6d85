package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/result"
)

const compareLong = `
It compares every run with the first by paired Wilcoxon tests over users, with Holm's correction and
bootstrap intervals, and prints "better" only if the test is significant. The runs must have the
same data, protocol and seeds.`

func (a *app) compareCmd() *cobra.Command {
	var out, at string
	writers := map[string]func(*report.Table, io.Writer) error{
		".md": (*report.Table).Markdown, ".csv": (*report.Table).CSV, ".tex": (*report.Table).LaTeX,
		".txt": (*report.Table).Text,
	}
	c := &cobra.Command{
		Use: "compare BASE RUN...", Short: "Test whether runs differ significantly", Long: compareLong,
		Args: minArgs(2),
		Example: "  tacit run -m fedmf -d world -o runs/fedmf\n  tacit run -m pfedrec -d world -o runs/pfedrec\n  " +
			"tacit compare runs/fedmf runs/pfedrec\n  tacit compare runs/fedmf runs/pfedrec -o table.tex\n" +
			"  tacit compare runs/fedmf runs/pfedrec --at 5,20",
		RunE: func(_ *cobra.Command, dirs []string) error {
			runs, err := loadRuns(dirs)
			if err != nil {
				return err
			}
			if err := noSearch(runs); err != nil {
				return err
			}
			lengths, err := listLengths(at, 10)
			if err != nil {
				return err
			}
			cs, err := result.CompareAt(runs, lengths...)
			if err != nil {
				return input(err, "run them again with the same -d, --protocol and --seeds")
			}
			t := report.ComparisonTable(runs[0], cs)
			if out == "" {
				return a.result(cs, t.Text)
			}
			write, ok := writers[filepath.Ext(out)]
			if !ok {
				return input(fmt.Errorf("-o %s: the name must end in .md, .csv, .tex or .txt", out), "")
			}
			if err := writeFile(out, func(w io.Writer) error { return write(t, w) }); err != nil {
				return err
			}
			return a.resultLine(cs, "wrote %s", out)
		},
	}
	atFlag(c.Flags(), &at)
	c.Flags().StringVarP(&out, "out", "o", "", "write to this file: .md, .csv, .tex or .txt")
	return c
}

// loadRuns reads run folders.
func loadRuns(dirs []string) ([]*result.Run, error) {
	var runs []*result.Run
	for _, d := range dirs {
		r, err := result.Load(d)
		if err != nil {
			return nil, input(err, nearestFolder(d, reportMarks, "tacit run -o DIR creates a run folder"))
		}
		runs = append(runs, r)
	}
	return runs, nil
}
