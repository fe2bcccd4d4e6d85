package round

import (
	"fmt"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/privacy"
)

// Config holds the settings that decide a round, in a simulation as on a network.
// sim.Options and coordinator.Settings embed it: its tags are flags, TOML keys and
// the keys of a coordinator's state.
type Config struct {
	Rounds    int            `json:"rounds" default:"100" doc:"rounds of training, unless the method or a preset sets its own number"`
	Batch     int            `json:"batch" default:"256" range:"32..1024,log" doc:"samples per local mini-batch"`
	Negatives int            `json:"negatives" default:"4" range:"1..10" doc:"negative items drawn per positive, redrawn in every round"`
	Cohort    Cohort         `json:"cohort" default:"all" doc:"devices per round: all, 100, 10%, poisson:0.1, cycle:100, cycle:2% or checkin:100/20"`
	Mean      aggregate.Mean `json:"mean" default:"cohort" choices:"cohort|row|fixed" range:"cohort|row" doc:"what a sum is divided by: participants, devices that touched the row, or expected cohort"`
	Server    aggregate.Rule `json:"server" default:"sgd:1" range:"sgd:0.3|sgd:1|sgd:3|adam:0.01" doc:"server step: sgd:RATE or adam:RATE"`
	DP        privacy.Policy `json:"dp" default:"none" doc:"differential privacy, such as epsilon=8,clip=0.5 (keys: tacit privacy keys)"`
	Bits      int            `json:"bits,omitempty" default:"24" doc:"bits per number in integer sums (methods with known ranges only); 0: as many as fit"`
	Keep      string         `json:"keep" default:"f32" choices:"f32|int16|int8" doc:"precision in which a device stores its private tables between rounds"`
}

// Check reports the first setting that is out of range.
func (c *Config) Check() error {
	switch {
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("rounds = %d: must be 1 to %d", c.Rounds, maxRounds)
	case c.Batch < 1 || c.Batch > 1<<20:
		return fmt.Errorf("batch = %d: must be 1 to %d", c.Batch, 1<<20)
	case c.Negatives < 0 || c.Negatives > 1000:
		return fmt.Errorf("negatives = %d: must be 0 to 1000", c.Negatives)
	case c.Bits != 0 && (c.Bits < 8 || c.Bits > 32):
		return fmt.Errorf("bits = %d: must be 8 to 32, or 0", c.Bits)
	}
	return nil
}

// maxRounds bounds the rounds of a run.
const maxRounds = 1_000_000

// Local returns the options of local training that the configuration decides.
func (c *Config) Local(items, devices int, seed uint64) (local.Options, error) {
	keep, err := rows.ParsePrecision(c.Keep)
	if err != nil {
		return local.Options{}, fmt.Errorf("keep: %w", err)
	}
	o := local.Options{
		Items: items, Users: devices, Rounds: c.Rounds, Batch: c.Batch, Negatives: c.Negatives, Seed: seed,
		Bits: c.Bits, Keep: keep,
	}
	if c.DP.On() { // whose bound decides the integers
		o.Bits = 0
	}
	return o, nil
}

// PrivacyRun describes a run to package privacy, which checks the policy against it.
// masked says whether sums are masked; own whether the devices add the noise themselves.
func (c *Config) PrivacyRun(method string, p *local.Plan, devices int, masked, own bool, metrics int) privacy.Run {
	s := privacy.Run{
		Method: method, Central: p.Central(), Sends: len(p.SentSlots()) > 0, Users: devices,
		Expected: c.Cohort.Expected(devices), Epoch: c.Cohort.Epoch(devices), SelfSelected: c.Cohort.ByCheckIn(),
		Rounds: c.Rounds, Numbers: p.MaxUpdateLength(), Mean: string(aggregate.Fixed), Step: c.Server.Rate,
		Masked: masked, Drawn: own && c.DP.Trust == privacy.Distributed, Metrics: metrics,
	}
	s.Sampler, s.Q = c.Cohort.Sampling(devices)
	s.PerRound, s.SplitsBudget = p.RoundShares()
	return s
}
