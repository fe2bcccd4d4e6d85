package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/bench"
	"github.com/tacit-rec/tacit/internal/study/experiment"
)

const benchLong = `
It measures multiply-adds and memory bandwidth, the kernels relative to them, a round of each method
next to a naive loop, full ranking, and whole runs, on world, ml-100k and ml-1m. Other programs
disturb the times: trust ratios more than seconds. Ctrl-C prints what was measured so far.`

func (a *app) benchCmd() *cobra.Command {
	var out, dataDir string
	var sets []string
	var jobs int
	var quick bool
	c := &cobra.Command{
		Use: "bench", Short: "Measure the speed of this machine", Long: benchLong,
		Args:    noArgs,
		Example: "  tacit bench --quick\n  tacit bench --sets world,ml-100k -j 2\n  tacit bench -o docs/performance.md",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg := bench.Config{
				Jobs: jobs, Quick: quick, Commit: revision(), CPU: experiment.CPU(),
				OnEvent: func(e bench.Measuring) { a.progress("measuring %s", e.What) },
			}
			if err := checkJobs(jobs); err != nil {
				return err
			}
			if quick && !c.Flags().Changed("sets") {
				sets = []string{"world", "ml-100k"}
			}
			if out != "" { // fail before a minute of measuring, not after
				f, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY, 0o644)
				if err != nil {
					return input(err, "")
				}
				f.Close()
			}
			var err error
			if cfg.Sets, err = a.benchSets(sets, dataDir, c.Flags().Changed("sets")); err != nil {
				return err
			}
			r, err := bench.Measure(c.Context(), cfg)
			if errors.Is(err, context.Canceled) {
				return a.partialBench(r, out)
			}
			if err != nil {
				return err
			}
			if out != "" {
				if err := writeFile(out, func(w io.Writer) error { return bench.Markdown(w, r) }); err != nil {
					return err
				}
			}
			return a.result(r, func(w io.Writer) error { return bench.Text(w, r) })
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "out", "o", "", "also write the page (docs/performance.md)")
	dataDirFlag(c.Flags(), &dataDir)
	fl.StringSliceVar(&sets, "sets", []string{"world", "ml-100k", "ml-1m"},
		"data sets; by default, missing ones are skipped")
	fl.IntVarP(&jobs, "jobs", "j", runtime.NumCPU(), "most goroutines; smaller powers of two are measured too")
	fl.BoolVar(&quick, "quick", false, "about 10 s on two idle cores: few methods, on world and ml-100k")
	return c
}

// partialBench prints what was measured before an interrupt, and removes the empty page.
func (a *app) partialBench(r *bench.Report, out string) error {
	if st, err := os.Stat(out); out != "" && err == nil && st.Size() == 0 {
		_ = os.Remove(out)
	}
	if a.format != "json" && len(r.Kernels) > 0 { // JSON reports the interruption
		if err := bench.Text(a.out, r); err != nil {
			return err
		}
		fmt.Fprint(a.out, "\nInterrupted: the tables are incomplete.\n")
	}
	return &experiment.Stopped{Hint: "tacit bench --quick measures fewer methods"}
}

// benchSets opens the data sets. It skips missing ones unless the user named them.
func (a *app) benchSets(names []string, dataDir string, asked bool) ([]bench.Set, error) {
	var out []bench.Set
	for _, name := range names {
		spec, err := experiment.Resolve([]experiment.Setting{{Key: "data", Value: name, From: "flag --sets"}})
		if err != nil {
			return nil, err
		}
		src, err := experiment.OpenData(&spec.Settings, dataDir)
		if errors.Is(err, fs.ErrNotExist) && !asked {
			fmt.Fprintf(a.err, "skipping %s: not on this machine (tacit data fetch)\n", name)
			continue
		} else if err != nil {
			return nil, err
		}
		out = append(out, bench.Set{Name: name, Source: src})
	}
	return out, nil
}
