package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/methods"
)

const evaluateLong = `
It loads the model of a run folder (tacit run -o) and ranks the held-out items under another protocol,
with other list lengths, another rule for ties or more users, without training. With -o it writes a
folder that report and compare read like that of a run.`

const evaluateDetails = `
Protocols paper, isolated, deployed and complete hold out the same rows, so a model of one can be
evaluated under another. The first three differ in the negatives that devices may draw in training:
the result names the protocol that the model was trained under, and leaks if one of the two leaks.
temporal, fedrecgel and privrec train on other rows and need a run of their own.

A run folder holds the model of the last round. If the run reported an earlier round, its metrics under
another protocol are those of the last round, and the output says so. Without a changed setting, the
ranks that the run stored are counted, and the metrics are those of the run.`

func (a *app) evaluateCmd() *cobra.Command {
	var v experiment.Evaluation
	var at string
	c := &cobra.Command{
		Use: "evaluate", Short: "Evaluate the model of a run again, without training", Args: noArgs,
		Long: evaluateLong,
		Example: "  tacit run -m fedmf -d ml-100k -o runs/fedmf\n  tacit evaluate --run runs/fedmf --at 5,10,20\n" +
			"  tacit evaluate --run runs/fedmf --protocol complete -o runs/fedmf-complete",
	}
	fl := c.Flags()
	fl.StringVar(&v.Run, "run", "", "run folder with the trained model")
	fl.String("protocol", "", "evaluation protocol; default: that of the run")
	fl.String("ties", "", "rank of tied scores, against or expected; default: that of the run")
	fl.String("eval-users", "", "users to evaluate: all, a number or auto; default: those of the run")
	fl.StringVarP(&v.Job.Out, "out", "o", "", "write the result to this folder")
	fl.BoolVar(&v.Job.Force, "force", false, "replace the result in the -o folder")
	fl.BoolVar(&v.Job.NoReferences, "no-references", false, "skip the reference rows")
	atFlag(fl, &at)
	dataDirFlag(fl, &v.DataDir)
	jobsFlag(fl, &v.Job.Jobs)
	a.describe(c, evaluateDetails, flagsUnder("Evaluation", "run protocol at ties eval-users", "no-references"),
		flagsUnder("Output", "out force", "data-dir jobs"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		if v.Run == "" {
			return input(errors.New("--run is missing"), "example: tacit evaluate --run runs/fedmf --protocol complete")
		}
		if err := checkJobs(v.Job.Jobs); err != nil {
			return err
		}
		lengths, err := listLengths(at)
		if err != nil {
			return err
		}
		for _, name := range []string{"protocol", "ties", "eval-users"} {
			if f := fl.Lookup(name); f.Changed {
				v.Settings = append(v.Settings, experiment.Setting{
					Key: name, Value: f.Value.String(), From: "flag --" + name,
				})
			}
		}
		v.Methods, v.Job.Version, v.Job.Commit = methods.Default(), version, revision()
		line := a.progressLine(0)
		v.Job.OnEvent = func(e experiment.Event) {
			if !a.quiet {
				line.event(e)
			}
		}
		many, err := v.Do(c.Context())
		var in *experiment.InputError
		if errors.As(err, &in) && !exists(v.Run) {
			in.Hint = nearestFolder(v.Run, runMarks, in.Hint)
		}
		if err != nil {
			return err
		}
		var data any = many
		if len(many.Runs) == 1 {
			data = many.Runs[0]
		}
		if err := a.result(data, func(w io.Writer) error { return report.SeedsText(w, many, lengths...) }); err != nil {
			return err
		}
		if v.Job.Out != "" {
			a.progress("wrote the result to %s", v.Job.Out)
		}
		return nil
	}
	return c
}
