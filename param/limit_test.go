package param

import (
	"math"
	"strings"
	"testing"
)

type limited struct {
	Dim    int       `default:"8" min:"1" max:"16" doc:"d"`
	Reg    float64   `default:"1" min:">0" doc:"r"`
	Decay  float32   `default:"0.1" min:"0" max:"<1" doc:"d"`
	Layers []float64 `min:"1" max:"2" doc:"l"`
	Loss   string    `default:"a" choices:"a|b" doc:"l"`
}

func TestCheckEnforcesLimits(t *testing.T) {
	good := limited{8, 1, 0.1, []float64{1}, "a"}
	for message, change := range map[string]func(l *limited){
		"":                           func(*limited) {},
		"dim = 0: must be 1 to 16":   func(l *limited) { l.Dim = 0 },
		"dim = 17: must be 1 to 16":  func(l *limited) { l.Dim = 17 },
		"reg = 0: must be above 0":   func(l *limited) { l.Reg = 0 },
		"reg = NaN: must be above 0": func(l *limited) { l.Reg = math.NaN() },
		"decay = 1: must be at least 0 and below 1": func(l *limited) { l.Decay = 1 },
		"must have 1 to 2 values":                   func(l *limited) { l.Layers = nil },
		`loss = "c": must be one of a, b`:           func(l *limited) { l.Loss = "c" },
	} {
		l := good
		change(&l)
		err := Check(&l)
		if (err == nil) != (message == "") || err != nil && !strings.Contains(err.Error(), message) {
			t.Errorf("got %v, expected %q", err, message)
		}
	}
}

func TestFieldsShowLimits(t *testing.T) {
	got := Fields(&limited{})
	for i, rule := range []string{"1 to 16", "above 0", "at least 0 and below 1"} {
		if got[i].Limits != rule {
			t.Errorf("%s: limits %q, expected %q", got[i].Key, got[i].Limits, rule)
		}
	}
}
