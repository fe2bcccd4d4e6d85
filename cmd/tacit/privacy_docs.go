package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/privacycost"
)

const privacyDocsLong = `
It runs the settings of the page, or reuses runs in --runs, and writes docs/privacy.md and the rows that
tacit privacy plan looks up. Rows of other data sets stay, and with --found also those of missing runs.`

func (a *app) privacyDocsCmd() *cobra.Command {
	var out, rows, commands string
	var cfg privacycost.Config
	var jobs int
	c := &cobra.Command{
		Use: "privacy", Short: "Measure accuracy for each epsilon: docs/privacy.md", Long: privacyDocsLong,
		Args: noArgs,
		Example: "  tacit docs privacy --commands runs\n  tacit docs privacy --runs runs\n  tacit docs privacy " +
			"--runs runs --found",
		RunE: func(c *cobra.Command, _ []string) error {
			if commands != "" {
				for _, p := range privacycost.Runs() {
					fmt.Fprintln(a.out, p.Command(commands))
				}
				return nil
			}
			if cfg.Folder == "" {
				return input(errors.New("--runs is missing"), "tacit docs privacy --runs DIR, with the folder of "+
					"the runs")
			}
			cfg.OnEvent = a.privacyEvent
			var err error
			if cfg.Old, err = earlierRows(rows); err != nil {
				return err
			}
			measured, baselines, err := privacycost.Measure(c.Context(), experiment.Job{
				Jobs: jobs, Version: version,
				Commit: revision(),
			}, cfg)
			if err != nil {
				return err
			}
			if err := writePrivacyDocs(out, rows, measured, baselines); err != nil {
				return err
			}
			a.progress("wrote %s to %s", format.Plural(len(measured), "row"), out)
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "out", "o", "docs/privacy.md", "write the page to this file")
	fl.StringVar(&rows, "rows", "internal/study/privacycost/measured.json",
		"write the rows to this file, which is built into the program")
	fl.StringVar(&commands, "commands", "", "print commands that make the runs in this folder, and stop")
	fl.StringVar(&cfg.Folder, "runs", "", "folder of the runs")
	fl.BoolVar(&cfg.StoredOnly, "found", false, "use only finished runs in the --runs folder")
	fl.StringSliceVar(&cfg.Sets, "sets", nil, "only these data sets")
	dataDirFlag(fl, &cfg.DataDir)
	jobsFlag(fl, &jobs)
	return c
}

// privacyEvent prints a progress event.
func (a *app) privacyEvent(event privacycost.Event) {
	switch e := event.(type) {
	case privacycost.RowMeasured:
		a.progress("%s: HR@10 %.4f  NDCG@10 %.4f", e.Name, e.HR, e.NDCG)
	case privacycost.RowKept:
		fmt.Fprintf(a.err, "%s is not in the folder of runs; its earlier row is kept\n", e.Name)
	case privacycost.RowMissing:
		fmt.Fprintf(a.err, "%s is not in the folder of runs; the page has no row for it\n", e.Name)
	case privacycost.RowDropped:
		fmt.Fprintf(a.err, "the row of %s is dropped: its run was removed or has other settings now\n", e.Name)
	}
}

// earlierRows are the rows of the file to be rewritten, or the built-in ones if it does not exist.
func earlierRows(path string) ([]privacycost.Row, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return privacycost.Rows()
	} else if err != nil {
		return nil, input(err, "")
	}
	out, err := privacycost.ReadRows(b)
	if err != nil {
		return nil, input(fmt.Errorf("%s: %w", path, err), "--rows must name a new file, or one that tacit docs "+
			"privacy wrote")
	}
	return out, nil
}

func writePrivacyDocs(out, rows string, measured []privacycost.Row, baselines []privacycost.Baseline) error {
	page, err := privacycost.Page(measured, baselines)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(measured, "", "\t")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(out, page); err != nil {
		return err
	}
	return atomicfile.Write(rows, append(b, '\n'))
}
