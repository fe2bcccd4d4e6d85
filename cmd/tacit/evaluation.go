package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
)

// withNoise writes a metric with the standard deviation of its noise.
func withNoise(x float64, r *coordinator.Evaluation) string {
	off := r.Noise / math.Max(r.Devices, 1)
	digits := 3
	if off > 0 && off < 0.0005 {
		digits = 4
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, x, digits, off)
}

// evaluationText writes what devices measured.
func evaluationText(r *coordinator.Evaluation) string {
	popular := "popularity unknown"
	if r.Popular {
		popular = fmt.Sprintf("popularity %s, %s", withNoise(r.PopHR10, r), withNoise(r.PopNDCG10, r))
	}
	return fmt.Sprintf("HR@10 %s, NDCG@10 %s; %s; by about %.0f devices; ± is the standard deviation of the noise",
		withNoise(r.HR10, r), withNoise(r.NDCG10, r), popular, r.Devices)
}

// evaluationProgress says how many devices have evaluated; it is empty if no evaluation is running.
func evaluationProgress(s *coordinator.Status) string {
	if s.State != coordinator.Evaluating {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d", s.Message, s.Counted, s.Expected)
}

// showEvaluations prints the progress of long evaluations until ctx is done.
func (a *app) showEvaluations(ctx context.Context, c *coordinator.Coordinator) {
	if a.quiet || a.records.Load() != nil {
		return
	}
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s := c.Status()
			if line := evaluationProgress(&s); line != "" && line != last {
				fmt.Fprintln(a.err, line)
				last = line
			}
		}
	}
}
