package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/leaderboard"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/result"
)

const leaderboardLong = `
It runs every method and reference row under honest protocols and writes docs/leaderboard.md. Each run
is a cell: one JSON file in --cells. Finished cells are reused, so the command can be interrupted
and repeated, and cells from other machines can be copied in.`

const leaderboardDetails = `
A cell belongs to one method, settings, data set, protocol, seed and program version. --minutes limits
the time: cheap cells and first seeds run first, so expensive rows have fewer seeds; a cell that does
not finish in time is interrupted after its round. The page lists what was not run, and why.
tacit report CELLS -o page.html makes an HTML page from the same cells.`

const leaderboardExample = `  tacit docs leaderboard --cells cells --list
  tacit docs leaderboard --cells cells --minutes 25
  tacit docs leaderboard --cells cells --only tacit,ials,popularity --sets ml-100k --seeds 2 -o board.md
  tacit docs leaderboard --cells cells --found`

// leaderboardFlags say what to do with the cells.
type leaderboardFlags struct {
	out, picture string
	list, found  bool
}

func (a *app) leaderboardCmd() *cobra.Command {
	var f leaderboardFlags
	cfg := leaderboard.Config{Version: version, Commit: revision()}
	c := &cobra.Command{
		Use: "leaderboard", Short: "Compare all methods on all data sets: docs/leaderboard.md",
		Long: leaderboardLong, Example: leaderboardExample, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg.OnEnd = a.cellEnded
			board, err := leaderboard.New(cfg)
			if err != nil {
				return err
			}
			if f.list {
				return a.listCells(board)
			}
			if !f.found {
				err = board.Run(c.Context())
				var stopped *experiment.Stopped
				if err != nil && !errors.As(err, &stopped) {
					return err
				}
			}
			all, wrong := board.Report()
			if wrong != nil {
				return wrong
			}
			if wrong := f.write(all, cfg.Folder); wrong != nil {
				return wrong
			}
			if err != nil { // interrupted: the page lists what is missing
				return err
			}
			return a.result(all, func(w io.Writer) error { return report.LeaderboardText(w, all) })
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "out", "o", "docs/leaderboard.md", "write the page to this file")
	fl.StringVar(&f.picture, "picture", "", "also draw the methods under deployed as SVG, for the page")
	fl.BoolVar(&f.list, "list", false, "print the cells and their estimated seconds, and stop")
	fl.BoolVar(&f.found, "found", false, "make the page from finished cells only")
	fl.StringVar(&cfg.Folder, "cells", "", "folder of the cells")
	dataDirFlag(fl, &cfg.DataDir)
	fl.StringSliceVar(&cfg.Sets, "sets", nil, "data sets, instead of ml-100k, ml-1m, filmtrust and frappe")
	fl.StringSliceVar(&cfg.Protocols, "protocols", nil, "protocols, instead of deployed and temporal")
	fl.StringSliceVar(&cfg.Only, "only", nil, "only these methods and reference rows, such as tacit,fedncf+dualper")
	fl.IntVar(&cfg.Seeds, "seeds", 5, "most seeds per row")
	fl.Float64Var(&cfg.Share, "new-users", 0.1, "fraction of cold-start users, in separate cells under deployed; 0: "+
		"no such cells")
	fl.Float64Var(&cfg.Minutes, "minutes", 0, "time limit; 0 means none")
	fl.IntVarP(&cfg.Jobs, "jobs", "j", 1, "goroutines per cell")
	a.describe(c, leaderboardDetails,
		flagsUnder("Cells", "cells list found minutes", "jobs parallel"),
		flagsUnder("Selection", "sets protocols only seeds", "new-users data-dir"),
		flagsUnder("Output", "out", "picture"))
	fl.IntVar(&cfg.Parallel, "parallel", runtime.NumCPU(), "cells at a time")
	return c
}

// write writes the page, the picture and leaderboard.json.
func (f *leaderboardFlags) write(all *result.Leaderboard, cells string) error {
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(cells, result.LeaderboardFile), append(b, '\n')); err != nil {
		return input(err, "choose another folder with --cells")
	}
	shown := ""
	if f.picture != "" {
		var svg bytes.Buffer
		if err := report.LeaderboardPicture(&svg, all, "deployed"); err != nil {
			return input(err, "omit --picture")
		}
		if err := atomicfile.Write(f.picture, svg.Bytes()); err != nil {
			return input(err, "choose another file with --picture")
		}
		if shown, err = filepath.Rel(filepath.Dir(f.out), f.picture); err != nil {
			shown = f.picture
		}
	}
	var page bytes.Buffer
	if err := report.LeaderboardMarkdown(&page, all, filepath.ToSlash(shown)); err != nil {
		return err
	}
	if err := atomicfile.Write(f.out, page.Bytes()); err != nil {
		return input(err, "choose another file with -o")
	}
	return nil
}

// cellEnded prints a line for a cell that ended.
func (a *app) cellEnded(e leaderboard.CellEnded) {
	if a.quiet {
		return
	}
	text := e.Cell.Reason()
	switch r := e.Cell.Result; {
	case r != nil && r.Refused != "":
		text = "rejected: " + r.Refused
	case r != nil:
		text = fmt.Sprintf("HR@10 %s  NDCG@10 %s  full %s / %s", points(r.Test.Sampled["hr@10"]),
			points(r.Test.Sampled["ndcg@10"]), points(r.Test.Full["hr@10"]), points(r.Test.Full["ndcg@10"]))
	case errors.Is(e.Cell.Err, context.Canceled):
		text = "interrupted"
	}
	fmt.Fprintf(a.err, "%s  %d done, %d left  %s: %s (%.1f s)\n", e.Elapsed.Round(time.Second), e.Done, e.Left,
		e.Cell.Name, text, e.Took.Seconds())
}

// listCells prints the cells with their estimated times.
func (a *app) listCells(board *leaderboard.Board) error {
	t := report.Table{Header: []string{"cell", "seconds on one core", "state"}, Align: "lrl"}
	rows := []map[string]any{}
	left := 0.0
	add := func(c *leaderboard.Cell, state string) {
		t.Rows = append(t.Rows, []any{c.Name, fmt.Sprintf("%.1f", c.Cost), state})
		rows = append(rows, map[string]any{"cell": c.Name, "seconds": c.Cost, "state": state})
	}
	for _, c := range board.Cells {
		if c.Done() {
			add(c, "done")
		}
	}
	for _, c := range board.Left() {
		left += c.Cost
		add(c, "to run")
	}
	for _, s := range board.Tables {
		if s.Reason != "" {
			t.Notes = append(t.Notes, fmt.Sprintf("%s under %s has no cells: %s.", s.Set, s.Protocol, s.Reason))
		}
	}
	busy := float64(max(board.Parallel*board.Jobs, 1))
	t.Notes = append(t.Notes, fmt.Sprintf("Cells to run are listed in order; they take very roughly %s on one "+
		"core, %s with --parallel %d -j %d.", roughly(left), roughly(left/busy), board.Parallel, board.Jobs))
	return a.result(map[string]any{"cells": rows, "seconds_left": left}, t.Text)
}
