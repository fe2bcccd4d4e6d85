package privacy

import (
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/privacy/account"
)

// Ration is what one round differs in from others.
type Ration struct {
	Numbers int     // of an update in this round
	Share   float64 // of the budget, beside those of other rounds; only ratios count
}

// terms are what one round is released under.
type terms struct {
	noise     float64 // multiplier of the whole release
	vector    float64 // of the update alone
	bit       float64 // deviation on the count of unclipped devices
	numbers   int
	levels    float64
	deviation int64 // of the noise on each number, in integers
}

// settle finds the terms of every round.
func (k *Stack) settle() error {
	var err error
	if k.Vector, k.Bit, err = k.split(k.Noise); err != nil {
		return fmt.Errorf("privacy: %w", err)
	}
	k.rounds = make([]terms, max(1, len(k.Each)))
	for t := range k.rounds {
		r := &k.rounds[t]
		if r.noise, r.numbers = k.Noise, k.Numbers; k.Each != nil {
			r.noise, r.numbers = k.noiseOf(k.Noise, t), k.Each[t].Numbers
		}
		if r.vector, r.bit, err = k.split(r.noise); err != nil {
			return fmt.Errorf("privacy: %w", err)
		}
		if err := k.grid(r); err != nil {
			return err
		}
	}
	return nil
}

// at is the terms of a round, from 0.
func (k *Stack) at(round int) *terms { return &k.rounds[min(round, len(k.rounds)-1)] }

// shares says what of the rations makes no sense.
func (k *Stack) shares() error {
	if k.Each != nil && len(k.Each) != k.Rounds {
		return fmt.Errorf("there are %d rations for %d rounds", len(k.Each), k.Rounds)
	}
	for t, r := range k.Each {
		if !(r.Share > 0) || math.IsInf(r.Share, 0) || r.Numbers < 1 {
			return fmt.Errorf("round %d has a share of %g and %d numbers: want more than 0 of both", t+1, r.Share,
				r.Numbers)
		}
	}
	return nil
}

// noiseOf is the multiplier of round t where that of a round with the mean share is
// noise. A round's 1/z² is its share of what all of them add up to.
func (k *Stack) noiseOf(noise float64, t int) float64 {
	if k.Each == nil {
		return noise
	}
	total, share := 0.0, k.Each[min(t, len(k.Each)-1)].Share
	for i := range k.Each {
		total += k.Each[i].Share
	}
	mean := total / float64(len(k.Each))
	if mean == share {
		return noise
	}
	return noise * math.Sqrt(mean/share)
}

// eachEvent is the events of the first so many rounds; alike ones are put together.
func (k *Stack) eachEvent(like account.Event, rounds int) []account.Event {
	var out []account.Event
	noise := like.Noise
next:
	for t := range rounds {
		like.Noise, like.Rounds = k.noiseOf(noise, t), 1
		for i := range out {
			if out[i].Noise == like.Noise {
				out[i].Rounds++
				continue next
			}
		}
		out = append(out, like)
	}
	return out
}

// like is how many of the first t rounds have a noise multiplier.
func (k *Stack) like(t int, noise float64) (n int64) {
	if k.Each == nil {
		return int64(t)
	}
	for s := range t {
		if k.at(s).noise == noise {
			n++
		}
	}
	return n
}

// Uneven reports whether rounds differ in their noise: then Noise is that of one with
// the mean share.
func (k *Stack) Uneven() bool {
	for t := range k.rounds {
		if k.rounds[t].noise != k.Noise {
			return true
		}
	}
	return false
}

// Width is how many numbers an update of a round has.
func (k *Stack) Width(round int) int { return k.at(round).numbers }

// OnSum is the deviation of the noise on each number of a round's sum of so many
// devices, in units of an update.
func (k *Stack) OnSum(round, devices int) float64 {
	if k.Mechanism == Laplace {
		return math.Sqrt2 * math.Sqrt(float64(devices)) * float64(k.Scale(round)) * k.Unit(round)
	}
	square := 0.0
	for _, p := range k.Parts(round, devices) {
		square += float64(p.Deviation) * float64(p.Deviation)
	}
	return math.Sqrt(square) * k.Unit(round)
}

// Costliest is the release of a round that costs most: what must be assumed of one
// that nobody knows more of.
func (k *Stack) Costliest() (account.Event, error) {
	most := 0
	for t := range k.rounds {
		if k.rounds[t].noise < k.rounds[most].noise {
			most = t
		}
	}
	e, _, err := k.Spends(most)
	return e, err
}

// tellEach says in words which rounds have which noise.
func (k *Stack) tellEach() string {
	out := ""
	for t := 0; t < len(k.rounds); {
		n := t
		for n < len(k.rounds) && k.rounds[n] == k.rounds[t] {
			n++
		}
		if out != "" {
			out += ", "
		}
		out += fmt.Sprintf("%d of %d numbers with %.4g times the sensitivity", n-t, k.rounds[t].numbers,
			k.rounds[t].noise)
		t = n
	}
	return out
}
