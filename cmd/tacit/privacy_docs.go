package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/lab"
)

const promisesLong = `Measure accuracy against epsilon, and write docs/privacy.md and the rows that tacit privacy plan
knows. The runs are kept in --runs, and those that are there, with the same settings, are taken.`

func (a *app) promisesCmd() *cobra.Command {
	var out, rows, commands string
	var cfg lab.MeasureConfig
	var jobs int
	c := &cobra.Command{
		Use: "privacy", Short: "Measure accuracy against epsilon and write docs/privacy.md", Long: promisesLong, Args: args(cobra.NoArgs),
		Example: "  tacit docs privacy --commands runs\n  tacit docs privacy --runs runs\n  tacit docs privacy --runs runs --found",
		RunE: func(c *cobra.Command, _ []string) error {
			if commands != "" {
				for _, p := range lab.Promises() {
					fmt.Fprintln(a.out, p.Command(commands))
				}
				return nil
			}
			if cfg.Runs == "" {
				return input(errors.New("--runs is missing: the folder of the runs"), "as in: tacit docs privacy --runs runs")
			}
			cfg.Tell = func(m lab.Measured) {
				if !a.quiet {
					fmt.Fprintf(a.err, "%s: HR@10 %.4f  NDCG@10 %.4f\n", m.Name, m.HR, m.NDCG)
				}
			}
			measured, beside, err := lab.Measure(c.Context(), lab.Job{Jobs: jobs, Version: version, Commit: revision()}, cfg)
			if err != nil {
				return err
			}
			page, err := lab.PromisePage(measured, beside)
			if err != nil {
				return err
			}
			if err := os.WriteFile(out, page, 0o644); err != nil {
				return err
			}
			b, err := json.MarshalIndent(measured, "", "\t")
			if err != nil {
				return err
			}
			return os.WriteFile(rows, append(b, '\n'), 0o644)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "out", "o", "docs/privacy.md", "the page to write")
	fl.StringVar(&rows, "rows", "lab/measured.json", "the file of rows to write, which is built into the program")
	fl.StringVar(&commands, "commands", "", "print the commands that make the runs in this folder, and stop")
	fl.StringVar(&cfg.Runs, "runs", "", "the folder of the runs")
	fl.BoolVar(&cfg.Found, "found", false, "take what is among the --runs, and run nothing")
	fl.StringSliceVar(&cfg.Sets, "sets", nil, "only these data sets")
	fl.StringVar(&cfg.DataDir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's cache folder")
	fl.IntVarP(&jobs, "jobs", "j", cores(), "goroutines that visit devices")
	return c
}
