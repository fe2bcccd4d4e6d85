package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/privacy"
)

const keysLong = `
--dp takes key=value pairs with commas between them. It requires a budget (epsilon) or a noise
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
			return a.result(keys, func(w io.Writer) error { return writeKeys(w, keys) })
		},
	}
}

// writeKeys prints the keys of --dp with their defaults.
func writeKeys(w io.Writer, keys []privacy.Key) error {
	const indent = 25
	fmt.Fprintf(w, "%-14s%-11s%s\n%s\n", "key", "default", "what it is", strings.Repeat("-", helpWidth))
	for _, k := range keys {
		text := format.Wrap(withChoices(k.About, k.Choices), helpWidth-indent, "")
		text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", indent))
		if _, err := fmt.Fprintf(w, "%-14s%-11s%s\n", k.Name, k.Default, text); err != nil {
			return err
		}
	}
	return nil
}
