// Package account is a privacy accountant: it computes the epsilon of a sequence of
// private releases by Rényi differential privacy (RDP), by the privacy loss distribution
// (PLD), or exactly if a closed form exists. It never draws noise or touches a file.
// Convention: every number errs on the safe side; it may be +Inf but is never NaN.
//
// A noise multiplier is the standard deviation (of Laplace noise: the scale)
// divided by the sensitivity under the adjacency of the event, so the same noise
// has half the multiplier under ReplaceOne that it has under ZeroOut.
package account

import (
	"fmt"
	"math"
)

// Adjacency says which two data sets must be hard to tell apart.
type Adjacency string

const (
	ZeroOut    Adjacency = "zero-out"    // one user's contribution becomes zero; the number of users is public
	AddRemove  Adjacency = "add-remove"  // one user more or less
	ReplaceOne Adjacency = "replace-one" // one user's data becomes another user's: twice the sensitivity
)

// Sampler says how the users of a round are drawn.
type Sampler string

const (
	None Sampler = "none" // all users, or a rule that gives no amplification
	// each with probability q, independently; sums are divided by the constant q·N
	Poisson            Sampler = "poisson"
	WithoutReplacement Sampler = "wor" // exactly q·N of N
)

// Mechanism says what noise is added to a bounded sum.
type Mechanism string

const (
	Gaussian Mechanism = "gaussian"
	Laplace  Mechanism = "laplace"
	Pure     Mechanism = "pure" // any mechanism with a pure epsilon, accounted as randomised response
	ZCDP     Mechanism = "zcdp" // any mechanism with a zero-concentrated rho
	Tree     Mechanism = "tree" // Gaussian noise on the nodes of binary trees (DP-FTRL)
)

// Event is one release, or several equal ones.
type Event struct {
	Mechanism Mechanism `json:"mechanism"`
	Adjacency Adjacency `json:"adjacency"`
	Sampler   Sampler   `json:"sampler"`
	Q         float64   `json:"q"` // Sampling rate; 1, or 0 for short, with None.
	// Multiplier of Gaussian, Laplace and Tree (there: per node, of one contribution).
	Noise   float64 `json:"noise,omitempty"`
	Epsilon float64 `json:"epsilon,omitempty"` // Of Pure.
	Rho     float64 `json:"rho,omitempty"`     // Of ZCDP.
	Nodes   float64 `json:"nodes,omitempty"`   // Of Tree: see TreeRestarts and TreeOnce.
	// Of WithoutReplacement: 9 or 27 of Wang et al.; 0 means 27, which is never above 9.
	Theorem int   `json:"theorem,omitempty"`
	Rounds  int64 `json:"rounds"`
}

// normal checks an event and fills in values that are implied.
func (e Event) normal() (Event, error) {
	if e.Sampler == None && e.Q == 0 {
		e.Q = 1
	}
	if e.Sampler == WithoutReplacement && e.Theorem == 0 {
		e.Theorem = 27
	}
	for _, check := range []func(Event) error{Event.checkWords, Event.checkNumbers, Event.checkPair} {
		if err := check(e); err != nil {
			return e, err
		}
	}
	return e, nil
}

func (e Event) checkWords() error {
	switch e.Mechanism {
	case Gaussian, Laplace, Pure, ZCDP, Tree:
	default:
		return fmt.Errorf("mechanism %q: must be gaussian, laplace, pure, zcdp or tree", e.Mechanism)
	}
	switch e.Adjacency {
	case ZeroOut, AddRemove, ReplaceOne:
	default:
		return fmt.Errorf("adjacency %q: must be zero-out, add-remove or replace-one; an epsilon without one "+
			"means nothing", e.Adjacency)
	}
	switch e.Sampler {
	case None, Poisson, WithoutReplacement:
	default:
		return fmt.Errorf("sampler %q: must be poisson, wor or none", e.Sampler)
	}
	return nil
}

