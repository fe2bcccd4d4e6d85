package privacy

import (
	"fmt"
	"strings"
)

// fact is a set of properties of an update, or of a sum, at one point of the stack.
type fact uint

const (
	bounded  fact = 1 << iota // its norm is bounded
	counted                   // the bound includes everything that is sent
	integral                  // it consists of integers, so noise is exact and masks cancel
	covered                   // every row is sent
	noised                    // it includes the noise that the accountant assumes
	shared                    // it includes a share of the noise; MinDevices shares make up all of it
	masked                    // only the sum can be read
	summed                    // it is the sum over a cohort
	constant                  // the sum is divided by a public constant
	owned                     // each device added all of the noise itself
)

var factNames = []struct {
	fact    fact
	missing string // what to add
}{
	{bounded, "a clipping bound (clip)"},
	{counted, "a clipping bound on everything that is sent"},
	{integral, "integers (quantise)"},
	{covered, "every row (cover=dense)"},
	{noised, "noise"},
	{shared, "a share of noise on the device"},
	{masked, "secure aggregation (--secagg on)"},
	{summed, "the sum over a cohort"},
	{constant, "division by a public constant (mean=fixed)"},
	{owned, "the device's own noise"},
}

// stage is one step between a device's update and a release.
type stage struct {
	name     string
	where    string // device or coordinator
	needs    fact   // facts that must hold before it
	excludes fact   // facts that must not hold before it, such as earlier noise
	gives    fact
}

// All stages.
var (
	stageRowClip  = stage{name: "row-clip", where: "device"}
	stageClip     = stage{name: "clip", where: "device", excludes: noised | shared | summed, gives: bounded | counted}
	stageQuantise = stage{
		name: "quantise", where: "device", needs: bounded, excludes: noised | shared,
		gives: integral,
	}
	stageDense      = stage{name: "cover", where: "device", excludes: summed, gives: covered}
	stageNoiseShare = stage{
		name: "noise share", where: "device", needs: bounded | counted | integral | covered,
		excludes: noised | shared | summed, gives: shared,
	}
	stageMask     = stage{name: "mask", where: "device", needs: integral | covered, excludes: summed, gives: masked}
	stageOwnNoise = stage{
		name: "noise", where: "device", needs: bounded | counted | integral | covered,
		excludes: noised | shared | summed, gives: noised | owned,
	}
	stageSum   = stage{name: "sum", where: "coordinator", gives: summed}
	stageNoise = stage{
		name: "noise", where: "coordinator", needs: bounded | counted | integral | summed,
		excludes: noised | shared, gives: noised,
	}
	stageDivide = stage{name: "divide", where: "coordinator", needs: summed, gives: constant}
)

// checkStages walks through the stages and reports the first missing or repeated fact. At
// the end, the release must have the facts that the trust model requires.
func checkStages(t Trust, stages ...stage) error {
	var has fact
	for _, s := range stages {
		if lack := s.needs &^ has; lack != 0 {
			return fmt.Errorf("invalid privacy stack: %s requires %s first", s.name, missing(lack))
		}
		if twice := s.excludes & has; twice != 0 {
			return fmt.Errorf("invalid privacy stack: %s after %s would count noise twice or void the "+
				"guarantee", s.name, missing(twice))
		}
		has |= s.gives
	}
	want := bounded | counted | noised | summed | constant
	switch t {
	case Distributed:
		want = want&^noised | shared | masked | covered
	case Local:
		want |= covered | owned
	}
	if lack := want &^ has; lack != 0 {
		return fmt.Errorf("invalid privacy stack: trust=%s requires %s", t, missing(lack))
	}
	return nil
}

// Steps lists the names of the stages on the device and on the coordinator, in order.
func (k *Stack) Steps() (device, coordinator []string) {
	for _, s := range k.stageList {
		if s.where == "device" {
			device = append(device, s.name)
		} else {
			coordinator = append(coordinator, s.name)
		}
	}
	return device, coordinator
}

func missing(f fact) string {
	var out []string
	for _, n := range factNames {
		if f&n.fact != 0 {
			out = append(out, n.missing)
		}
	}
	return strings.Join(out, " and ")
}
