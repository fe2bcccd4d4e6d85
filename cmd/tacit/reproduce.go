package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/reproduce"
	"github.com/tacit-rec/tacit/internal/study/result"
)

const reproduceLong = `
It runs every method and variant of a paper's tables under several protocols, and prints the published
number next to ours. A row is reproduced if HR@10 and NDCG@10 are within 1.5 points of the paper's.
The runs are kept (--runs names the folder), and the same command resumes after Ctrl-C.

%s`

func (a *app) reproduceCmd() *cobra.Command {
	var out string
	var cfg reproduce.Config
	var jobs int
	var about strings.Builder
	for _, p := range reproduce.Papers() {
		fmt.Fprintf(&about, "  %-10s %s\n", p.Name, shorten(p.Title, 86))
	}
	c := &cobra.Command{
		Use: "reproduce PAPER", Short: "Run the tables of a paper and compare with its numbers",
		Long: fmt.Sprintf(reproduceLong, about.String()),
		Example: "  tacit reproduce pfedrec --quick\n  tacit reproduce fedrap --runs runs/fedrap -o fedrap.md\n  " +
			"tacit reproduce pfedrec --sets ml-100k --seeds 5 --runs runs/pfedrec -o table.tex",
		Args: exactArgs(1),
		RunE: func(c *cobra.Command, words []string) error {
			if out != "" && !strings.Contains(" .md .tex .csv .html ", " "+filepath.Ext(out)+" ") {
				return input(fmt.Errorf("-o %s: the name must end in .md, .tex, .csv or .html", out), "")
			}
			p, err := reproduce.PaperNamed(words[0])
			if err != nil {
				return err
			}
			if !c.Flags().Changed("runs") {
				cfg.Runs = filepath.Join("runs", "reproduce", p.Name)
				if cfg.Quick {
					cfg.Runs += "-quick"
				}
			}
			if cfg.Runs == "none" {
				cfg.Runs = ""
			}
			if filepath.Ext(out) == ".html" && cfg.Runs == "" {
				return input(fmt.Errorf("-o %s: an HTML report needs the run folders", out), "omit --runs none")
			}
			if cfg.Quick {
				if len(cfg.Sets) == 0 {
					cfg.Sets = p.Quick
				}
				if len(cfg.Protocols) == 0 { // between the paper's and an honest one
					cfg.Protocols = slices.DeleteFunc(slices.Clone(p.Protocols), func(name string) bool {
						return name == "isolated"
					})
				}
				if !c.Flags().Changed("seeds") {
					cfg.Seeds = 1
				}
			}
			rows, err := a.runCells(c, words[0], &cfg, jobs)
			if err != nil {
				return err
			}
			if out == "" {
				err = a.result(rows, func(w io.Writer) error { return report.ParityText(w, rows) })
			} else {
				err = a.writeRows(out, rows, &cfg)
			}
			if err == nil && cfg.Runs != "" {
				a.progress("the runs are in %s, for example %s; tacit report FOLDER -o page.html shows them", cfg.Runs,
					rows[0].Folder)
			}
			return err
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "out", "o", "", "write to this file (.md, .tex, .csv or .html)")
	fl.BoolVar(&cfg.Quick, "quick", false, "about a minute on two idle cores: one seed, the smallest data, fewer rows")
	cellFlags(fl, &cfg, &jobs)
	fl.Lookup("runs").Usage = "keep runs in this folder and reuse those in it; default runs/reproduce/PAPER; or none"
	a.describe(c, "", flagsUnder("Selection", "quick sets seeds", "protocols only data-dir jobs"),
		flagsUnder("Output", "out runs", "found"))
	return c
}

func (a *app) writeRows(out string, rows []result.ParityRow, cfg *reproduce.Config) error {
	err := writeFile(out, func(w io.Writer) error {
		switch filepath.Ext(out) {
		case ".tex":
			return report.ParityLaTeX(w, rows)
		case ".csv":
			return report.ParityCSV(w, rows)
		case ".html":
			return reproducedPage(w, rows)
		}
		note := fmt.Sprintf("Made by `%s` at commit %s; the first seed is 1.",
			reproduceCommand(cfg, filepath.Base(out)), revision())
		if err := report.Parity(w, cfg.Paper.Title, rows, cfg.Paper.Note, note); err != nil || cfg.Paper.Tried == "" {
			return err
		}
		_, err := io.WriteString(w, "\n"+cfg.Paper.Tried)
		return err
	})
	if err != nil {
		return err
	}
	return a.resultLine(rows, "wrote %s to %s", format.Plural(len(rows), "row"), out)
}

// reproducedPage writes an HTML page of the runs behind the rows.
func reproducedPage(w io.Writer, rows []result.ParityRow) error {
	var dirs []string
	for _, r := range rows {
		dirs = append(dirs, r.Folder)
	}
	runs, err := loadRuns(dirs)
	if err != nil {
		return err
	}
	return report.HTML(w, runs)
}

// reproduceCommand is the command that makes a page, with generic folder names.
func reproduceCommand(cfg *reproduce.Config, out string) string {
	words := []string{"tacit reproduce", cfg.Paper.Name, "--sets", strings.Join(cfg.Sets, ",")}
	if !slices.Equal(cfg.Protocols, cfg.Paper.Protocols) {
		words = append(words, "--protocols", strings.Join(cfg.Protocols, ","))
	}
	if len(cfg.Only) > 0 {
		words = append(words, "--only", strings.Join(cfg.Only, ","))
	}
	words = append(words, "--seeds", fmt.Sprint(cfg.Seeds))
	if cfg.Runs != "" {
		words = append(words, "--runs", "runs/"+cfg.Paper.Name)
	}
	return strings.Join(append(words, "-o", out), " ")
}