func (e Event) checkNumbers() error {
	bad := func(x float64) bool { return math.IsNaN(x) || x < 0 }
	switch {
	case bad(e.Q) || e.Q > 1:
		return fmt.Errorf("sampling rate q=%v: must be 0 to 1, the fraction of users in a round", e.Q)
	case e.Sampler == None && e.Q != 1:
		return fmt.Errorf("sampling rate q=%v with sampler none: remove q, or name the sampler: "+
			"poisson or wor", e.Q)
	case bad(e.Noise):
		return fmt.Errorf("noise=%v: must be 0 or more", e.Noise)
	case bad(e.Epsilon):
		return fmt.Errorf("epsilon=%v of a pure mechanism: must be 0 or more", e.Epsilon)
	case bad(e.Rho):
		return fmt.Errorf("rho=%v: must be 0 or more", e.Rho)
	case bad(e.Nodes):
		return fmt.Errorf("nodes=%v of a tree: must be 0 or more", e.Nodes)
	case e.Rounds < 0:
		return fmt.Errorf("rounds=%d: must be 0 or more", e.Rounds)
	case e.Sampler == WithoutReplacement && e.Theorem != 9 && e.Theorem != 27:
		return fmt.Errorf("theorem %d: must be 9 or 27 (Wang, Balle and Kasiviswanathan 2019)", e.Theorem)
	}
	return nil
}

// checkPair refuses bounds that do not hold for the sampler and the adjacency.
//
// Without replacement the sample that misses a user has another one in its place,
// so its proof needs the sensitivity of a replacement throughout (Wang, Balle and
// Kasiviswanathan 2019). The sampled Gaussian (Mironov, Talwar and Zhang 2019) is
// for independent draws, where a user is there or is not.
func (e Event) checkPair() error {
	switch {
	case e.Sampler == None && e.Mechanism == Tree && e.Adjacency != ZeroOut:
		return fmt.Errorf("a tree is accounted under zero-out, not %s; use adjacency zero-out, with the "+
			"noise relative to one contribution", e.Adjacency)
	case e.Sampler == None:
		return nil
	case e.Mechanism != Gaussian:
		return fmt.Errorf("no amplification by %s sampling is known here for %s; use sampler none, or "+
			"mechanism gaussian", e.Sampler, e.Mechanism)
	case e.Sampler == Poisson && e.Adjacency == ReplaceOne:
		return fmt.Errorf("poisson sampling is accounted under zero-out or add-remove, not replace-one; " +
			"use adjacency zero-out (the noise multiplier doubles: the sensitivity is S, not 2S), or sampler wor " +
			"with replace-one")
	case e.Sampler == WithoutReplacement && e.Adjacency != ReplaceOne:
		return fmt.Errorf("sampling without replacement is accounted under replace-one, not %s; use "+
			"adjacency replace-one (the noise multiplier halves: the sensitivity is 2S, not S), or sampler poisson "+
			"with %s", e.Adjacency, e.Adjacency)
	}
	return nil
}

// kind is the event without its count: equal for events that can be merged.
func (e Event) kind() Event {
	e.Rounds = 0
	return e
}

// nothing reports whether the event releases nothing about anyone.
func (e Event) nothing() bool {
	switch {
	case e.Rounds == 0 || e.Q == 0:
		return true
	case e.Mechanism == Pure:
		return e.Epsilon == 0
	case e.Mechanism == ZCDP:
		return e.Rho == 0
	case e.Mechanism == Tree && e.Nodes == 0:
		return true
	}
	return math.IsInf(e.Noise, 1)
}

// multiplier is the noise multiplier of the plain Gaussian that the event is equivalent to,
// if any.
func (e Event) multiplier() (float64, bool) {
	switch {
	case e.Mechanism == Gaussian && e.Q == 1:
		return e.Noise, true
	case e.Mechanism == Tree:
		return e.Noise / math.Sqrt(e.Nodes), true
	}
	return 0, false
}

// Joint is the noise multiplier of several Gaussian queries on one and the same
// sample, which are one query on the whitened vector: (Σ zᵢ⁻²)^(-1/2). A round that
// also releases a noisy count is one event with the joint multiplier, not two.
func Joint(multipliers ...float64) float64 {
	least := math.Inf(1)
	for _, z := range multipliers {
		if math.IsNaN(z) || z <= 0 {
			return 0
		}
		least = min(least, z)
	}
	if math.IsInf(least, 1) {
		return least
	}
	sum := 0.0
	for _, z := range multipliers {
		sum += (least / z) * (least / z)
	}
	return least / math.Sqrt(sum)
}
