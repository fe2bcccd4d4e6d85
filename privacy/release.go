package privacy

import (
	"errors"
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/privacy/account"
	"github.com/tacit-rec/tacit/privacy/secagg"
)

// Part is a piece of a release's noise: which deviation, and from which stream. A
// coordinator that must draw the same again after a crash keeps what it has drawn.
type Part struct {
	Deviation int64
	Sign      int64 // -1 takes noise back that an earlier release had
	Node      Node
}

// Node names a draw: of a tree its place, else the round.
type Node struct{ Tree, Level, Index int }

// Parts lists the noise of a round, from 0, in which so many devices are in the
// sum. Of distributed and local noise it is drawn at once for all of them, which only
// a simulation may: the sum of discrete Gaussian variables is, at these deviations, one
// to far below any delta (Kairouz, Liu and Steinke 2021, theorem 1).
func (k *Stack) Parts(round, devices int) []Part {
	d := k.at(round).deviation
	switch {
	case k.Against == Distributed:
		return []Part{{
			Deviation: ceil(float64(k.Share(round)) * math.Sqrt(float64(devices))), Sign: 1,
			Node: Node{Index: round},
		}}
	case k.Against == Local && k.Mechanism == Gauss:
		return []Part{{Deviation: ceil(float64(d) * math.Sqrt(float64(devices))), Sign: 1, Node: Node{Index: round}}}
	case k.Mechanism == Tree:
		return k.treeParts(round, d)
	}
	return []Part{{Deviation: d, Sign: 1, Node: Node{Index: round}}}
}

// Share is the deviation of the noise that each device adds, where it is distributed:
// the least number of them have all that the epsilon counts.
func (k *Stack) Share(round int) int64 {
	return ceil(float64(k.at(round).deviation) / math.Sqrt(float64(k.Least)))
}

// treeParts is the noise of a prefix sum less that of the one before: the nodes that
// cover the first n leaves are the binary digits of n (Kairouz et al. 2021, DP-FTRL).
func (k *Stack) treeParts(round int, deviation int64) []Part {
	tree, n := round/k.Epoch, round%k.Epoch+1
	var out []Part
	for level := 0; n>>level > 0; level++ {
		if n>>level&1 == 1 { // the lowest digit that is set is new, and those below it were in n-1
			out = append(out, Part{deviation, 1, Node{tree, level, n >> level}})
			for l := range level {
				out = append(out, Part{deviation, -1, Node{tree, l, (n-1)>>l | 1}})
			}
			break
		}
	}
	return out
}

// Spends is what must be in the ledger before round t, from 0, is released; false
// where it is there already: a tree is paid for when it is begun.
func (k *Stack) Spends(t int) (account.Event, bool, error) {
	if k.Mechanism != Tree {
		return k.event(k.at(t).noise, 1), true, nil
	}
	if t%k.Epoch != 0 {
		return account.Event{}, false, nil
	}
	e, err := k.Events(k.Noise, min(k.Epoch, k.Rounds-t))
	if err != nil {
		return account.Event{}, false, err
	}
	return e[0], true, nil
}

// MetricEvent is what the release of an evaluation costs. It has no sampling: all
// users are asked. It claims a hair less noise than there is, so that a ledger never
// takes it for a round's.
func (k *Stack) MetricEvent() account.Event {
	return account.Event{
		Mechanism: account.Gaussian, Adjacency: k.Adjacency, Sampler: account.None, Q: 1,
		Noise: math.Nextafter(k.Policy.Metrics, 0), Rounds: 1,
	}
}

// IsMetric tells the release of an evaluation from that of a round.
func (k *Stack) IsMetric(e account.Event) bool {
	return k.Policy.Metrics > 0 && e.Sampler == account.None && e.Noise == k.MetricEvent().Noise
}

// MetricSensitivity is how far one user can move the sums of two metrics that lie
// between 0 and 1.
const MetricSensitivity = math.Sqrt2

// Holds says in words whom the epsilon holds against, and what that rests on.
func (k *Stack) Holds() string {
	switch {
	case k.Printed:
		return "nobody: it is the paper's claim, and as printed it does not hold"
	case k.Against == Distributed:
		return fmt.Sprintf("%s: %d of about %.0f", k.Against.Holds(), k.Least, k.Expected)
	}
	return k.Against.Holds()
}

