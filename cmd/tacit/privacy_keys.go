package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/privacy"
)

const keysLong = `--dp takes key=value pairs with commas between them. It requires a budget (epsilon) or a noise
multiplier (noise), and bounds each device's update (clip). The other keys have defaults. Tacit
rejects combinations that would void the guarantee, and says what to change.`

const keysExample = `  tacit run -m fedmf -d ml-100k --dp epsilon=8,delta=1e-6,clip=0.5 --cohort poisson:0.1
  tacit run -m fedmf -d ml-100k --dp epsilon=8,mechanism=tree --cohort cycle:100
  tacit run -m fedmf --dp noise=1,trust=distributed,min-devices=50 --cohort 100 --secagg assumed`

func (a *app) keysCmd() *cobra.Command {
	return &cobra.Command{
		Use: "keys", Short: "List the keys of --dp", Long: keysLong, Example: keysExample,
		Args: noArgs,
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
