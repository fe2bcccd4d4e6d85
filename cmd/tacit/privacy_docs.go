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
)

const privacyDocsLong = `It runs the settings of the page, or reuses runs in --runs, and writes docs/privacy.md and the rows that
tacit privacy plan looks up. Rows of other data sets stay, and with --found also those of missing runs.`

func (a *app) privacyDocsCmd() *cobra.Command {
	var out, rows, commands string
	var cfg experiment.MeasureConfig
	var jobs int
	c := &cobra.Command{
		Use: "privacy", Short: "Measure accuracy for each epsilon: docs/privacy.md", Long: privacyDocsLong,
		Args: noArgs,
		Example: "  tacit docs privacy --commands runs\n  tacit docs privacy --runs runs\n  tacit docs privacy " +
			"--runs runs --found",
		RunE: func(c *cobra.Command, _ []string) error {
			if commands != "" {
				for _, p := range experiment.Promises() {
					fmt.Fprintln(a.out, p.Command(commands))
				}
				return nil
			}
			if cfg.Runs == "" {
				return input(errors.New("--runs is missing"), "tacit docs privacy --runs DIR, with the folder of the runs")
			}
			cfg.Tell = func(m experiment.Measured) {
				a.progress("%s: HR@10 %.4f  NDCG@10 %.4f", m.Name, m.HR, m.NDCG)
			}
			cfg.Skipped = func(what string) { fmt.Fprintln(a.err, what) }
			var err error
			if cfg.Kept, err = keptRows(rows); err != nil {
				return err
			}
			measured, beside, err := experiment.Measure(c.Context(), experiment.Job{
				Jobs: jobs, Version: version,
				Commit: revision(),
			}, cfg)
			if err != nil {
				return err
			}
			return writePrivacyDocs(out, rows, measured, beside)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "out", "o", "docs/privacy.md", "write the page to this file")
	fl.StringVar(&rows, "rows", "internal/study/experiment/measured.json",
		"write the rows to this file, which is built into the program")
	fl.StringVar(&commands, "commands", "", "print commands that make the runs in this folder, and stop")
	fl.StringVar(&cfg.Runs, "runs", "", "folder of the runs")
	fl.BoolVar(&cfg.Found, "found", false, "use only finished runs in the --runs folder")
	fl.StringSliceVar(&cfg.Sets, "sets", nil, "only these data sets")
	dataDirFlag(fl, &cfg.DataDir)
	jobsFlag(fl, &jobs)
	return c
}

// keptRows are the rows of the file to be rewritten, or the built-in ones if it does not exist.
func keptRows(path string) ([]experiment.Measured, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return experiment.MeasuredRows()
	} else if err != nil {
		return nil, input(err, "")
	}
	out, err := experiment.ReadRows(b)
	if err != nil {
		return nil, input(fmt.Errorf("%s: %w", path, err), "--rows must name a new file, or one that tacit docs privacy wrote")
	}
	return out, nil
}

func writePrivacyDocs(out, rows string, measured []experiment.Measured, beside []experiment.Baseline) error {
	page, err := experiment.PromisePage(measured, beside)
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
