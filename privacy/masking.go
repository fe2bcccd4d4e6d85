package privacy

import "github.com/tacit-rec/tacit/privacy/secagg"

// A masked sum without noise hides a device only among the others in it.
const (
	// MinMaskedSum is the fewest devices in a masked sum without noise. Devices take
	// part in no smaller one.
	MinMaskedSum = 10
	// MinMaskedGroup is the fewest devices that start one: if a third drop out,
	// MinMaskedSum are left.
	MinMaskedGroup = 14
)

// MaskingRisk is what masked sums are planned for: the share of devices that collude
// with the coordinator, and the share that drop out.
var MaskingRisk = secagg.Risk{Corrupt: colludingShare, Dropped: 0.33}
