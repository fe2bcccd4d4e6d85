package privacy

import (
	"fmt"
	"strings"
)

// Fact is what is known of an update, or of a sum, at some place of the stack.
type Fact uint

const (
	Bounded  Fact = 1 << iota // its length has a bound
	Counted                   // so has what travels beside the rows
	Integral                  // it is whole numbers, so that noise is exact and masks cancel
	Covered                   // every row is sent
	Noised                    // the noise that the epsilon counts is in it
	Shared                    // a share of that noise is in it: the sum over the least number of devices has all
	Masked                    // nobody can read it but for the sum
	Summed                    // it is the sum of a cohort
	Constant                  // it is divided by a public constant
	Owned                     // each device has added all of the noise itself
)

var factNames = []struct {
	fact    Fact
	missing string // what to add
}{
	{Bounded, "a bound on the update (clip)"},
	{Counted, "what travels beside the rows inside the bound"},
	{Integral, "whole numbers (quantise)"},
	{Covered, "every row (cover=dense)"},
	{Noised, "noise"},
	{Shared, "a share of noise on the device"},
	{Masked, "masks (secure sums)"},
	{Summed, "the sum over a cohort"},
	{Constant, "division by a public constant (mean=fixed)"},
	{Owned, "the device's own noise"},
}

// Stage is one step between a device's update and a release.
type Stage struct {
	Name   string
	Where  string // device or coordinator
	Needs  Fact   // what must hold before it
	Spoils Fact   // what must not: a second noise would be counted twice
	Gives  Fact
}

// The stages there are.
var (
	RowClip  = Stage{Name: "row-clip", Where: "device"}
	Clip     = Stage{Name: "clip", Where: "device", Spoils: Noised | Shared | Summed, Gives: Bounded | Counted}
	Quantise = Stage{Name: "quantise", Where: "device", Needs: Bounded, Spoils: Noised | Shared, Gives: Integral}
	Dense    = Stage{Name: "cover", Where: "device", Spoils: Summed, Gives: Covered}
	Share    = Stage{
		Name: "noise share", Where: "device", Needs: Bounded | Counted | Integral | Covered,
		Spoils: Noised | Shared | Summed, Gives: Shared,
	}
	Mask     = Stage{Name: "mask", Where: "device", Needs: Integral | Covered, Spoils: Summed, Gives: Masked}
	OwnNoise = Stage{
		Name: "noise", Where: "device", Needs: Bounded | Counted | Integral | Covered,
		Spoils: Noised | Shared | Summed, Gives: Noised | Owned,
	}
	Sum   = Stage{Name: "sum", Where: "coordinator", Gives: Summed}
	Noise = Stage{
		Name: "noise", Where: "coordinator", Needs: Bounded | Counted | Integral | Summed,
		Spoils: Noised | Shared, Gives: Noised,
	}
	Divide = Stage{Name: "divide", Where: "coordinator", Needs: Summed, Gives: Constant}
)

// Check runs through the stages and says the first thing that is missing, or
// there twice. At the end a release must hold what the trust asks for.
func Check(t Trust, stages ...Stage) error {
	var has Fact
	for _, s := range stages {
		if lack := s.Needs &^ has; lack != 0 {
			return fmt.Errorf("privacy: %s does not build: before it there must be %s", s.Name, missing(lack))
		}
		if twice := s.Spoils & has; twice != 0 {
			return fmt.Errorf("privacy: %s does not build after %s: it would be counted twice, or void what was "+
				"promised", s.Name, missing(twice))
		}
		has |= s.Gives
	}
	want := Bounded | Counted | Noised | Summed | Constant
	switch t {
	case Distributed:
		want = want&^Noised | Shared | Masked | Covered
	case Local:
		want |= Covered | Owned
	}
	if lack := want &^ has; lack != 0 {
		return fmt.Errorf("privacy: nothing is released %s without %s", t, missing(lack))
	}
	return nil
}

func missing(f Fact) string {
	var out []string
	for _, n := range factNames {
		if f&n.fact != 0 {
			out = append(out, n.missing)
		}
	}
	return strings.Join(out, " and ")
}
