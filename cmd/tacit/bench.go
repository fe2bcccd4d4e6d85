package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/bench"
	"github.com/tacit-rec/tacit/internal/study/experiment"
)

const benchLong = `Measure this machine: its roof (multiply-adds, memory), the kernels against it, a round
of each method beside a naive loop, full ranking, and whole runs, on the built-in world
and on ml-100k and ml-1m where they are found. Machines are noisy: trust the ratios.`

func (a *app) benchCmd() *cobra.Command {
	var out, dataDir string
	var sets []string
	var jobs int
	var quick bool
	c := &cobra.Command{
		Use: "bench", Short: "Measure the speed of this machine, kernel by kernel and round by round", Long: benchLong,
		Args:    args(cobra.NoArgs),
		Example: "  tacit bench --quick\n  tacit bench --sets world,ml-100k -j 2\n  tacit bench -o docs/performance.md",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg := bench.Config{
				Jobs: jobs, Quick: quick, Commit: revision(), CPU: experiment.CPU(),
				Tell: func(s string) {
					if !a.quiet {
						fmt.Fprintln(a.err, "measuring", s)
					}
				},
			}
			if jobs < 1 {
				return input(fmt.Errorf("-j %d: want 1 or more", jobs), "")
			}
			if quick && !c.Flags().Changed("sets") {
				sets = []string{"world", "ml-100k"}
			}
			if out != "" { // better now than after a minute of measuring
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
			if err != nil {
				return err
			}
			if out != "" {
				var b bytes.Buffer
				if err := bench.Markdown(&b, r); err != nil {
					return err
				}
				if err := os.WriteFile(out, b.Bytes(), 0o644); err != nil {
					return input(err, "")
				}
			}
			return a.result(r, func(w io.Writer) error { return bench.Text(w, r) })
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "out", "o", "", "also write the page docs/performance.md is made of")
	fl.StringVar(&dataDir, "data-dir", "",
		"the folder of the data sets; else $TACIT_DATA, else the user's cache folder")
	fl.StringSliceVar(&sets, "sets", []string{"world", "ml-100k", "ml-1m"},
		"data sets; those of the default that are not here are left out")
	fl.IntVarP(&jobs, "jobs", "j", cores(), "goroutines at most; powers of two below it are measured too")
	fl.BoolVar(&quick, "quick", false, "some seconds on world and ml-100k, rougher figures")
	return c
}

// benchSets opens the data sets; one that is not here matters only if it was asked
// for by name.
func (a *app) benchSets(names []string, dataDir string, asked bool) ([]bench.Set, error) {
	var out []bench.Set
	for _, name := range names {
		spec, err := experiment.Resolve([]experiment.Setting{{Key: "data", Value: name, From: "flag --sets"}})
		if err != nil {
			return nil, err
		}
		src, err := experiment.OpenData(&spec.Settings, dataDir)
		if errors.Is(err, fs.ErrNotExist) && !asked {
			fmt.Fprintf(a.err, "%s is not here and is left out\n", name)
			continue
		} else if err != nil {
			return nil, err
		}
		out = append(out, bench.Set{Name: name, Source: src})
	}
	return out, nil
}
