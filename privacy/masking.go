package privacy

import (
	"fmt"

	"github.com/tacit-rec/tacit/privacy/secagg"
)

// The coordinator sees an exact sum unless each device adds a share of the noise. Such a sum
// hides a device only among the others in it, whether or not noise is added to it later.
const (
	// MinMaskedSum is the fewest devices in an exact masked sum, of a round or of an
	// evaluation. Devices take part in no smaller one.
	MinMaskedSum = 10
	// MinMaskedGroup is the fewest devices that start one: if a third drop out,
	// MinMaskedSum are left.
	MinMaskedGroup = 14
)

// MinMasked is the fewest devices in a masked sum under the policy: MinMaskedSum, or 2 if each
// device adds a share of the noise. Then Stack.RequiredDevices decides.
func (p Policy) MinMasked() int {
	if p.Trust == Distributed {
		return 2
	}
	return MinMaskedSum
}

// CheckMaskedGroup returns an error if a masked sum must not begin with the given number of devices.
// what says where the number comes from.
func (p Policy) CheckMaskedGroup(what string, devices int) error {
	if p.Trust == Distributed || devices >= MinMaskedGroup {
		return nil
	}
	return fmt.Errorf("%s: a masked sum of %d devices: only the other devices hide a device from the coordinator, "+
		"so it must begin with at least %d, which leaves %d if a third drop out; use larger cohorts, or "+
		"trust=distributed in --dp", what, devices, MinMaskedGroup, MinMaskedSum)
}

// MaskingRisk is what masked sums are planned for: the share of devices that collude
// with the coordinator, and the share that drop out.
var MaskingRisk = secagg.Risk{Corrupt: colludingShare, Dropped: 0.33}
