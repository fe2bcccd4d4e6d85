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

const promisesLong = `Measure accuracy against epsilon, and write docs/privacy.md and the rows that tacit privacy plan
knows. The runs are kept in --runs, and those that are there, with the same settings, are taken.
Rows of before stay where nothing new is measured: those of other data sets than --sets, and with
--found those of runs that are not there.`

func (a *app) promisesCmd() *cobra.Command {
	var out, rows, commands string
	var cfg experiment.MeasureConfig
	var jobs int
	c := &cobra.Command{
		Use: "privacy", Short: "Measure accuracy against epsilon and write docs/privacy.md", Long: promisesLong,
		Args: args(cobra.NoArgs),
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
				return input(errors.New("--runs is missing: the folder of the runs"),
					"as in: tacit docs privacy --runs runs")
			}
			cfg.Tell = func(m experiment.Measured) {
				if !a.quiet {
					fmt.Fprintf(a.err, "%s: HR@10 %.4f  NDCG@10 %.4f\n", m.Name, m.HR, m.NDCG)
				}
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
			return writePromises(out, rows, measured, beside)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "out", "o", "docs/privacy.md", "the page to write")
	fl.StringVar(&rows, "rows", "lab/measured.json", "the file of rows to write, which is built into the program")
	fl.StringVar(&commands, "commands", "", "print the commands that make the runs in this folder, and stop")
	fl.StringVar(&cfg.Runs, "runs", "", "the folder of the runs")
	fl.BoolVar(&cfg.Found, "found", false, "take what is among the --runs, and run nothing")
	fl.StringSliceVar(&cfg.Sets, "sets", nil, "only these data sets")
	fl.StringVar(&cfg.DataDir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's "+
		"cache folder")
	fl.IntVarP(&jobs, "jobs", "j", cores(), "goroutines that visit devices")
	return c
}

// keptRows are those of a file that is to be written again, or if there is none those
// that are built in.
func keptRows(path string) ([]experiment.Measured, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return experiment.MeasuredRows()
	} else if err != nil {
		return nil, input(err, "")
	}
	out, err := experiment.ReadRows(b)
	if err != nil {
		return nil, input(fmt.Errorf("%s: %w", path, err), "--rows names a file of rows that tacit docs privacy "+
			"wrote, or a new one")
	}
	return out, nil
}

func writePromises(out, rows string, measured []experiment.Measured, beside []experiment.Baseline) error {
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
