// Package sim is a fleet in this process: it simulates every device of a data
// set, in parallel, with the same bits for any number of workers, and measures
// what a method is worth under a named protocol.
package sim

import (
	"encoding"
	"fmt"

	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/round"
)

// Options are the settings of a run that belong to no method. They are flags,
// TOML keys and key=value overrides by their tags.
type Options struct {
	round.Config
	Dropout   float64         `default:"0" doc:"fraction of a cohort that drops out and trains nothing"`
	Straggle  float64         `default:"0" doc:"fraction of surviving devices that miss the deadline; only their own state changes"`
	Noise     aggregate.Noise `default:"none" doc:"noise each device adds to every number: none, laplace:SCALE or gauss:DEVIATION"`
	Secagg    string          `default:"off" choices:"off|assumed|on" doc:"secure aggregation: off, on, or assumed (its result without running it)"`
	Sums      string          `default:"float" choices:"float|integer" doc:"add updates as floats, or as integers as a coordinator does (always integers with dp)"`
	Encode    string          `default:"dense" choices:"dense|sparse" doc:"how uploads are counted: all numbers, or without zeros if that is shorter"`
	NewUsers  float64         `default:"0" doc:"fraction of users held out of training and evaluated as cold-start users"`
	EvalEvery int             `default:"1" doc:"rounds between evaluations; the last round is always evaluated"`
	EvalUsers int             `default:"0" doc:"evaluate a fixed sample of this many users; 0 means all"`
	Ties      string          `default:"against" choices:"against|expected" doc:"rank of tied scores: worst case for the held-out item, or the mean over all orders"`

	// Name is that of the method, for messages.
	Name string
	// Plain runs the oracle of the fast path: see device.Options.
	Plain bool
}

// Check reports the first setting that makes no sense.
func (o *Options) Check() error {
	if err := o.Config.Check(); err != nil {
		return err
	}
	switch {
	case !(o.Dropout >= 0 && o.Dropout < 1):
		return fmt.Errorf("dropout = %g: want a share from 0 to below 1", o.Dropout)
	case !(o.Straggle >= 0 && o.Straggle < 1):
		return fmt.Errorf("straggle = %g: want a share from 0 to below 1", o.Straggle)
	case o.Noise.On() && o.Mean == "row":
		return fmt.Errorf("noise = %s with mean = row: with noise every device sends every row, so no row has a "+
			"count of its own; use mean=cohort", textOf(o.Noise))
	case o.DP.On() && o.Noise.On():
		return fmt.Errorf("noise = %s with dp: dp brings its own noise, and counts it; leave one out", textOf(o.Noise))
	case o.DP.On() && o.Mean == "row":
		return fmt.Errorf("mean = row with dp: how many touched a row is not public; dp divides by a constant " +
			"(mean=fixed)")
	case o.bare() && (o.Mean == "row" || o.Noise.On()):
		return fmt.Errorf("secagg = %s with mean = %s and noise = %s: under masks nobody counts rows, and noise is "+
			"dp's; use mean=cohort and noise=none", o.Secagg, o.Mean, textOf(o.Noise))
	case o.bare() && o.Cohort.Kind == "poisson":
		return fmt.Errorf("secagg = %s with cohort = poisson: a masked sum needs enough devices; take a cohort of a "+
			"fixed size, such as cohort=100", o.Secagg)
	case o.integers() && !o.DP.On() && (o.Mean == "row" || o.Noise.On()):
		return fmt.Errorf("sums = integer with mean = %s and noise = %s: over a network nobody counts rows, and "+
			"noise is dp's; use mean=cohort and noise=none", o.Mean, textOf(o.Noise))
	case !(o.NewUsers >= 0 && o.NewUsers <= 0.9):
		return fmt.Errorf("new-users = %g: want a share from 0 to 0.9", o.NewUsers)
	case o.EvalEvery < 1:
		return fmt.Errorf("eval-every = %d: want 1 or more", o.EvalEvery)
	case o.EvalUsers < 0:
		return fmt.Errorf("eval-users = %d: want 0 or more", o.EvalUsers)
	}
	return nil
}

func textOf(m encoding.TextMarshaler) string {
	b, _ := m.MarshalText()
	return string(b)
}

// integers reports whether updates are summed as whole numbers.
func (o *Options) integers() bool { return o.Sums == "integer" || o.DP.On() || o.bare() }

// bare reports whether sums are masked and have no noise.
func (o *Options) bare() bool { return o.Secagg != "off" && o.Secagg != "" && !o.DP.On() }

// partial reports whether a device may sit a round out.
func (o *Options) partial() bool { return !o.Cohort.All() || o.Dropout > 0 }
