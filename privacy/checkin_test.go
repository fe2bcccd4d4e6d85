package privacy

import (
	"math/bits"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/privacy/account"
)

// worth is the squared length of a device's part in what a stack releases, in units of
// the deviation: a release is the round's sum and a mixture of draws, y = x + A z, so rounds u
// in which the device comes are worth |w| with A w = u, and no reader of all releases
// can do better (they are Gaussian, and A can be inverted).
func worth(t *testing.T, k *Stack, set uint) float64 {
	t.Helper()
	draws, sum := map[Node]float64{}, 0.0
	for round := range k.Rounds {
		u := float64(set >> round & 1)
		var fresh *Node
		for _, p := range k.NoiseParts(round, 1) {
			if _, known := draws[p.Node]; known {
				u -= float64(p.Sign) * draws[p.Node]
				continue
			}
			if fresh != nil || p.Sign != 1 {
				t.Fatalf("round %d has two draws that are new, or takes one back that never was", round)
			}
			fresh = &p.Node
		}
		if fresh == nil {
			t.Fatalf("round %d has no new draw", round)
		}
		draws[*fresh] = u
		sum += u * u
	}
	return sum
}

// Of all the ways in which a device may come once at most in each epoch, the worst is what
// the accountant counts; and coming twice would cost more, so it does not count too much.
func TestNoCheckInPatternCostsMoreThanAccounted(t *testing.T) {
	for every := 1; every <= 7; every++ {
		for rounds := 1; rounds <= 12; rounds++ {
			s := setting()
			s.Sampler, s.Q, s.Epoch, s.Rounds, s.SelfSelected = account.None, 1, every, rounds, true
			k, err := Build(policy(t, "noise=4,mechanism=tree"), s)
			if err != nil {
				t.Fatal(err)
			}
			events, err := k.Events(k.Noise, rounds)
			if err != nil {
				t.Fatal(err)
			}
			once, any := 0.0, 0.0
			for set := range uint(1) << rounds {
				w := worth(t, k, set)
				any = max(any, w)
				ok := true
				for from := 0; from < rounds; from += every {
					ok = ok && bits.OnesCount(set>>from&(1<<every-1)) <= 1
				}
				if ok {
					once = max(once, w)
				}
			}
			if once != events[0].Nodes {
				t.Errorf("epochs of %d, %d rounds: the worst way to come is worth %g, and %g is counted", every,
					rounds, once, events[0].Nodes)
			}
			if every > 1 && rounds > 1 && any <= once {
				t.Errorf("epochs of %d, %d rounds: coming in each round is worth %g, and once in each epoch %g", every,
					rounds, any, once)
			}
		}
	}
}

// What the epsilon holds for is told, and the arrivals are no part of it: the setting has
// no room for them.
func TestCaveatsNameSelfSelection(t *testing.T) {
	s := setting()
	s.Sampler, s.Q, s.Epoch, s.SelfSelected = account.None, 1, 10, true
	k, err := Build(policy(t, "epsilon=8,mechanism=tree"), s)
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(k.Caveats(), "\n"); !strings.Contains(all, "one sum of every 10 rounds") {
		t.Errorf("the caveats are %s", all)
	}
	s.SelfSelected = false
	turn, err := Build(policy(t, "epsilon=8,mechanism=tree"), s)
	if err != nil || turn.Noise != k.Noise {
		t.Errorf("in turn the noise is %g, and by their choice %g: both come once in an epoch (%v)", turn.Noise,
			k.Noise, err)
	}
}
