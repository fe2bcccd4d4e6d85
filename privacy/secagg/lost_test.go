package secagg

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// outcome is what becomes of an attempt in which a fraction of the devices drop out before each step.
type outcome int

const (
	retried outcome = iota // it ends before anything is revealed
	lost                   // devices have revealed shares, but the sum is missing
	summed
)

// attempt draws the dropouts of one attempt.
func attempt(r *Round, random *rand.Rand, dropped float64) outcome {
	binary.LittleEndian.PutUint64(r.Seed[:], random.Uint64())
	stay := func(before Set) Set {
		after := newSet(r.Devices)
		for id := range uint32(r.Devices) {
			if (before == nil || before.Has(id)) && random.Float64() >= dropped {
				after.add(id)
			}
		}
		return after
	}
	present := stay(nil)
	dealt := stay(present)
	arrived := stay(dealt)
	if arrived.Count() < r.MinDevices {
		return retried
	}
	revealed := stay(arrived)
	g := newGraph(r, present)
	holders := func(id uint32, of Set) (n int) {
		for _, h := range g.holders(id) {
			if of.Has(h) {
				n++
			}
		}
		return n
	}
	out := summed
	for id := range uint32(r.Devices) {
		switch {
		case !dealt.Has(id):
		case holders(id, arrived) < r.Threshold: // Server.Next sees it
			return retried
		case holders(id, revealed) < r.Threshold:
			out = lost
		}
	}
	return out
}

// Devices that have revealed shares join no other attempt at a round, so a round is lost if too many of
// them drop out between upload and reveal. This is the price of unmasking once.
func TestUnmaskingOnceCostsFewRounds(t *testing.T) {
	for _, c := range []struct {
		devices int
		dropped float64 // before each of the four steps
		most    float64 // fraction of rounds lost
	}{{20, 0.05, 0.01}, {20, 0.10, 0.12}, {50, 0.10, 0.04}, {100, 0.10, 0.01}, {1000, 0.10, 0}} {
		p, err := Plan(c.devices, 1, 1000, Risk{Corrupt: 0.1, Dropped: 0.33})
		if err != nil {
			t.Fatal(err)
		}
		p.MinDevices = max(p.MinDevices, 10)
		r := Round{Params: p}
		random := rand.New(rand.NewPCG(1, uint64(c.devices)))
		trials := 1000
		if c.devices > 100 {
			trials = 20
		}
		var n [3]int
		for range trials {
			n[attempt(&r, random, c.dropped)]++
		}
		share := float64(n[lost]) / float64(n[lost]+n[summed])
		t.Logf("%d devices, %.0f %% drop out at each step: %.1f %% of rounds are lost, %.1f %% of attempts are retried",
			c.devices, 100*c.dropped, 100*share, 100*float64(n[retried])/float64(trials))
		if share > c.most {
			t.Errorf("%d devices, %.0f %% drop out at each step: %.2f of rounds are lost, expected at most %.2f",
				c.devices, 100*c.dropped, share, c.most)
		}
	}
}
