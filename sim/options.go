// Package sim simulates a federation in one process: it trains every device of a data set, in
// parallel, and evaluates the method under a named protocol. Results have the same bits for
// any number of workers. It opens no connections and writes no files.
package sim

import (
	"encoding"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/round"
)

// Options are the settings of a run that do not belong to a method. Their tags make them
// flags, TOML keys and key=value overrides; param.Defaults sets the defaults.
type Options struct {
	round.Config
	Dropout   float64         `default:"0" doc:"fraction of a cohort that drops out and trains nothing"`
	Straggle  float64         `default:"0" doc:"fraction of surviving devices that miss the deadline; only their own state changes"`
	Noise     aggregate.Noise `default:"none" doc:"noise each device adds to every number: none, laplace:SCALE or gauss:DEVIATION"`
	Secagg    string          `default:"off" choices:"off|assumed|on" doc:"secure aggregation: off, on, or assumed (its result without running it)"`
	Sums      string          `default:"float" choices:"float|integer" doc:"add updates as floats, or as integers as a coordinator does (always integers with dp)"`
	Encode    string          `default:"dense" choices:"dense|sparse" doc:"how uploads are counted: all numbers, or without zeros if that is shorter"`
	NewUsers  float64         `default:"0" doc:"fraction of users held out of training and evaluated as cold-start users"`
	EvalEvery int             `default:"1" doc:"rounds between evaluations; methods that report their last round: 1 means about 16 in all"`
	EvalUsers UserSample      `default:"auto" doc:"users to evaluate: all, a number, or auto (a sample if full ranking would take long)"`
	TimeTies  string          `default:"file" choices:"file|shuffled" doc:"order of a user's rows of the same second: as in the file, or random by the seed"`
	Ties      string          `default:"against" choices:"against|expected" doc:"rank of tied scores: worst case for the held-out item, or the mean over all orders"`

	// Name is the method's name, for error messages.
	Name string
	// Plain copies every row and fuses nothing: the reference for the fast path.
	Plain bool
}

// Check reports the first invalid setting.
func (o *Options) Check() error {
	if err := o.Config.Check(); err != nil {
		return err
	}
	switch {
	case !(o.Dropout >= 0 && o.Dropout < 1):
		return fmt.Errorf("dropout = %g: must be at least 0 and below 1", o.Dropout)
	case !(o.Straggle >= 0 && o.Straggle < 1):
		return fmt.Errorf("straggle = %g: must be at least 0 and below 1", o.Straggle)
	case o.Noise.On() && o.Mean == "row":
		return fmt.Errorf("noise = %s with mean = row: with noise every device sends every row; use mean=cohort",
			textOf(o.Noise))
	case o.DP.On() && o.Noise.On():
		return fmt.Errorf("noise = %s with dp: dp adds its own noise; omit one of them", textOf(o.Noise))
	case o.DP.On() && o.Mean == "row":
		return errors.New("mean = row with dp: the number of devices that touched a row is not public; use mean=fixed")
	case o.bare() && (o.Mean == "row" || o.Noise.On()):
		return fmt.Errorf("secagg = %s with mean = %s and noise = %s: masked rows cannot be counted, and noise "+
			"requires "+
			"dp; use mean=cohort and noise=none", o.Secagg, o.Mean, textOf(o.Noise))
	case o.bare() && o.Cohort.Kind == "poisson":
		return fmt.Errorf("secagg = %s with cohort = poisson: a masked sum requires a fixed number of devices; use a "+
			"cohort such as cohort=100", o.Secagg)
	case o.integers() && !o.DP.On() && (o.Mean == "row" || o.Noise.On()):
		return fmt.Errorf("sums = integer with mean = %s and noise = %s: a coordinator cannot count rows, and noise "+
			"requires dp; use mean=cohort and noise=none", o.Mean, textOf(o.Noise))
	case !(o.NewUsers >= 0 && o.NewUsers <= 0.9):
		return fmt.Errorf("new-users = %g: must be 0 to 0.9", o.NewUsers)
	case o.EvalEvery < 1:
		return fmt.Errorf("eval-every = %d: must be 1 or more", o.EvalEvery)
	case o.EvalUsers < 0 && o.EvalUsers != AutoUsers:
		return fmt.Errorf("eval-users = %d: must be 0 or more", o.EvalUsers)
	}
	return nil
}

func textOf(m encoding.TextMarshaler) string {
	b, _ := m.MarshalText()
	return string(b)
}

// integers reports whether devices send integers.
func (o *Options) integers() bool { return o.Sums == "integer" || o.DP.On() || o.bare() }

// bare reports whether sums are masked and have no noise.
func (o *Options) bare() bool { return o.Secagg != "off" && o.Secagg != "" && !o.DP.On() }

// partial reports whether a round may leave devices out.
func (o *Options) partial() bool { return !o.Cohort.All() || o.Dropout > 0 }
