package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/lab"
	"github.com/tacit-rec/tacit/report"
)

func (a *app) parityCmd() *cobra.Command {
	var out, picture string
	var cfg lab.ParityConfig
	var jobs int
	c := &cobra.Command{
		Use: "parity", Short: "Run every method beside its published number and write docs/parity.md", Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			base := lab.Job{Jobs: jobs, Version: version, Commit: revision()}
			cfg.Tell = func(s string) { fmt.Fprintln(a.err, s) }
			rows, err := lab.Parity(c.Context(), base, cfg)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			note := fmt.Sprintf("Made by tacit docs parity with seeds 1 to %d at commit %s, on %d cores (%s, %s/%s).",
				cfg.Seeds, revision(), jobs, lab.CPU(), runtime.GOOS, runtime.GOARCH)
			if err := report.Parity(&b, rows, note); err != nil {
				return err
			}
			if err := os.WriteFile(out, b.Bytes(), 0o644); err != nil || picture == "" {
				return err
			}
			b.Reset()
			if err := report.Leak(&b, rows, cfg.Sets[0]); err != nil {
				return err
			}
			return os.WriteFile(picture, b.Bytes(), 0o644)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "out", "o", "docs/parity.md", "the file to write")
	fl.StringVar(&picture, "picture", "", "also draw the methods under paper and deployed, on the first data set, to this SVG file")
	fl.StringVar(&cfg.DataDir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's cache folder")
	fl.StringSliceVar(&cfg.Sets, "sets", []string{"ml-100k", "ml-1m", "filmtrust", "frappe"}, "data sets")
	fl.StringSliceVar(&cfg.Only, "only", nil, "only these methods")
	fl.StringVar(&cfg.Runs, "runs", "", "keep the runs in this folder, and take those that are there")
	fl.StringSliceVar(&cfg.Protocols, "protocols", []string{"paper", "isolated", "deployed"}, "protocols")
	fl.IntVar(&cfg.Seeds, "seeds", 5, "seeds per row")
	fl.IntVarP(&jobs, "jobs", "j", cores(), "goroutines that visit devices")
	return c
}
