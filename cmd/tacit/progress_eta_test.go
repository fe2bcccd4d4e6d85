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

// The time left covers the seeds that have not started, by the time of those that have finished.
func TestTimeLeftCoversAllSeeds(t *testing.T) {
	var out strings.Builder
	l := progressLine{w: &out, rounds: 100}
	l.startSeed(1, 3, 7)
	l.begin = time.Now().Add(-10 * time.Second)
	l.seedBegin = l.begin
	text := l.roundText(sim.Event{Round: 50}) // 10 s for half of a seed: 10 s left, and 20 s for each of the others
	if !strings.Contains(text, "seed 1 of 3  round 50/100") || !strings.Contains(text, "ETA 0:10, all seeds 0:50") {
		t.Error(text)
	}
	l.allFrom = time.Now().Add(-60 * time.Second) // the first seed took a minute, with its references
	l.startSeed(2, 3, 8)
	if !strings.Contains(out.String(), "seed 1 of 3: --seed 7\n") ||
		!strings.Contains(out.String(), "seed 2 of 3: --seed 8, about 2:00 left\n") {
		t.Error(out.String())
	}
	l.begin = time.Now()
	if text := l.roundText(sim.Event{Round: 100}); !strings.Contains(text, "ETA 0:00, all seeds 1:00") {
		t.Error(text)
	}
	l.startSeed(3, 3, 9)
	if text := l.roundText(sim.Event{Round: 100}); strings.Contains(text, "all seeds") {
		t.Errorf("the last seed shows %q", text)
	}
}

// The estimate counts seeds, references and figures, and says which flags skip the last two.
func TestEstimateCountsSeedsReferencesAndFigures(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // no stored reference rows
	card := func(more ...string) (total, references, figures float64) {
		words := []string{"run", "-m", "pfedrec", "-d", "world", "--dry-run", "--format", "json", "-j", "1"}
		code, out, errs := tacit(append(words, more...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		d := decode(t, out)["data"].(map[string]any)
		return d["seconds_estimate"].(float64), d["seconds_estimate_references"].(float64),
			d["seconds_estimate_figures"].(float64)
	}
	bare, none, _ := card("--no-references")
	five, _, _ := card("--no-references", "--seeds", "5")
	if none != 0 || bare <= 0 || five < 4.99*bare || five > 5.01*bare {
		t.Errorf("%g s for one seed, %g s for five, %g s for references that are skipped", bare, five, none)
	}
	one, references, figures := card()
	if figures != 0 || references <= 0 || one < bare+references-1e-9 || one > bare+references+1e-9 {
		t.Errorf("%g s, of which references %g s and figures %g s; %g s without", one, references, figures, bare)
	}
	_, references5, _ := card("--seeds", "5")
	if references5 < 3*references || references5 > 5*references {
		t.Errorf("references: %g s for one seed, %g s for five, which share EASE's matrix", references, references5)
	}
	_, out, _ := tacit("run", "-m", "pfedrec", "-d", "world", "--dry-run", "--seeds", "3", "-j", "1", "-o",
		t.TempDir()+"/r")
	for _, want := range []string{
		"for each of 3 seeds", "for reference rows (--no-references)",
		"for figures (--no-figures)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the card lacks %q:\n%s", want, out)
		}
	}
}
