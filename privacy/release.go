package privacy

import (
	"errors"
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/privacy/account"
	"github.com/tacit-rec/tacit/privacy/secagg"
)

// NoisePart is one draw of a release's noise: its deviation and its random stream. The
// coordinator stores draws so that it repeats them after a crash.
type NoisePart struct {
	Deviation int64
	Sign      int64 // -1 removes noise that an earlier release added
	Node      Node
}

// Node identifies a draw: a node of a noise tree, otherwise the round.
type Node struct{ Tree, Level, Index int }

// NoiseParts lists the noise of a round, counted from 0, whose sum has the given number of
// devices. Distributed and local noise is drawn once for all devices, which only a
// simulation may do: at these deviations a sum of discrete Gaussians is a discrete
// Gaussian up to an error far below any delta (Kairouz, Liu and Steinke 2021, theorem 1).
func (k *Stack) NoiseParts(round, devices int) []NoisePart {
	d := k.at(round).deviation
	switch {
	case k.Trust == Distributed:
		return []NoisePart{{
			Deviation: ceil(float64(k.NoiseShare(round)) * math.Sqrt(float64(devices))), Sign: 1,
			Node: Node{Index: round},
		}}
	case k.Trust == Local && k.Mechanism == Gauss:
		return []NoisePart{{
			Deviation: ceil(float64(d) * math.Sqrt(float64(devices))), Sign: 1,
			Node: Node{Index: round},
		}}
	case k.Mechanism == Tree:
		return k.treeParts(round, d)
	}
	return []NoisePart{{Deviation: d, Sign: 1, Node: Node{Index: round}}}
}

// NoiseShare is the deviation of the noise that each device adds under distributed trust:
// the shares of MinDevices devices add up to the noise that the accountant assumes.
func (k *Stack) NoiseShare(round int) int64 {
	return ceil(float64(k.at(round).deviation) / math.Sqrt(float64(k.MinDevices)))
}

// treeParts is the noise of a prefix sum minus that of the previous one. The nodes that
// cover the first n leaves are the binary digits of n (Kairouz et al. 2021, DP-FTRL).
func (k *Stack) treeParts(round int, deviation int64) []NoisePart {
	tree, n := round/k.Epoch, round%k.Epoch+1
	var out []NoisePart
	for level := 0; n>>level > 0; level++ {
		if n>>level&1 == 1 { // the lowest set digit is new; the digits below it were set in n-1
			out = append(out, NoisePart{deviation, 1, Node{tree, level, n >> level}})
			for l := range level {
				out = append(out, NoisePart{deviation, -1, Node{tree, l, (n-1)>>l | 1}})
			}
			break
		}
	}
	return out
}

// Spends returns the event that the ledger must hold before round t, counted from 0, is
// released. It returns false if the round is already paid for: a tree is paid for when it starts.
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

// Limit is the epsilon that releases may cost: the policy's with given noise, otherwise that of the planned
// releases of all runs.
func (k *Stack) Limit() float64 {
	if k.Policy.Noise > 0 && k.Epsilon > 0 {
		return k.Epsilon
	}
	return k.Total.Epsilon
}

// Covers reports whether events cost at most Limit. It only counts them if each kind occurs at most as often
// as planned.
func (k *Stack) Covers(events ...account.Event) (bool, error) {
	if k.Total.Epsilon <= k.Limit() && k.within(k.Rounds, 0, events) {
		return true, nil
	}
	r, err := account.Epsilon(k.Delta, k.Options(), events...)
	return err == nil && r.Epsilon <= k.Limit()*(1+1e-9), err
}

// MetricEvent is the cost of releasing one evaluation. It assumes no sampling, because all
// users are evaluated. It claims marginally less noise than is added, so that the ledger
// never confuses it with a round.
func (k *Stack) MetricEvent() account.Event {
	return account.Event{
		Mechanism: account.Gaussian, Adjacency: k.Adjacency, Sampler: account.None, Q: 1,
		Noise: math.Nextafter(k.Policy.Metrics, 0), Rounds: 1,
	}
}

