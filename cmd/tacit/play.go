package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/sim"
)

const playLong = `
It starts a coordinator and simulated devices in this process, trains a recommender in masked rounds
and shows it live on a page. Your browser can take part as one more device. Ctrl-C ends it and writes
a report. It needs no network, no data and no settings.`

const playDetails = `
The pages are on loopback addresses, and nothing is kept but the report: the coordinator's state is in
a temporary folder, and the operator's token only in memory. The data set is synthetic. If standard
output is not a terminal, play ends after the last round. With --no-web it serves no page: it trains
PFedRec as its paper evaluates it, which leaks the answers into training, then as a real device could,
then a small version of Tacit's own method, and prints tables.`

const playStart = `A recommender is tested on an item that each user liked and that was held out of training.
The leak: many papers never draw that item as a negative, so a model can spot it by its absence.
Honest accuracy: devices draw negatives without knowing the answer, as they must in real life.

This trains PFedRec with the leak, PFedRec honestly, and a small version of Tacit's own method
honestly. HR@10 is the fraction of users whose held-out item is among the 10 best of 100; guessing
reaches .10.

`

const playEnd = `
The first two tables show the same method on the same data. Only the negatives that devices may draw
differ, so the gap between them is the leak. The third is the default method of tacit run at half its
width and with half of its training passes, so that it takes seconds.

Next:
  tacit run -d world -o runs/first     # the full size; then open runs/first/report.html
  tacit run -m fedmf -d world          # another method, honestly evaluated
  tacit methods tacit                  # what the default method shares, keeps and sends
`

// playRuns are the settings of the runs that play makes. The default method has half its width, half of its training
// passes and larger cohorts: this takes a sixth of the time, and reaches almost the same on so small a data set.
var playRuns = []string{
	"method=pfedrec protocol=paper rounds=60", "method=pfedrec rounds=60",
	"cohort=cycle:10% rank=48 width=32 train=4",
}

// playFlags are the flags of play.
type playFlags struct {
	runFlags
	noWeb, noBrowser, stay bool
	web, report            string
	devices, rounds        int
}

func (a *app) playCmd() *cobra.Command {
	var f playFlags
	c := &cobra.Command{
		Use: "play", Short: "Watch a federation learn on a page, offline", Long: playLong, Args: noArgs,
		Example: "  tacit play\n  tacit play --no-web      # tables in the terminal instead",
	}
	fl := c.Flags()
	fl.BoolVar(&f.noWeb, "no-web", false, "serve no page: print tables of three simulated runs")
	fl.BoolVar(&f.noBrowser, "no-browser", false, "do not open a browser; print the addresses only")
	fl.BoolVar(&f.stay, "stay", false, "keep the pages after the last round; default on a terminal")
	fl.StringVar(&f.web, "web", "", "folder of the device page; default: web/dist beside the program, if it exists")
	fl.StringVarP(&f.report, "out", "o", "tacit-play.html", "file of the report")
	fl.IntVar(&f.devices, "devices", 120, "simulated devices, 30 to 600")
	fl.IntVar(&f.rounds, "rounds", 14, "training rounds, 1 to 1000")
	jobsFlag(fl, &f.jobs)
	a.describe(c, playDetails,
		flagsUnder("Pages", "no-web out stay", "no-browser web"), flagsUnder("Run", "", "devices rounds jobs"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.noWeb {
			return a.playTables(c.Context(), &f.runFlags)
		}
		if err := f.check(); err != nil {
			return err
		}
		if !c.Flags().Changed("stay") {
			f.stay = terminalOf(a.out) != nil
		}
		return a.playPages(c.Context(), &f)
	}
	return c
}

// playTables runs simulations and prints their tables.
func (a *app) playTables(ctx context.Context, f *runFlags) error {
	if !a.quiet && a.format == "text" {
		fmt.Fprint(a.out, playStart)
	}
	var runs []*result.Result
	var last *sim.Run
	var source data.Source
	for _, words := range playRuns {
		res, err := a.playRun(ctx, words, f, func(e experiment.Event) {
			if s, ok := e.(experiment.Started); ok {
				last, source = s.Run, s.Split.Source
			}
		})
		if err != nil {
			return err
		}
		runs = append(runs, res)
	}
	return a.result(map[string]any{"runs": runs},
		func(w io.Writer) error { return writePlay(w, runs, source, last) })
}

// playRun makes one simulated run on the built-in data set.
func (a *app) playRun(ctx context.Context, words string, f *runFlags, also func(experiment.Event)) (*result.Result,
	error,
) {
	given, err := experiment.Assignments(strings.Fields(words+" data=world preset=built-in"), "play")
	if err != nil {
		return nil, err
	}
	spec, err := experiment.Resolve(given)
	if err != nil {
		return nil, err
	}
	job, err := a.job(spec, f)
	if err != nil {
		return nil, err
	}
	tell := job.OnEvent
	job.OnEvent = func(e experiment.Event) {
		also(e)
		tell(e)
	}
	return job.Run(ctx)
}

// writePlay shows the tables, one device's recommendations and what to type next.
func writePlay(w io.Writer, runs []*result.Result, source data.Source, last *sim.Run) error {
	for _, r := range runs {
		fmt.Fprintln(w)
		if err := report.Text(w, r); err != nil {
			return err
		}
	}
	const user = 7
	var h data.History
	source.History(user, &h)
	info := source.Info()
	name := func(i uint32) string {
		return fmt.Sprintf("%s [%s]", info.ItemName(int(i)), strings.Join(info.Genres[i], ", "))
	}
	fmt.Fprintf(w, "\nUser %d's history never left the device:\n  %-48s  %s\n", user, "WATCHED LAST",
		"RECOMMENDED NEXT")
	top := last.Best.Top[user*len(last.Best.Top)/source.Users():]
	for k := range 5 {
		left, right := "", ""
		if n := len(h.Items) - 3 - k; n >= 0 {
			left = name(h.Items[n])
		}
		if top[k] != metrics.None {
			right = name(top[k])
		}
		fmt.Fprintf(w, "  %-48s  %s\n", left, right)
	}
	_, err := io.WriteString(w, strings.ReplaceAll(playEnd, "  tacit ", "  "+calledAs()+" "))
	return err
}

// calledAs is how the user called this program: ./tacit after make demo, otherwise tacit.
func calledAs() string {
	if os.Args[0] == "./tacit" {
		return os.Args[0]
	}
	return "tacit"
}
