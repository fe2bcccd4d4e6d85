package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
)

// within is a metric of a readout with the deviation of its noise.
func within(x float64, r *coordinator.Readout) string {
	off := r.Noise / math.Max(r.Devices, 1)
	digits := 3
	if off > 0 && off < 0.0005 {
		digits = 4
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, x, digits, off)
}

// readoutText is what devices said of a model.
func readoutText(r *coordinator.Readout) string {
	popular := "popularity not known"
	if r.Popular {
		popular = fmt.Sprintf("popularity %s, %s", within(r.PopHR10, r), within(r.PopNDCG10, r))
	}
	return fmt.Sprintf("HR@10 %s, NDCG@10 %s; %s; by about %.0f devices; ± is the deviation of the noise",
		within(r.HR10, r), within(r.NDCG10, r), popular, r.Devices)
}

// evaluating says how far a readout is; nothing where none is made.
func evaluating(s *coordinator.Status) string {
	if !strings.HasPrefix(s.State, coordinator.Reading) && s.State != coordinator.Counting {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d", s.State, s.Counted, s.Asked)
}

// overlook tells of readouts that take a while, until ctx is done: a round's own line comes
// after its readout.
func (a *app) overlook(ctx context.Context, c *coordinator.Coordinator) {
	if a.quiet {
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
			if line := evaluating(&s); line != "" && line != last {
				fmt.Fprintln(a.err, line)
				last = line
			}
		}
	}
}
