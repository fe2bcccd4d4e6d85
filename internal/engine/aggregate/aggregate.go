// Package aggregate turns the sum of what devices sent into the coordinator's next
// value: a mean, then a server rule.
package aggregate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/vec"
)

// Mean says what a sum is divided by.
type Mean string

const (
	PerCohort Mean = "cohort" // the number of devices that took part, for every row: what the papers do
	PerRow    Mean = "row"    // the number of devices that touched the row
	Fixed     Mean = "fixed"  // the expected size of a cohort, a public constant
)

// Divide divides the rows of sum in place. devices took part, expected is the
// public constant, and counts (by row) is used for PerRow only.
func (m Mean) Divide(devices int, expected float64, counts []uint32, stride int, sum []float32) {
	switch {
	case m == Fixed:
		vec.Scale(float32(1/expected), sum)
	case m == PerRow && counts != nil:
		for r, n := range counts {
			if n > 1 {
				vec.Scale(1/float32(n), sum[r*stride:(r+1)*stride])
			}
		}
	case devices > 0:
		vec.Scale(1/float32(devices), sum)
	}
}

// Rule is the coordinator's optimiser. Its text forms are "sgd:RATE" (the mean
// change, times a rate; 1 is plain averaging, less is Reptile's step) and
// "adam:RATE" (FedAdam of Reddi et al. 2021: without bias correction, the second
// moment starting at tau^2).
type Rule struct {
	Kind string
	Rate float64
}

func (r Rule) MarshalText() ([]byte, error) {
	return []byte(r.Kind + ":" + strconv.FormatFloat(r.Rate, 'g', -1, 64)), nil
}

func (r *Rule) UnmarshalText(b []byte) error {
	kind, rate, found := strings.Cut(string(b), ":")
	x := 1.0
	if found {
		var err error
		if x, err = strconv.ParseFloat(rate, 64); err != nil || x-x != 0 {
			return fmt.Errorf("%q is not a finite number", rate)
		}
	}
	if kind != "sgd" && kind != "adam" || kind == "adam" && !found {
		return fmt.Errorf("want sgd, sgd:RATE or adam:RATE")
	}
	*r = Rule{kind, x}
	return nil
}

// State is what a rule remembers of one slot.
type State struct {
	M, V  []float32
	Steps int
}

// tau is what keeps FedAdam's steps finite.
const tau = 1e-3

// Extend is the state of a longer value: of what is new as it would be at the start.
func (st *State) Extend(n int) State {
	out := State{M: make([]float32, n), V: make([]float32, n), Steps: st.Steps}
	for i := copy(out.V, st.V); i < n; i++ {
		out.V[i] = tau * tau
	}
	copy(out.M, st.M)
	return out
}

// Apply moves value by the mean change.
func (r Rule) Apply(change []float32, st *State, value []float32) {
	if r.Kind != "adam" {
		vec.Axpy(float32(r.Rate), change, value)
		return
	}
	const b1, b2 = 0.9, 0.99
	if st.M == nil {
		*st = st.Extend(len(value))
	}
	st.Steps++
	vec.Scale(-1, change)
	vec.Adam(change, float32(r.Rate), b1, b2, tau, st.M, st.V, value)
}
