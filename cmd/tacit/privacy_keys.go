package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/privacy"
)

const keysLong = `List what the promise of a run may say: tacit run --dp key=value,key=value ...

A promise wants a budget (epsilon) or noise, and a bound on a device's update (clip). All else has a
default. What does not go together is refused, with what to add or to leave out.`

const keysExample = `  tacit privacy keys
  tacit run -m fedmf -d ml-100k --dp epsilon=8,delta=1e-6,clip=0.5 --cohort poisson:0.1
  tacit run -m fedmf -d ml-100k --dp epsilon=8,mechanism=tree --cohort cycle:100
  tacit run -m fedmf -d ml-100k --dp epsilon=8,mechanism=tree --cohort come:50/10 # devices choose when they come
  tacit run -m fedmf -d ml-100k --dp noise=1,trust=distributed,min-devices=50 --cohort 100 --secagg assumed`

func (a *app) keysCmd() *cobra.Command {
	return &cobra.Command{
		Use: "keys", Short: "What --dp of a run may say", Long: keysLong, Example: keysExample,
		Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			keys := privacy.Keys()
			t := report.Table{Header: []string{"key", "default", "what it is"}}
			for _, k := range keys {
				about := k.About
				if len(k.Choices) > 0 {
					about += " (" + strings.Join(k.Choices, ", ") + ")"
				}
				t.Rows = append(t.Rows, []any{k.Name, k.Default, about})
			}
			return a.result(keys, t.Text)
		},
	}
}
