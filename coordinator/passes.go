package coordinator

import (
	"encoding/json"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
)

// fitPasses fits the rounds of a method in passes to the number of devices, so that a pass meets each device once,
// if the operator names no rounds. before are the settings of the last run, or nil: rounds that its operator
// chose stay, and so does its cohort if the method is the same.
func (s *Settings) fitPasses(named json.RawMessage, before *Settings) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(named, &keys) != nil || keys["rounds"] != nil {
		return
	}
	isNew := before == nil || before.Method != s.Method
	if !isNew && before.Rounds != before.fittedRounds() {
		return
	}
	rounds := s.fittedRounds()
	if rounds > 0 && isNew && keys["cohort"] == nil {
		s.Cohort = round.Cohort{Kind: "cycle", Share: 0.02}
		rounds = s.fittedRounds()
	}
	if rounds > 0 {
		s.Rounds = rounds
	}
}

// fittedRounds is the number of rounds of a method in passes; 0 for other methods.
func (s *Settings) fittedRounds() int {
	m, err := s.build()
	if err != nil { // the run is refused for that reason
		return 0
	}
	if p, ok := method.As[method.InPasses](m); ok && s.Devices > 0 {
		return s.Cohort.FitRounds(p.Passes(), s.Devices)
	}
	return 0
}
