package main

import (
	"fmt"
	"io"

	"github.com/tacit-rec/tacit/coordinator"
)

// roundEnded prints a line for a round that ended.
func (a *app) roundEnded(e coordinator.Event) {
	if l := a.records.Load(); l != nil {
		logRound(l, e)
		return
	}
	if a.quiet {
		return
	}
	line := fmt.Sprintf("round %d/%d", e.Round, e.Rounds)
	if !e.Sampled {
		line += fmt.Sprintf("  %d of %d devices", e.Counted, e.Cohort)
	}
	line += fmt.Sprintf("  %.2f s", e.Seconds)
	switch {
	case e.Rejected != "":
		line += "  discarded: " + e.Rejected
	case e.Discarded:
		line += "  discarded: too few devices"
	}
	if e.Epsilon > 0 {
		line += fmt.Sprintf("  eps %.3g", e.Epsilon)
	}
	if r := e.Evaluation; r != nil {
		line += fmt.Sprintf("  HR@10 %s, by devices", withNoise(r.HR10, r))
		if r.Popular {
			line += fmt.Sprintf(" (popularity %s)", withNoise(r.PopHR10, r))
		}
	} else if e.EvaluationMissed != "" {
		line += "  no evaluation"
	}
	if e.EvaluationMissed != "" {
		line += ": " + e.EvaluationMissed
	}
	fmt.Fprintln(a.err, line)
}

// repair moves damaged files aside and prints what was kept and lost.
func (a *app) repair(f *serveFlags) error {
	report, err := coordinator.Repair(f.state)
	if err != nil {
		return err
	}
	return a.result(report, func(w io.Writer) error {
		for _, line := range report.Kept {
			fmt.Fprintf(w, "kept  %s\n", line)
		}
		for _, line := range report.Lost {
			fmt.Fprintf(w, "LOST  %s\n", line)
		}
		if len(report.Lost) == 0 {
			fmt.Fprintln(w, "nothing was lost")
		}
		_, err := fmt.Fprintf(w, "the damaged files are in %s\n", report.Aside)
		return err
	})
}