// IsMetric reports whether an event is the release of an evaluation.
func (k *Stack) IsMetric(e account.Event) bool {
	return k.Policy.Metrics > 0 && e.Sampler == account.None && e.Noise == k.MetricEvent().Noise
}

// MetricSensitivity is how far one user can move the sums of two metrics that lie
// between 0 and 1.
const MetricSensitivity = math.Sqrt2

// Against describes against whom the epsilon holds, and under which assumption.
func (k *Stack) Against() string {
	switch {
	case k.Printed:
		return "nobody: this is the paper's claim, and as printed it does not hold"
	case k.Trust == Distributed:
		return fmt.Sprintf("%s: %d of about %.0f", k.Trust.Against(), k.MinDevices, k.Expected)
	}
	return k.Trust.Against()
}

// Caveats lists what a reader must know to interpret the epsilon.
func (k *Stack) Caveats() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if k.NoiseCohort > 0 {
		say("the noise is that of a mean over %d devices, but there are about %.0f: the epsilon applies to a "+
			"federation %.0f times as large, not to this one", k.NoiseCohort, k.Expected,
			float64(k.NoiseCohort)/k.Expected)
	}
	if k.Printed {
		say("as printed: the clipping bit is computed after clipping, the noise is not multiplied by the server "+
			"rate of %g, and the clipping bound may fall below zero; the epsilon is the paper's claim and does not "+
			"hold", k.Step)
	}
	if k.Trust != Central && !k.Drawn {
		say("simulated: the noise of all devices is drawn once, as their sum")
	}
	if k.Masked && k.sampler() == account.Poisson {
		say("a masked round with too few devices is discarded, which reveals something about the sample, although " +
			"the epsilon assumes that the sample is secret")
	}
	if k.Adaptive != "off" {
		say("the clipping bound starts at %g and adapts to a count of unclipped devices with noise of deviation %.3g, "+
			"which the epsilon covers", k.Policy.Clip, k.CountNoise)
	}
	if k.SelfSelected {
		say("devices choose when they take part, and no sampling is assumed: each is in at most one sum of every %d "+
			"rounds, which coordinator and device both enforce; that a device took part, and when, is not covered",
			k.Epoch)
	}
	if k.PerRound != nil {
		say("rounds differ in what they send and in their noise: %s", k.describeRounds())
	}
	if leak := k.Cover.reveals(); leak != "" {
		say("the coordinator sees %s", leak)
	}
	if k.Policy.Metrics == 0 {
		say("the metrics are measured on all users without noise, for the experimenter only: publishing them would " +
			"spend more budget (metrics=5 in --dp releases them with noise)")
	}
	if k.Mechanism == Laplace {
		say("simulated: Laplace noise is drawn in floating point; only Gaussian noise is drawn in integers")
	}
	if n := k.runs(); n > 1 {
		say("the epsilon covers %d runs on the same users; every further run adds to it", n)
	} else {
		say("the epsilon covers this run only: another run on the same users, even with another seed, adds to it")
	}
	say("settings chosen by looking at the same users' data are not covered")
	return out
}

// Scale is the scale of one device's Laplace noise, in integers.
func (k *Stack) Scale(round int) int64 { return k.at(round).deviation }

// countDeviation is the deviation of the noise on the sum of clipping bits, in integers.
func (k *Stack) countDeviation(round int) int64 { return bitDeviation(k.at(round).bit) }

func bitDeviation(bit float64) int64 { return max(1, ceil(bit*BitLevels)) }

// CountNoiseShare is the deviation of the noise that each device adds to its clipping bit
// under distributed trust: the coordinator must not see the exact sum.
func (k *Stack) CountNoiseShare(round int) int64 {
	return ceil(float64(k.countDeviation(round)) / math.Sqrt(float64(k.MinDevices)))
}

