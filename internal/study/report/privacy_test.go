package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// promised is the privacy of a run that has ended before its last round.
func promised() *result.Privacy {
	return &result.Privacy{
		Epsilon: 7.9999479933162565, Delta: 1e-6, Adjacency: "zero-out", Sampler: "poisson", Q: 0.1, Rounds: 41,
		Noise: 0.81234, Mechanism: "gaussian",
		Accountant: "rdp", Conversion: "improved", Against: "central",
		HoldsAgainst: "all who read models; the coordinator is trusted",
		Caveats:      []string{"settings that were chosen by looking at these users are not covered"}, Budget: 8,
		Clip:     0.5,
		Adaptive: true, SpentBefore: 42, Discarded: 1, MostParticipations: 12, MeanParticipations: 4.13,
	}
}

func TestPageExplainsEpsilon(t *testing.T) {
	run := resulttest.Run("fedmf", "deployed", 1, 41, 10)
	run.Result.Privacy = promised()
	for i := range run.Points {
		e := 8 * math.Sqrt(float64(i+1)/41)
		run.Points[i].Clip = 0.5 + 0.01*float64(i)
		if i%5 == 0 || i == 40 {
			run.Points[i].Epsilon = &e
		}
	}
	var b bytes.Buffer
	if err := HTML(&b, []*result.Run{run}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"fedmf epsilon=8 on ml-100k", "the guarantee holds against all who read models; the coordinator is trusted",
		"zero-out",
		"q = 0.1, T = 41 rounds", "rdp, conversion improved",
		"spent before round 42, so the run stopped after round 41 of 41", "1 round with too few devices",
		"at most 12 times, 4.13 times on average", "Epsilon over rounds", "Clipping bound over rounds",
		"settings that were chosen by looking at these users are not covered",
		"selecting a round on validation would release information",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"7.99994", "selected on validation", "selected on the dashed line"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q", not)
		}
	}
}
