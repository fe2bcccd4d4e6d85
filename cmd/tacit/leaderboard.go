package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/leaderboard"
	"github.com/tacit-rec/tacit/internal/study/report"
)

const leadersLong = `Run every method of the registry, and the reference rows, on the data sets of the board under honest
protocols, and write docs/leaderboard.md. A run is a cell, and is kept as one small JSON file in
--cells: what is there is taken, so the command can be stopped and given again, and cells that were
run on another machine can be copied in. A cell is of its method, settings, data, protocol, seed and
program; another program or other settings are another cell.

--minutes bounds the time: the cheapest cells come first, and later seeds later, so that expensive
rows have fewer seeds. A cell that would not fit into what is left is not begun, and one that does
not end in time is stopped when its round ends. What was not run is listed on the page with its reason. --list prints the
cells with their estimated seconds, --found makes the page of what is there.

tacit report CELLS -o page.html makes a page of the same.`

const leadersExample = `  tacit docs leaderboard --cells cells --list
  tacit docs leaderboard --cells cells --minutes 25
  tacit docs leaderboard --cells cells --only tacit,ials,popularity --sets ml-100k --seeds 2 -o board.md
  tacit docs leaderboard --cells cells --found`

// leadersFlags are those that say what to do with the cells.
type leadersFlags struct {
	out, picture string
	list, found  bool
}

func (a *app) leaderboardCmd() *cobra.Command {
	var f leadersFlags
	cfg := leaderboard.Config{Version: version, Commit: revision()}
	c := &cobra.Command{
		Use: "leaderboard", Short: "Run every method beside each other and write docs/leaderboard.md",
		Long: leadersLong, Example: leadersExample, Args: args(cobra.NoArgs),
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
			if err != nil { // stopped: the page is there, with what is missing
				return err
			}
			return a.result(all, func(w io.Writer) error { return report.LeadersText(w, all) })
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "out", "o", "docs/leaderboard.md", "the page to write")
	fl.StringVar(&f.picture, "picture", "", "also draw the methods under deployed to this SVG file, and show it on "+
		"the page")
	fl.BoolVar(&f.list, "list", false, "print the cells and their estimated seconds, and stop")
	fl.BoolVar(&f.found, "found", false, "make the page of the cells that are there, and run nothing")
	fl.StringVar(&cfg.Folder, "cells", "", "the folder of the cells")
	fl.StringVar(&cfg.DataDir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's "+
		"cache folder")
	fl.StringSliceVar(&cfg.Sets, "sets", nil, "data sets; else ml-100k, ml-1m, filmtrust and frappe")
	fl.StringSliceVar(&cfg.Protocols, "protocols", nil, "protocols; else deployed and temporal")
	fl.StringSliceVar(&cfg.Only, "only", nil, "only these methods and reference rows; with a plug-in too, as in "+
		"fedncf+dualper")
	fl.IntVar(&cfg.Seeds, "seeds", 5, "seeds per row, at most")
	fl.Float64Var(&cfg.Share, "new-users", 0.1, "share of users that take no part in training, in cells of their "+
		"own under deployed; 0 for no such cells")
	fl.Float64Var(&cfg.Minutes, "minutes", 0, "what running may take; 0 is without a limit")
	fl.IntVarP(&cfg.Jobs, "jobs", "j", 1, "goroutines of one cell")
	fl.IntVar(&cfg.Parallel, "parallel", cores(), "cells that run at the same time")
	return c
}

// write leaves the page, the picture and leaderboard.json.
func (f *leadersFlags) write(all *report.Leaderboard, cells string) error {
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(cells, report.LeadersFile), append(b, '\n')); err != nil {
		return input(err, "give another --cells")
	}
	shown := ""
	if f.picture != "" {
		var svg bytes.Buffer
		if err := report.LeadersPicture(&svg, all, "deployed"); err != nil {
			return input(err, "leave --picture out")
		}
		if err := atomicfile.Write(f.picture, svg.Bytes()); err != nil {
			return input(err, "give another --picture")
		}
		if shown, err = filepath.Rel(filepath.Dir(f.out), f.picture); err != nil {
			shown = f.picture
		}
	}
	var page bytes.Buffer
	if err := report.Leaders(&page, all, filepath.ToSlash(shown)); err != nil {
		return err
	}
	if err := atomicfile.Write(f.out, page.Bytes()); err != nil {
		return input(err, "give another -o")
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

// listCells prints what there is and what it may take.
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
	t.Notes = append(t.Notes, fmt.Sprintf("What is to run, in the order of running, takes very roughly %s on one "+
		"core, %s with --parallel %d -j %d.", roughly(left), roughly(left/busy), board.Parallel, board.Jobs))
	return a.result(map[string]any{"cells": rows, "seconds_left": left}, t.Text)
}
