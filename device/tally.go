package device

import (
	"bytes"
	"maps"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
)

// Tally is what the device itself counts since it enrolled.
type Tally struct {
	Reports     int `json:"reports"`     // training reports that the device made
	Evaluations int `json:"evaluations"` // evaluations that it answered
	Rounds      int `json:"rounds"`      // rounds that were released, with or without it
	Runs        int `json:"runs"`        // runs that it has seen
	Resets      int `json:"resets"`      // resets of the privacy budget that it has seen
	// Epsilon is the cost, at Delta, of all rounds that were released since the device enrolled, as far as it knows:
	// it computes the noise from the plans that it was given, and assumes that the rounds and runs that it missed
	// were released under the plan that follows them. With policies of several adjacencies, both are sums
	// over the adjacencies. Both are 0 without differential privacy.
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
	// Incomplete says that Epsilon may be too low: the device has missed rounds that were rolled back or had another
	// policy, or a cost cannot be computed.
	Incomplete bool `json:"incomplete,omitempty"`
	// Unprotected is the number of Rounds without differential privacy, which Epsilon does not cover.
	Unprotected int `json:"unprotected"`
}

// tally is a Tally with the releases that its epsilon is computed from.
type tally struct {
	Tally
	Events events `json:"events,omitempty"`
}

// events are releases. A device sees few different ones: the noise of a policy, and one for each reset or
// change of the population.
type events []account.Event

// with returns the events and one more; equal ones are merged.
func (es events) with(e account.Event) events {
	for i, like := range es {
		like.Rounds = e.Rounds
		if like == e {
			es = slices.Clone(es)
			es[i].Rounds += e.Rounds
			return es
		}
	}
	return append(slices.Clip(es), e)
}

// release counts the rounds between two manifests; before is the guarantee of the old one. It assumes that every
// round of a run that the device has missed was released.
func (y *tally) release(old, m *pb.Manifest, before *Guarantee, k *privacy.Stack) {
	rounds := int(m.Round)
	if k != nil {
		rounds, y.Delta = k.Rounds, k.Delta
	}
	y.Incomplete = y.Incomplete || old != nil && hides(old, m, before)
	switch {
	case old == nil:
		y.Runs++
		if k != nil && k.Mechanism == privacy.Tree && int(m.Round) < k.Rounds { // it may join the tree that has started
			y.charge(k, int(m.Round)-int(m.Round)%k.Epoch, int(m.Round))
		}
	case bytes.Equal(old.Run, m.Run):
		y.add(k, int(old.Round), int(m.Round))
	default:
		y.Runs++
		y.add(k, int(old.Round), rounds)
		y.addRuns(k, rounds, int64(m.RunNumber-old.RunNumber)-1)
		y.add(k, 0, int(m.Round))
	}
}

// addRuns counts whole runs.
func (y *tally) addRuns(k *privacy.Stack, rounds int, runs int64) {
	if runs < 1 {
		return
	}
	one := tally{}
	one.add(k, 0, rounds)
	y.Rounds += one.Rounds * int(runs)
	y.Unprotected += one.Unprotected * int(runs)
	for _, e := range one.Events {
		e.Rounds *= runs
		y.Events = y.Events.with(e)
	}
}

// add counts rounds from one to before another.
func (y *tally) add(k *privacy.Stack, from, to int) {
	y.Rounds += max(to-from, 0)
	if k == nil {
		y.Unprotected += max(to-from, 0)
		return
	}
	y.charge(k, from, to)
}

// charge adds what the rounds from one to before another cost; a tree is paid for in its first round.
func (y *tally) charge(k *privacy.Stack, from, to int) {
	for t := from; t < to; t++ {
		if e, spends, err := k.Spends(t); err == nil && spends {
			y.Events = y.Events.with(e)
		}
	}
}

// hides reports whether the device has missed releases between two manifests whose number or noise it cannot know:
// of rounds that were rolled back, or of the end of an earlier budget period.
func hides(old, m *pb.Manifest, before *Guarantee) bool {
	if m.Version == old.Version+1 {
		return false
	}
	ended := before == nil || old.Round >= before.Rounds
	another := !bytes.Equal(old.Run, m.Run)
	return m.Rollbacks > old.Rollbacks ||
		m.BudgetPeriod > old.BudgetPeriod && another && (!ended || m.RunNumber > old.RunNumber+1)
}

// total returns the tally with its epsilon.
func (s *spending) total() Tally {
	out := s.Tally.Tally
	delta := out.Delta
	out.Delta = 0
	of := map[account.Adjacency][]account.Event{}
	for _, e := range s.Tally.Events {
		of[e.Adjacency] = append(of[e.Adjacency], e)
	}
	for _, a := range slices.Sorted(maps.Keys(of)) {
		r, err := account.Epsilon(delta, account.Options{Accountant: account.RDP}, of[a]...)
		if err != nil || math.IsInf(r.Epsilon, 0) || math.IsNaN(r.Epsilon) {
			out.Incomplete = true
			continue
		}
		out.Epsilon, out.Delta = out.Epsilon+r.Epsilon, out.Delta+delta
	}
	return out
}
