package main

import (
	"encoding/json"
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

// writeServing prints how to reach the coordinator and what to do next.
func (a *app) writeServing(w *localAccess, f *serveFlags, c *coordinator.Coordinator) {
	if a.format == "json" {
		b, _ := json.Marshal(map[string]any{
			"listening": w.URL, "pin": w.Pin, "state": f.state, "dashboard": f.dashboardURL(w.URL),
		})
		fmt.Fprintf(a.out, "%s\n", b)
		return
	}
	s := c.Status()
	fmt.Fprintf(a.out, "coordinator  %s\n", w.URL)
	if w.Pin != "" && f.cert == "" {
		fmt.Fprintf(a.out, "pin          %s\n", w.Pin)
	} else if f.insecure {
		fmt.Fprintf(a.out, "INSECURE     no TLS: anyone on the network path can read models and updates\n")
	}
	fmt.Fprintf(a.out, "dashboard    %s\n%s", f.dashboardURL(w.URL), f.web.pageLine(w))
	fmt.Fprintf(a.out, "state        %s\n", f.state)
	if s.Method != "" {
		fmt.Fprintf(a.out, "run          %s, %d items, devices: %s, round %d of %d\n", s.Name, s.Items,
			enrolment(&s), s.Round, s.Rounds)
		if f.schedule == "" {
			fmt.Fprintf(a.out, "schedule     none: the folder does not keep --schedule\n")
		}
	} else {
		fmt.Fprintf(a.out, "run          none yet\n\n"+
			"  tacit fleet -d world            # starts one with simulated devices; use another terminal\n"+
			"  tacit admin begin --help        # starts one for your own items\n")
	}
	fmt.Fprintf(a.out, "\n  tacit admin status              # shows its progress\n"+
		"  tacit admin token --uses 100    # creates a token for devices on other machines\n\n")
}