// RemainingCountNoise is the deviation that the coordinator still adds to the sum of
// clipping bits of the given number of devices.
func (k *Stack) RemainingCountNoise(round, devices int) int64 {
	switch {
	case k.Drawn:
		return 0
	case k.Trust == Distributed:
		return ceil(float64(k.CountNoiseShare(round)) * math.Sqrt(float64(devices)))
	}
	return k.countDeviation(round)
}

// plausibleDeviations of noise are exceeded with a probability below 1e-9.
const plausibleDeviations = 6.2

// PlausibleBits reports whether the given number of devices can have made a noisy sum of clipping bits.
// Each of them sends half of BitLevels or its negative. Honest devices make an implausible sum with
// a probability below 1e-9. The noise is part of the sum, so the answer reveals nothing that the sum
// does not.
func (k *Stack) PlausibleBits(round, devices int, noisy int64) bool {
	deviation := float64(k.RemainingCountNoise(round, devices))
	if k.Drawn {
		deviation = float64(k.CountNoiseShare(round)) * math.Sqrt(float64(devices))
	}
	limit := float64(float64(devices)*BitLevels/2) + float64(plausibleDeviations*deviation)
	return math.Abs(float64(noisy)) <= limit
}

// RequiredDevices is the minimum number of devices in a release. Under Poisson sampling the
// size of the sample is as secret as its members, so any number is released, even zero
// devices with noise alone.
func (k *Stack) RequiredDevices() int {
	switch {
	case k.sampler() == account.Poisson:
		return 0
	case k.Trust == Distributed:
		return k.MinDevices + int(math.Ceil(colludingShare*k.Expected))
	case k.Masked:
		return max(k.MinDevices, k.MinMasked())
	}
	return k.MinDevices
}

// colludingShare is the fraction of a cohort that may collude with the coordinator. Their
// shares of distributed noise do not count, so RequiredDevices adds as many more.
const colludingShare = 0.1

// tailProbability is the probability that one device's noise is truncated in one round; over
// all runs it adds up to a millionth of delta.
func (k *Stack) tailProbability() float64 {
	return k.Delta * 1e-6 / (k.MaxCohort() * float64(max(k.Rounds, 1)*k.runs()))
}

// ErrClip reports that the linear rule moved the clipping bound to zero or below.
var ErrClip = errors.New("the clipping bound fell to zero or below, which would reverse updates; PrivRec's linear " +
	"rule as printed always does this, because every update is within the bound after clipping; remove as-printed")

// Adapt moves the clipping bound by the noisy sum of clipping bits.
func (k *Stack) Adapt(bits int64) error {
	within := float64(bits)/BitLevels/k.Expected + 0.5
	k.Clip = nextClip(k.Adaptive, k.Clip, within, k.Quantile, k.Rate)
	if !(k.Clip > 0) && k.Printed {
		return ErrClip
	}
	k.Clip = min(max(k.Clip, minClip), maxClip)
	return nil
}

// nextClip moves a clipping bound towards the quantile of the update norms; within is the
// noisy fraction of updates within the bound. The geometric rule is that of Andrew et al.
// (2021), with the fraction clamped to [0, 1]; the linear rule is PrivRec's.
func nextClip(rule string, clip, within, quantile, rate float64) float64 {
	within = min(max(within, 0), 1)
	switch rule {
	case "geometric":
		return clip * math.Exp(-rate*(within-quantile))
	case "linear":
		return clip - float64(rate*(within-quantile))
	}
	return clip
}

// MaxInteger is the largest magnitude of an integer that a device sends in a round, counted
// from 0, including its share of the noise. Larger values are truncated; tailProbability
// accounts for that.
func (k *Stack) MaxInteger(round int) int64 {
	b := k.Bound(round)
	most, bit := int64(b.Levels)+1, int64(BitLevels)
	if k.Drawn {
		most += secagg.Tail(float64(k.NoiseShare(round)), k.UpdateLength(round)+1, k.tailProbability())
		if k.Adaptive != "off" {
			bit += secagg.Tail(float64(k.CountNoiseShare(round)), 1, k.tailProbability())
		}
	}
	return max(most, bit)
}
