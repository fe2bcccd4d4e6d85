package round

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/privacy/account"
)

// The turns of the planned devices are those of a simulation. Each later device has one turn in a cycle.
func TestTurnsOfACycle(t *testing.T) {
	checkTurns(t, Cohort{Kind: "cycle", Count: 4}, 10)
	checkTurns(t, Cohort{Kind: "cycle", Share: 0.1}, 100)
}

func checkTurns(t *testing.T, c Cohort, planned int) {
	t.Helper()
	const later = 30
	devices := make([]uint32, planned+later)
	for i := range devices {
		devices[i] = uint32(i)
	}
	turns := map[uint32]int{}
	for round := range c.Epoch(planned) {
		if got := c.Turn(SeedStreams(7), round, planned, devices[:planned]); !slices.Equal(got,
			c.Draw(7, round, planned, nil)) {
			t.Errorf("round %d: %v, in a simulation %v", round, got, c.Draw(7, round, planned, nil))
		}
		for _, id := range c.Turn(SeedStreams(7), round, planned, devices) {
			turns[id]++
		}
		if again := c.Turn(SeedStreams(7), round+c.Epoch(planned), planned, devices); !slices.Equal(again,
			c.Turn(SeedStreams(7), round, planned, devices)) {
			t.Errorf("the turn of round %d is another one in the next cycle", round)
		}
	}
	for _, id := range devices {
		if turns[id] != 1 {
			t.Errorf("device %d has %d turns in a cycle", id, turns[id])
		}
	}
}

// Turns of a share have equal sizes, of at least 14 devices, and each device has one turn in a cycle.
func TestTurnsOfAShare(t *testing.T) {
	for _, c := range []struct {
		text                           string
		devices, epoch, smallest, most int
	}{
		{"cycle:2%", 6040, 50, 120, 121},
		{"cycle:2%", 943, 52, 18, 19},
		{"cycle:2%", 27, 1, 27, 27},
		{"cycle:2%", 28, 2, 14, 14},
		{"cycle:2%", 13, 1, 13, 13},
		{"cycle:2%", 1, 1, 1, 1},
		{"cycle:2%", 0, 0, 0, 0},
		{"cycle:100%", 500, 1, 500, 500},
		{"cycle:30%", 100, 3, 33, 34},
		{"cycle:2%", 700, 50, 14, 14},
		{"cycle:10", 25, 3, 5, 10},
		{"cycle:30", 25, 1, 25, 25},
		{"cycle:5", 0, 0, 0, 0},
	} {
		k := parse(t, c.text)
		if k.Epoch(c.devices) != c.epoch || k.Smallest(c.devices) != c.smallest ||
			k.Expected(c.devices) != float64(c.most) {
			t.Errorf("%s of %d: %d turns of %d to %g devices, want %d of %d to %d", c.text, c.devices,
				k.Epoch(c.devices), k.Smallest(c.devices), k.Expected(c.devices), c.epoch, c.smallest, c.most)
		}
		met := make([]int, c.devices)
		for round := range c.epoch {
			cohort := k.Draw(3, round, c.devices, nil)
			if len(cohort) < c.smallest || len(cohort) > c.most || !slices.IsSorted(cohort) {
				t.Errorf("%s of %d: turn %d has %d devices", c.text, c.devices, round, len(cohort))
			}
			for _, u := range cohort {
				met[u]++
			}
		}
		if slices.ContainsFunc(met, func(n int) bool { return n != 1 }) {
			t.Errorf("%s of %d: the devices have %v turns, want 1 each", c.text, c.devices, met)
		}
		if got := k.Draw(3, 0, 0, nil); len(got) != 0 {
			t.Errorf("%s draws %v of no devices", c.text, got)
		}
		if sampler, q := k.Sampling(c.devices); sampler != account.None || q != 1 {
			t.Errorf("%s of %d claims %v with rate %g", c.text, c.devices, sampler, q)
		}
	}
}
