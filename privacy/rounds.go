package privacy

import (
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/privacy/account"
)

// RoundShare describes one round if rounds differ.
type RoundShare struct {
	Numbers int     // length of an update in this round
	Share   float64 // share of the budget; only ratios between rounds count
}

// terms are the noise and quantisation of one round.
type terms struct {
	noise     float64 // noise multiplier of the whole release
	vector    float64 // noise multiplier of the update alone
	bit       float64 // deviation of the noise on the count of unclipped devices
	numbers   int
	levels    float64
	deviation int64 // deviation of the noise on each number, in integers
}

// setRounds computes the terms of every round.
func (k *Stack) setRounds() error {
	var err error
	if k.UpdateNoise, k.CountNoise, err = k.split(k.Noise); err != nil {
		return err
	}
	k.rounds = make([]terms, max(1, len(k.PerRound)))
	for t := range k.rounds {
		r := &k.rounds[t]
		if r.noise, r.numbers = k.Noise, k.Numbers; k.PerRound != nil {
			r.noise, r.numbers = k.noiseOf(k.Noise, t), k.PerRound[t].Numbers
		}
		if r.vector, r.bit, err = k.split(r.noise); err != nil {
			return err
		}
		if err := k.grid(r); err != nil {
			return err
		}
	}
	return nil
}

// at returns the terms of a round, counted from 0.
func (k *Stack) at(round int) *terms { return &k.rounds[min(round, len(k.rounds)-1)] }

// checkShares reports an invalid budget split.
func (k *Stack) checkShares() error {
	if k.PerRound != nil && len(k.PerRound) != k.Rounds {
		return fmt.Errorf("the method splits the budget into %d shares for %d rounds", len(k.PerRound), k.Rounds)
	}
	for t, r := range k.PerRound {
		if !(r.Share > 0) || math.IsInf(r.Share, 0) || r.Numbers < 1 {
			return fmt.Errorf("round %d has a budget share of %g and %d numbers: both must be above 0", t+1, r.Share,
				r.Numbers)
		}
	}
	return nil
}

// noiseOf is the noise multiplier of round t if that of a round with the mean share is
// noise. The 1/z² of a round is proportional to its share.
func (k *Stack) noiseOf(noise float64, t int) float64 {
	if k.PerRound == nil {
		return noise
	}
	total, share := 0.0, k.PerRound[min(t, len(k.PerRound)-1)].Share
	for i := range k.PerRound {
		total += k.PerRound[i].Share
	}
	mean := total / float64(len(k.PerRound))
	if mean == share {
		return noise
	}
	return noise * math.Sqrt(mean/share)
}

// perRoundEvents lists the events of the first rounds; equal ones are merged.
func (k *Stack) perRoundEvents(like account.Event, rounds int) []account.Event {
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

// countLike counts the releases of a run, from round t on, that are of the same kind as an event.
func (k *Stack) countLike(e account.Event, t int) (n int64) {
	like := k.event(e.Noise, 1)
	if e.Adjacency != like.Adjacency || e.Sampler != like.Sampler || e.Q != like.Q {
		return 0
	}
	if k.Mechanism == Tree {
		return k.countTrees(e, t)
	}
	if e.Mechanism != like.Mechanism {
		return 0
	}
	if k.PerRound == nil && e.Noise == k.Noise {
		return int64(k.Rounds - t)
	}
	for s := t; s < k.Rounds; s++ {
		if k.at(s).noise == e.Noise {
			n++
		}
	}
	return n
}

// countTrees counts the trees of a run that start in round t or later and cost as much as an event.
func (k *Stack) countTrees(e account.Event, t int) (n int64) {
	for s := (t + k.Epoch - 1) / k.Epoch * k.Epoch; s < k.Rounds; s += k.Epoch {
		if tree, _, err := k.Spends(s); err == nil && tree.Noise == e.Noise && tree.Nodes == e.Nodes {
			n++
		}
	}
	return n
}

// VariesByRound reports whether rounds differ in their noise. Noise is then that of a round
// with the mean share.
func (k *Stack) VariesByRound() bool {
	for t := range k.rounds {
		if k.rounds[t].noise != k.Noise {
			return true
		}
	}
	return false
}

// UpdateLength is the number of numbers in an update of a round.
func (k *Stack) UpdateLength(round int) int { return k.at(round).numbers }

// SumDeviation is the deviation of the noise on each number of a round's sum over the given
// number of devices, in units of an update.
func (k *Stack) SumDeviation(round, devices int) float64 {
	if k.Mechanism == Laplace {
		return math.Sqrt2 * math.Sqrt(float64(devices)) * float64(k.Scale(round)) * k.Unit(round)
	}
	square := 0.0
	for _, p := range k.NoiseParts(round, devices) {
		square += float64(float64(p.Deviation) * float64(p.Deviation))
	}
	return math.Sqrt(square) * k.Unit(round)
}

// Costliest is the most expensive release of any round: what the ledger assumes if it does
// not know which round was released.
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

// describeRounds describes which rounds have which noise.
func (k *Stack) describeRounds() string {
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
