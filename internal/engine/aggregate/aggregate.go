// Package aggregate turns the sum of a round's updates into the next value of a slot: a mean,
// then a server rule. It also draws the noise of devices that add their own. It never collects
// or sums updates.
package aggregate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/vec"
)

// Mean is what a sum of updates is divided by.
type Mean string

const (
	PerCohort Mean = "cohort" // the number of participants, as in the papers
	PerRow    Mean = "row"    // the number of devices that touched the row
	Fixed     Mean = "fixed"  // the expected size of a cohort, a public constant
)

// Divide divides the rows of sum in place: by the number of devices, by the expected size of
// a cohort, or by counts, which are by row.
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

// Rule is the server's optimiser. Its text forms are "sgd:RATE" (the mean delta times a rate:
// 1 is plain averaging, less is Reptile's step) and "adam:RATE" (FedAdam of Reddi et al. 2021:
// without bias correction, the second moment starting at tau^2).
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
			return fmt.Errorf("rate %q: must be a finite number", rate)
		}
	}
	if kind != "sgd" && kind != "adam" || kind == "adam" && !found {
		return errors.New("must be sgd, sgd:RATE or adam:RATE")
	}
	*r = Rule{kind, x}
	return nil
}

// State is what a rule keeps of one slot between rounds.
type State struct {
	M, V  []float32
	Steps int
}

// tau keeps FedAdam's steps finite.
const tau = 1e-3

// Extend returns the state of a longer value. New numbers start as in the first round.
func (st *State) Extend(n int) State {
	out := State{M: make([]float32, n), V: make([]float32, n), Steps: st.Steps}
	for i := copy(out.V, st.V); i < n; i++ {
		out.V[i] = tau * tau
	}
	copy(out.M, st.M)
	return out
}

// Apply moves value by the mean delta, which it may overwrite.
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
