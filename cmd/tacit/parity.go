package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/reproduce"
	"github.com/tacit-rec/tacit/internal/study/result"
)

func (a *app) parityCmd() *cobra.Command {
	var out, picture string
	var cfg reproduce.Config
	var jobs int
	c := &cobra.Command{
		Use: "parity", Short: "Compare the PFedRec family with its published numbers: docs/parity.md",
		Args:    noArgs,
		Example: "  tacit docs parity --runs runs/pfedrec --found",
		RunE: func(c *cobra.Command, _ []string) error {
			rows, err := a.runCells(c, "pfedrec", &cfg, jobs)
			if err != nil {
				return err
			}
			write := func(w io.Writer) error {
				return report.Parity(w, "Parity", rows, cfg.Paper.Note, parityNote(&cfg, jobs))
			}
			if err := writeFile(out, write); err != nil {
				return err
			}
			if picture != "" {
				draw := func(w io.Writer) error { return report.LeakPicture(w, rows, cfg.Sets[0]) }
				if err := writeFile(picture, draw); err != nil {
					return err
				}
			}
			a.progress("wrote %s to %s", format.Plural(len(rows), "row"), out)
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "out", "o", "docs/parity.md", "write the page to this file")
	fl.StringVar(&picture, "picture", "", "also draw paper against deployed on the first data set, as SVG")
	cellFlags(fl, &cfg, &jobs)
	return c
}

// parityNote says how the page was made.
func parityNote(cfg *reproduce.Config, jobs int) string {
	if cfg.StoredOnly {
		return "Made by tacit docs parity --found from finished runs; the first seed is 1. Each row names the " +
			"commit of " +
			"its runs; missing rows were not run. Times come from different, partly loaded machines: " +
			"docs/performance.md has comparable ones."
	}
	return fmt.Sprintf("Made by tacit docs parity with seeds 1 to %d at commit %s, on %d cores (%s, %s/%s).",
		cfg.Seeds, revision(), jobs, experiment.CPU(), runtime.GOOS, runtime.GOARCH)
}

// runCells runs the cells of a paper's tables, with progress.
func (a *app) runCells(c *cobra.Command, paper string, cfg *reproduce.Config, jobs int) ([]result.ParityRow,
	error,
) {
	var err error
	if cfg.Paper, err = reproduce.PaperNamed(paper); err != nil {
		return nil, err
	}
	if len(cfg.Sets) == 0 {
		cfg.Sets = cfg.Paper.Sets
	}
	if len(cfg.Protocols) == 0 {
		cfg.Protocols = cfg.Paper.Protocols
	}
	cfg.OnEvent = func(e reproduce.Event) { a.reproduceEvent(e, cfg) }
	rows, err := reproduce.Run(c.Context(), experiment.Job{Jobs: jobs, Version: version, Commit: revision()}, *cfg)
	var stopped *experiment.Stopped
	if errors.As(err, &stopped) {
		stopped.Hint = "run the same command again to resume"
		if cfg.Runs == "" {
			stopped.Hint = "add --runs DIR to be able to resume after Ctrl-C"
		}
		a.printPartial(rows)
	}
	return rows, err
}

// reproduceEvent prints a progress event.
func (a *app) reproduceEvent(event reproduce.Event, cfg *reproduce.Config) {
	switch e := event.(type) {
	case reproduce.Planned:
		if !a.quiet {
			planCard(a.err, e.Plan, cfg)
		}
	case reproduce.RowDone:
		r := e.Row
		left := ""
		if e.Remaining > 0 {
			left = fmt.Sprintf("  about %s left", e.Remaining.Round(time.Second))
		}
		a.progress("%d/%d  %s on %s under %s: HR@10 %.4f  NDCG@10 %.4f%s", e.Done, e.Of,
			strings.TrimSpace(r.Method+" "+r.Variant), r.Dataset, r.Protocol, r.HR, r.NDCG, left)
	}
}

// printPartial prints the finished cells of an interrupted reproduction.
func (a *app) printPartial(rows []result.ParityRow) {
	if len(rows) == 0 || a.format == "json" { // the envelope reports the interruption
		return
	}
	if report.ParityText(a.out, rows) == nil {
		fmt.Fprintf(a.out, "\nInterrupted: %s finished, and the tables are incomplete.\n",
			format.Plural(len(rows), "cell"))
	}
}

// planCard prints what a reproduction is going to do.
func planCard(w io.Writer, p *reproduce.Plan, cfg *reproduce.Config) {
	fmt.Fprintf(w, "paper     %s: %s\n", p.Paper.Name, p.Paper.Title)
	for i, s := range p.Sets() {
		name := "data"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(w, "%-9s %s\n", name, s)
	}
	fmt.Fprintf(w, "protocols %s\n", strings.Join(p.Protocols(), ", "))
	n, kept := len(p.Rows), p.Stored()
	fmt.Fprintf(w, "cells     %d, each with %s\n", n, p.Seeds())
	if p.LeftOut > 0 {
		fmt.Fprintf(w, "quick     %d more cells are left out: the paper's own method comes first, then the others in "+
			"order while they fit\n", p.LeftOut)
	}
	switch {
	case cfg.Runs == "":
		fmt.Fprintf(w, "kept      nowhere: Ctrl-C loses finished cells; --runs DIR keeps them\n")
	case cfg.StoredOnly:
		fmt.Fprintf(w, "kept      in %s: %d finished; no others are run\n", cfg.Runs, kept)
	default:
		fmt.Fprintf(w, "kept      in %s: %d finished, %d to run; after Ctrl-C the same command resumes\n",
			cfg.Runs, kept, n-kept)
	}
	if !cfg.StoredOnly {
		fmt.Fprintf(w, "estimate  very roughly %s, plus the reference rows\n", roughly(p.Seconds))
	}
}

// cellFlags adds the flags of commands that run the cells of a paper.
func cellFlags(fl *pflag.FlagSet, cfg *reproduce.Config, jobs *int) {
	dataDirFlag(fl, &cfg.DataDir)
	fl.StringSliceVar(&cfg.Sets, "sets", nil, "data sets, instead of the paper's")
	fl.StringSliceVar(&cfg.Only, "only", nil, "only these methods")
	fl.BoolVar(&cfg.StoredOnly, "found", false, "use only finished runs in the --runs folder")
	fl.StringVar(&cfg.Runs, "runs", "", "keep runs in this folder, and reuse those in it")
	fl.StringSliceVar(&cfg.Protocols, "protocols", nil, "protocols, instead of those suited to the paper")
	fl.IntVar(&cfg.Seeds, "seeds", 5, "seeds per row")
	jobsFlag(fl, jobs)
}