// Caveats are what a reader of the epsilon must know beside it.
func (k *Stack) Caveats() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if k.NoiseCohort > 0 {
		say("the noise is that of a mean over %d devices, and there are about %.0f: the epsilon is that of a "+
			"federation %.0f times as large, not of this one", k.NoiseCohort, k.Expected,
			float64(k.NoiseCohort)/k.Expected)
	}
	if k.Printed {
		say("as printed: the clipping bit is taken after the clip, the noise is not multiplied by the coordinator's "+
			"rate of %g, and the bound may fall below zero; the epsilon is the paper's claim and does not hold", k.Step)
	}
	if k.Against != Central && !k.Drawn {
		say("simulated: the devices' noise is drawn at once, as the sum it amounts to")
	}
	if k.Masked && k.sampler() == account.Poisson {
		say("a round that too few devices stay in for their masks is kept back, which tells of the sample: the " +
			"epsilon takes it for secret")
	}
	if k.Adaptive != "off" {
		say("the bound on updates moves, from %g on, by a count of unclipped devices with noise of deviation %.3g, "+
			"which the epsilon covers", k.Policy.Clip, k.Bit)
	}
	if k.Chosen {
		say("devices choose when they come, and no sampling is assumed: each is in at most one sum of every %d "+
			"rounds, which coordinator and device both see to; that a device came, and when, is not covered", k.Epoch)
	}
	if k.Each != nil {
		say("rounds differ in what they send and in the noise on it: %s", k.tellEach())
	}
	if leak := k.Cover.Leak(); leak != "" {
		say("the coordinator sees %s", leak)
	}
	if k.Policy.Metrics == 0 {
		say("the metrics are the experimenter's, measured on all users: a federation that published them would " +
			"spend more (metrics=Z)")
	}
	if k.Mechanism == Laplace {
		say("simulated: Laplace noise is drawn in floating point; only Gaussian noise is drawn in whole numbers")
	}
	say("it is for the models of this run alone: another run on the same users, with another seed too, adds to it")
	say("settings that were chosen by looking at these users are not covered")
	return out
}

// Scale of one device's Laplace noise, in integers.
func (k *Stack) Scale(round int) int64 { return k.at(round).deviation }

// BitDeviation is the deviation of the noise on the sum of clipping bits.
func (k *Stack) BitDeviation(round int) int64 { return bitDeviation(k.at(round).bit) }

func bitDeviation(bit float64) int64 { return max(1, ceil(bit*BitLevels)) }

// BitShare is the part of it that each device adds to its own bit, where noise is
// distributed: the coordinator must not see the sum without it.
func (k *Stack) BitShare(round int) int64 {
	return ceil(float64(k.BitDeviation(round)) / math.Sqrt(float64(k.Least)))
}

// NoiseOfBits is the deviation that is still to be added to the sum of the bits of so
// many devices.
func (k *Stack) NoiseOfBits(round, devices int) int64 {
	switch {
	case k.Drawn:
		return 0
	case k.Against == Distributed:
		return ceil(float64(k.BitShare(round)) * math.Sqrt(float64(devices)))
	}
	return k.BitDeviation(round)
}

// Fewest is how many devices there must be in a release. Where the epsilon rests on
// independent draws, how many came is as secret as who came: then any number will do,
// and noise alone is released for none.
func (k *Stack) Fewest() int {
	switch {
	case k.sampler() == account.Poisson:
		return 0
	case k.Against == Distributed:
		return k.Least + int(math.Ceil(Colluding*k.Expected))
	}
	return k.Least
}

// Colluding is the share of a cohort that may be the coordinator's: their shares of
// distributed noise count for nothing, so that many more must come.
const Colluding = 0.1

// TailChance is the chance, for one device in one round, that its noise is cut: over a
// whole run a millionth of delta.
func (k *Stack) TailChance() float64 {
	return k.Delta * 1e-6 / (k.Crowd() * float64(max(k.Rounds, 1)))
}

// ErrClip says that the linear rule has run the bound to zero or below.
var ErrClip = errors.New("privacy: the bound on updates has fallen to zero or below, where it would turn updates " +
	"around: a linear rule does that, " +
	"and as PrivRec's paper prints it always, because every update counts as within the bound after the bound was applied")

// Adapt moves the bound by the noisy sum of clipping bits.
func (k *Stack) Adapt(bits int64) error {
	within := float64(bits)/BitLevels/k.Expected + 0.5
	k.Clip = NextClip(k.Adaptive, k.Clip, within, k.Quantile, k.Rate)
	if !(k.Clip > 0) && k.Printed {
		return ErrClip
	}
	k.Clip = min(max(k.Clip, leastClip), mostClip)
	return nil
}

// NextClip moves a bound towards the quantile of the updates' lengths. within is
// the noisy share that was within the bound. The geometric rule is that of Andrew et al.
// (2021), with the share cut to [0, 1]; the linear one is PrivRec's.
func NextClip(rule string, clip, within, quantile, rate float64) float64 {
	within = min(max(within, 0), 1)
	switch rule {
	case "geometric":
		return clip * math.Exp(-rate*(within-quantile))
	case "linear":
		return clip - rate*(within-quantile)
	}
	return clip
}

// Most is the largest magnitude of an integer that a device sends in a round, from 0:
// with its share of the noise, where it draws one. More is cut, which the tail's chance
// covers.
func (k *Stack) Most(round int) int64 {
	b := k.Bound(round)
	most, bit := int64(b.Levels)+1, int64(BitLevels)
	if k.Drawn {
		most += secagg.Tail(float64(k.Share(round)), k.Width(round)+1, k.TailChance())
		if k.Adaptive != "off" {
			bit += secagg.Tail(float64(k.BitShare(round)), 1, k.TailChance())
		}
	}
	return max(most, bit)
}
