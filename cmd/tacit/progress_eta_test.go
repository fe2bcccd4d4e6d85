package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/sim"
)

// The passes before training are cheap, so that their rounds say nothing about the time left.
func TestNoTimeLeftBeforeTraining(t *testing.T) {
	var out strings.Builder
	l := progressLine{w: &out, rounds: 100, cheap: 40, begin: time.Now().Add(-time.Hour)}
	for _, c := range []struct {
		round int
		want  bool
	}{{20, false}, {40, false}, {60, true}} {
		l.round(sim.Event{Round: c.round})
		text := l.roundText(sim.Event{Round: c.round})
		if got := strings.Contains(text, "ETA"); got != c.want {
			t.Errorf("round %d of 100, training from 40 on: %q; shows the time left: %t, want %t", c.round, text, got,
				c.want)
		}
	}
	if l.from != 40 || time.Since(l.begin) > 30*time.Minute {
		t.Errorf("the time left is measured from round %d, %v ago; want round 40, just now", l.from,
			time.Since(l.begin))
	}
}
