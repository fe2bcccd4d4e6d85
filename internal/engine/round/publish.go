package round

import (
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Honest rounds stay far below these limits: see TestHonestRoundsAreFarFromTheLimits in package sim. On
// ML-100K a slot grows at most 64 times in a round, and no number exceeds 1e4; both grow with the
// catalogue and with the number of devices.
const (
	// maxMagnitude is the largest number of a model, unless its slot declares a limit.
	maxMagnitude = 1e18
	// maxGrowth is how many times larger a slot may become in one round, once it is not zero: its root
	// mean square, or 1 if that is larger.
	maxGrowth = 1e6
)

// kept is the model of the round before, which stays if that of a round is rejected.
type kept struct {
	value [][]float32 // by slot; empty if the server step does not change it
	state []aggregate.State
}

// isStored reports whether a slot has a value that lasts from round to round.
func isStored(s *method.Slot) bool {
	return s.Scope == method.Server || s.Scope == method.Shared && s.Upload != method.Sum
}

// mayChange reports whether the server step of the next round may change the stored value of a slot.
func (e *Engine) mayChange(slot int) bool {
	if !isStored(&e.Plan.Slots[slot]) {
		return false
	}
	m, ok := method.As[method.PartialUpdater](e.Plan.Method)
	return !ok || m.Updates(e.Next, e.Plan.Rounds, slot)
}

// keep copies the part of the model that the server step may change.
func (e *Engine) keep() {
	if e.kept.value == nil {
		e.kept.value = make([][]float32, len(e.Value))
		e.kept.state = make([]aggregate.State, len(e.State))
	}
	for i := range e.Plan.Slots {
		e.kept.value[i] = e.kept.value[i][:0]
		if e.mayChange(i) {
			e.kept.value[i] = append(e.kept.value[i], e.Value[i]...)
		}
		copyState(&e.kept.state[i], &e.State[i])
	}
}

func copyState(dst, src *aggregate.State) {
	if dst.Steps = src.Steps; src.M == nil {
		dst.M, dst.V = nil, nil
		return
	}
	dst.M, dst.V = append(dst.M[:0], src.M...), append(dst.V[:0], src.V...)
}

// check rejects an implausible model after a server step: the model of the round before takes its
// place, and the round counts as discarded. The privacy budget of the round stays spent.
func (e *Engine) check(rep *Report) {
	rep.Rejected = e.implausible()
	if rep.Rejected == "" {
		return
	}
	rep.Discarded = true
	for i, v := range e.kept.value {
		copy(e.Value[i], v)
		copyState(&e.State[i], &e.kept.state[i])
	}
}

// implausible reports why the model must not be published; empty if it may.
func (e *Engine) implausible() string {
	for i := range e.Plan.Slots {
		s := &e.Plan.Slots[i]
		for _, x := range [][]float32{e.State[i].M, e.State[i].V} {
			if _, bound := size(x); !(bound <= math.MaxFloat64) {
				return fmt.Sprintf("the server rule's memory of slot %s would not be finite", s.Name)
			}
		}
		if !e.mayChange(i) {
			continue
		}
		limit := maxMagnitude
		if s.Limit > 0 {
			limit = s.Limit
		}
		is, bound := size(e.Value[i])
		if bound <= limit && is <= maxGrowth {
			continue
		}
		was, _ := size(e.kept.value[i])
		base := max(was, 1)
		switch most := float64(vec.Largest(e.Value[i])); {
		case !(most <= math.MaxFloat32):
			return fmt.Sprintf("a number of slot %s would not be finite", s.Name)
		case most > limit:
			return fmt.Sprintf("a number of slot %s would be %.3g: at most %.3g is plausible", s.Name, most, limit)
		case was > 0 && is > maxGrowth*base:
			return fmt.Sprintf("slot %s would grow %.3g times in one round: at most %.3g is plausible", s.Name, is/base,
				float64(maxGrowth))
		}
	}
	return ""
}

// size returns the root mean square of numbers, and a bound of their magnitudes: the root of the sum of their
// squares. Both are NaN or infinite if a number is.
func size(v []float32) (mean, bound float64) {
	n := float64(max(len(v), 1))
	var a, b, c, d float64 // additions that do not wait for each other
	for ; len(v) >= 4; v = v[4:] {
		w, x, y, z := float64(v[0]), float64(v[1]), float64(v[2]), float64(v[3])
		a, b, c, d = a+float64(w*w), b+float64(x*x), c+float64(y*y), d+float64(z*z)
	}
	for _, x := range v {
		a += float64(float64(x) * float64(x))
	}
	sum := a + b + c + d
	return math.Sqrt(sum / n), math.Sqrt(sum)
}
