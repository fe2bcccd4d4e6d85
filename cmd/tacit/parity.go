package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
)

func (a *app) parityCmd() *cobra.Command {
	var out, picture string
	var cfg experiment.ParityConfig
	var jobs int
	c := &cobra.Command{
		Use: "parity", Short: "Run the PFedRec family beside its published numbers and write docs/parity.md",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			rows, err := a.cells(c, "pfedrec", &cfg, jobs)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			note := fmt.Sprintf("Made by tacit docs parity with seeds 1 to %d at commit %s, on %d cores (%s, %s/%s).",
				cfg.Seeds, revision(), jobs, experiment.CPU(), runtime.GOOS, runtime.GOARCH)
			if cfg.Found {
				note = "Made by tacit docs parity --found of runs that were kept, with seeds from 1 on; each row " +
					"names the commit of its runs, and what has no row was not run. " +
					"Their times were taken on different machines, some beside other work: for speed read docs/performance.md."
			}
			if err := report.Parity(&b, "Parity", rows, cfg.Paper.Note, note); err != nil {
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
	fl.StringVar(&picture, "picture", "", "also draw the methods under paper and deployed, on the first data set, "+
		"to this SVG file")
	cellFlags(fl, &cfg, &jobs)
	return c
}

// cells runs the cells of a paper, and says what comes out and how long the rest may
// take.
func (a *app) cells(c *cobra.Command, paper string, cfg *experiment.ParityConfig, jobs int) ([]report.ParityRow,
	error,
) {
	var err error
	if cfg.Paper, err = experiment.PaperNamed(paper); err != nil {
		return nil, err
	}
	if len(cfg.Sets) == 0 {
		cfg.Sets = cfg.Paper.Sets
	}
	if len(cfg.Protocols) == 0 {
		cfg.Protocols = cfg.Paper.Protocols
	}
	cfg.Begin = func(p *experiment.Agenda) {
		if !a.quiet {
			planCard(a.err, p, cfg)
		}
	}
	cfg.Tell = func(t experiment.Told) {
		if a.quiet {
			return
		}
		r := t.Row
		fmt.Fprintf(a.err, "%d/%d  %s on %s under %s: HR@10 %.4f  NDCG@10 %.4f  about %s left\n",
			t.Done, t.N, strings.TrimSpace(r.Method+" "+r.Variant), r.Dataset, r.Protocol, r.HR, r.NDCG,
			t.Left.Round(time.Second))
	}
	rows, err := experiment.Parity(c.Context(), experiment.Job{Jobs: jobs, Version: version, Commit: revision()}, *cfg)
	var stopped *experiment.Stopped
	if errors.As(err, &stopped) {
		if stopped.Hint = "give the same command again to go on"; cfg.Runs == "" {
			stopped.Hint = "give --runs DIR to be able to go on after Ctrl-C"
		}
		a.partial(rows)
	}
	return rows, err
}

// partial shows the cells that are done when a reproduction is stopped.
func (a *app) partial(rows []report.ParityRow) {
	if len(rows) == 0 || a.format == "json" { // one envelope, which tells of the stop
		return
	}
	if report.ParityText(a.out, rows) == nil {
		fmt.Fprintf(a.out, "\nStopped: these are the %d cells that are done, and not the whole of the tables.\n",
			len(rows))
	}
}

// planCard says what a reproduction will do before it starts.
func planCard(w io.Writer, p *experiment.Agenda, cfg *experiment.ParityConfig) {
	fmt.Fprintf(w, "paper     %s: %s\n", p.Paper.Name, p.Paper.Title)
	for i, s := range p.Sets() {
		name := "data"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(w, "%-9s %s\n", name, s)
	}
	fmt.Fprintf(w, "protocols %s\n", strings.Join(p.Protocols(), ", "))
	n, kept := len(p.Cells), p.Kept()
	fmt.Fprintf(w, "cells     %d, each with %s\n", n, p.Seeds())
	switch {
	case cfg.Runs == "":
		fmt.Fprintf(w, "kept      nowhere: what is done is lost on Ctrl-C; --runs DIR keeps it\n")
	case cfg.Found:
		fmt.Fprintf(w, "kept      in %s: %d are there, and nothing is run\n", cfg.Runs, kept)
	default:
		fmt.Fprintf(w, "kept      in %s: %d are there, %d are to be run; Ctrl-C stops, and the same command goes on\n",
			cfg.Runs, kept, n-kept)
	}
	if !cfg.Found {
		fmt.Fprintf(w, "estimate  about %s, and very roughly; reference rows come on top\n", roughly(p.Seconds))
	}
}

func cellFlags(fl *pflag.FlagSet, cfg *experiment.ParityConfig, jobs *int) {
	fl.StringVar(&cfg.DataDir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's "+
		"cache folder")
	fl.StringSliceVar(&cfg.Sets, "sets", nil, "data sets; else those of the paper")
	fl.StringSliceVar(&cfg.Only, "only", nil, "only these methods")
	fl.BoolVar(&cfg.Found, "found", false, "take what is among the --runs, and run nothing")
	fl.StringVar(&cfg.Runs, "runs", "", "keep the runs in this folder, and take those that are there")
	fl.StringSliceVar(&cfg.Protocols, "protocols", nil, "protocols; else those that make sense for the paper")
	fl.IntVar(&cfg.Seeds, "seeds", 5, "seeds per row")
	fl.IntVarP(jobs, "jobs", "j", cores(), "goroutines that visit devices")
}
