package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/sim"
)

const playLong = `Train PFedRec on the built-in world, twice: as the papers evaluate it, and as a real
device could. Then train Tacit's own method, the default of tacit run, as a device could. Needs
no network, no data and no settings.`

const playEnd = `
PFedRec's two tables are the same method on the same data: only what a device may know while it
learns differs. Tacit's own method is what tacit run takes if no other is named.

Next:
  tacit run -d world -o runs/first                   keep the run: open runs/first/report.html
  tacit run -m fedmf -d world                        another method, honestly evaluated
  tacit methods tacit                                what it shares, keeps and sends
`

func (a *app) playCmd() *cobra.Command {
	var jobs runFlags
	c := &cobra.Command{
		Use: "play", Short: "A first result in seconds, offline, on the built-in world", Long: playLong,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			var runs []*report.Result
			var last *sim.Run
			var source data.Source
			for _, words := range []string{"method=pfedrec protocol=paper rounds=60", "method=pfedrec rounds=60", ""} {
				given, err := experiment.Assignments(strings.Fields(words+" data=world preset=built-in"), "play")
				if err != nil {
					return err
				}
				spec, err := experiment.Resolve(given)
				if err != nil {
					return err
				}
				job, err := a.job(spec, &jobs)
				if err != nil {
					return err
				}
				tell := job.Tell
				job.Tell = func(e any) {
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
				func(w io.Writer) error { return played(w, runs, source, last) })
		},
	}
	c.Flags().IntVarP(&jobs.jobs, "jobs", "j", cores(), "goroutines that visit devices")
	return c
}

// played shows both tables, one device's recommendations, and what to type next.
func played(w io.Writer, runs []*report.Result, source data.Source, last *sim.Run) error {
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
	fmt.Fprintf(w, "\nWhat the device of user %d did last, and what it would be shown next (its history never left "+
		"it):\n", user)
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
	_, err := io.WriteString(w, playEnd)
	return err
}
