package conform

import (
	"fmt"
	"slices"
	"sync"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// passRounds is a number of rounds, at least the given one, in which a method goes through all its passes.
func passRounds(m method.Method, least int) int {
	if p, ok := method.As[method.InPasses](m); ok {
		return max(least, p.Passes())
	}
	return least
}

// changesDeclared checks that a server step changes only slots for which Updates is true: others are
// neither checked nor restored when a round is discarded.
func changesDeclared(build Build) error {
	m, ok := method.As[method.PartialUpdater](build())
	if !ok {
		return nil // a step may change every slot
	}
	o := options(2 * passRounds(build(), 3))
	o.EvalEvery = o.Rounds
	r, err := start(build, o, 2)
	if err != nil {
		return err
	}
	for at := range o.Rounds {
		var before [][]float32
		for slot := range r.Plan().Slots {
			before = append(before, slices.Clone(r.Value(slot)))
		}
		if err := steps(r, 1); err != nil {
			return err
		}
		for slot, was := range before {
			if !slices.Equal(was, r.Value(slot)) && !m.Updates(at, o.Rounds, slot) {
				return fmt.Errorf("the server step of round %d changes slot %s, for which Updates is false", at,
					r.Plan().Slots[slot].Name)
			}
		}
	}
	return nil
}

// readsBroadcast checks that devices do not write to Broadcast slots, which all devices of a simulation
// share.
func readsBroadcast(build Build) error {
	if !federated(build) {
		return doesNotApply("the method is not trained on devices")
	}
	var wrong violation
	o := options(passRounds(build(), 3))
	o.EvalEvery = o.Rounds
	_, err := finish(func() method.Method {
		m := readOnly{build(), &wrong}
		if _, ok := method.As[method.Ready](m.Method); ok {
			return readOnlyReady{m}
		}
		return m
	}, o, 1)
	if wrong.err != nil {
		return wrong.err
	}
	return err
}

// violation is the first error that a device found.
type violation struct {
	once sync.Once
	err  error
}

// readOnly compares the Broadcast slots before and after local training.
type readOnly struct {
	method.Method
	wrong *violation
}

func (m readOnly) Unwrap() method.Method { return m.Method }

func (m readOnly) Rewrap(inner method.Method) method.Method { return readOnly{inner, m.wrong} }

func (m readOnly) Visit(items int) method.Visit {
	return m.watch(m.Method.Visit(items), "local training")
}

func (m readOnly) watch(v method.Visit, name string) method.Visit {
	run := v.Run
	v.Run = func(w *method.Work) {
		before := make([][]float32, len(w.View))
		for i := range w.View {
			before[i] = slices.Clone(broadcast(w, i))
		}
		run(w)
		for i := range w.View {
			if !slices.Equal(before[i], broadcast(w, i)) {
				m.wrong.once.Do(func() {
					m.wrong.err = fmt.Errorf("%s writes to slot %s, which is Broadcast", name, w.View[i].Slot.Name)
				})
			}
		}
	}
	return v
}

// broadcast returns the downloaded values of a Broadcast slot, and nil for other slots.
func broadcast(w *method.Work, slot int) []float32 {
	switch v := &w.View[slot]; {
	case v.Slot.Scope != method.Shared || v.Slot.Upload != method.Broadcast:
		return nil
	case v.Slot.PerItem:
		return v.Arena[:w.Items*vec.Pad(v.Slot.Dim)]
	default:
		return v.Val
	}
}

// readOnlyReady is readOnly for a method with Ready.
type readOnlyReady struct{ readOnly }

func (m readOnlyReady) Rewrap(inner method.Method) method.Method {
	return readOnlyReady{readOnly{inner, m.wrong}}
}

func (m readOnlyReady) Ready(items int) method.Visit {
	r, _ := method.As[method.Ready](m.Method)
	return m.watch(r.Ready(items), "Ready")
}
