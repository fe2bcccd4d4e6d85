package experiment

import (
	"fmt"
	"slices"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
)

// fromDevices is the origin of settings that are fitted to the number of devices.
const fromDevices = "devices"

// FitTo fits an experiment to the users of its data: see FitToDevices.
func (s *Spec) FitTo(src data.Source) {
	if p, err := data.ProtocolNamed(s.Protocol); err == nil {
		p.NewUserShare, p.ShuffleTies = s.NewUsers, s.TimeTies == "shuffled"
		s.FitToDevices(p.TrainingUsers(src.Users()))
	}
}

// FitToDevices fits the settings of a method in passes to the number of devices: 2% of them take part in a round,
// a pass lasts until each has taken part once, and there are as many rounds as all passes need. If the result is
// that of the last round, only that one is evaluated; otherwise the last one of each pass. Settings of the user
// and of a preset stay. Other methods have no such settings.
func (s *Spec) FitToDevices(devices int) {
	s.devices = devices
	s.fit()
}

// fit repeats FitToDevices after a change of settings.
func (s *Spec) fit() {
	m, ok := method.As[method.InPasses](s.Params)
	if !ok || s.devices < 1 {
		return
	}
	if s.isFitted("cohort") && s.From["cohort"] != "method" {
		s.Cohort = round.Cohort{Kind: "cycle", Share: 0.02}
		s.From["cohort"] = fromDevices
	}
	if s.isFitted("rounds") {
		s.Rounds = s.Cohort.FitRounds(m.Passes(), s.devices)
		s.From["rounds"] = fromDevices
	}
	if s.isFitted("eval-every") {
		s.EvalEvery = max(1, s.Rounds/max(1, m.Passes()))
		if final, ok := method.As[method.FinalRound](s.Params); ok && final.ReportsFinalRound() {
			s.EvalEvery = s.Rounds
		}
		s.From["eval-every"] = fromDevices
	}
}

// isFitted reports whether nobody but the method has set a setting.
func (s *Spec) isFitted(key string) bool {
	return slices.Contains([]string{"", "default", "method", fromDevices}, s.From[key])
}

// PassNote says that a run has too few rounds for the passes of its method; empty if it has enough.
func (s *Spec) PassNote() string {
	m, ok := method.As[method.InPasses](s.Params)
	if !ok || s.Rounds >= m.Passes() {
		return ""
	}
	return fmt.Sprintf("%s trains in %d passes over the devices, and the run has %d rounds: the last passes do not "+
		"take place; omit rounds for a complete run", s.Method, m.Passes(), s.Rounds)
}
