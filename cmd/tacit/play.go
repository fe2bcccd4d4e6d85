package main

import (
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
It trains PFedRec on a built-in synthetic film catalogue twice: as its paper evaluates it, which
leaks the answers into training, and as a real device could. Then it trains a small version of
Tacit's own method the honest way. It needs no network, no data and no settings.`

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

func (a *app) playCmd() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "play", Short: "Show first results in seconds, offline", Long: playLong, Args: noArgs,
		Example: "  tacit play",
		RunE: func(c *cobra.Command, _ []string) error {
			if !a.quiet && a.format == "text" {
				fmt.Fprint(a.out, playStart)
			}
			var runs []*result.Result
			var last *sim.Run
			var source data.Source
			for _, words := range playRuns {
				given, err := experiment.Assignments(strings.Fields(words+" data=world preset=built-in"), "play")
				if err != nil {
					return err
				}
				spec, err := experiment.Resolve(given)
				if err != nil {
					return err
				}
				job, err := a.job(spec, &f)
				if err != nil {
					return err
				}
				tell := job.OnEvent
				job.OnEvent = func(e experiment.Event) {
					if s, ok := e.(experiment.Started); ok {
						last, source = s.Run, s.Split.Source
					}
					tell(e)
				}
				res, err := job.Run(c.Context())
				if err != nil {
					return err
				}
				runs = append(runs, res)
			}
			return a.result(map[string]any{"runs": runs},
				func(w io.Writer) error { return writePlay(w, runs, source, last) })
		},
	}
	jobsFlag(c.Flags(), &f.jobs)
	return c
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
