package sequence

import (
	"math"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Features computes item features from sums over all devices, in three passes. They are factors of two item-item
// matrices that no device and no server ever holds:
//
//   - follows[i, j] is the sum of .8^(g-1) / sqrt(r(i) r(j)) over all pairs in which j comes g places after i, g = 1 to
//     20, and r is how often an item occurs in the device's history; a device adds at most 5 to each row and column
//     sum, and divides all its pairs by a number if they would add more;
//   - together[i, j] is the sum of 1/sqrt(n) over the devices that have both i and j and n items in all.
//
// Each entry is divided by sqrt((row sum + 50)(column sum + 50)). With the best factors of a rank r, U S V', an
// item's features are its rows of U sqrt(S) and V sqrt(S) of follows and of U sqrt(S) of together. Each part is
// divided by its standard deviation, and the row scaled to the length sqrt(3r).
//
// A randomised range finder needs only products of the matrices with few columns (Halko et al. 2011). In the
// first pass devices send row and column sums. In the second one they multiply their share of both matrices by
// random columns, and the server makes the columns of the sums an orthonormal basis. In the third one they
// multiply by that basis, and the server computes the factors. A device adds only to the rows of its own items.
type Features struct {
	First int // index of its first slot
	Rank  int // r; at most one per item
	Few   int // items that fewer devices have get a row of zeros
}

// FeaturePasses is the number of passes that Features needs.
const FeaturePasses = 3

// The slots of Features, relative to its First.
const (
	featureTable  = iota // broadcast: 3r features of each item
	featureCounts        // server: number of devices that have an item; 0 if they are too few
	featureProbe         // broadcast: columns that the matrices are multiplied by, follows first
	featureSums          // sum, in the first pass: see the columns below
	featureRows          // sum, in later passes: products with the probe
	featureTotal         // server: featureSums of a pass
	featureGather        // server: featureRows of a pass
	featureState         // server: number of reports in the sums of the pass; what columns of the probe were divided by
	featureSlots         // their number
)

// Columns of featureSums.
const (
	sumDevices  = iota // 1 for each device that has the item
	sumBefore          // row sum of follows, divided by followsRange
	sumAfter           // column sum of follows, divided by followsRange
	sumTogether        // row sum of together, divided by togetherRange
	sumColumns
)

// sumRanges is the largest number that a device adds to each column of featureSums before it is divided. All are then
// at most 1, so that a device that lies has as little weight as possible in each.
var sumRanges = [sumColumns]float32{
	sumDevices: 1, sumBefore: followsRange, sumAfter: followsRange, sumTogether: togetherRange,
}

const (
	gaps      = 20
	gapDecay  = 0.8
	smoothing = 50 // added to row and column sums
	excess    = 16 // columns of the probe beyond the rank
	rowLevels = 127

	// followsRange bounds row sums of follows of one device, 1 + .8 + .8² + ..., and their products with the probe,
	// whose numbers are at most 1. Products of together are smaller on all data that we know.
	followsRange = 5
	// togetherRange is the row sum of a device with about 4,000 items; devices with more are clipped.
	togetherRange = 64
)

// columns is the number of columns that one matrix is multiplied by.
func (f *Features) columns(items int) int { return vec.Pad(min(f.Rank+excess, items)) }

// rankOf is the rank for a number of items.
func (f *Features) rankOf(items int) int { return min(f.Rank, items) }

// Width is the number of features of an item.
func (f *Features) Width(items int) int { return 3 * f.rankOf(items) }

// Table is the slot of the features: Broadcast, a row of Width numbers per item.
func (f *Features) Table() int { return f.First + featureTable }

// Counts is the server's slot of the number of devices that have an item, which is 0 if they are too few. It is
// complete after the first pass.
func (f *Features) Counts() int { return f.First + featureCounts }

// SlotCount is the number of slots.
func (f *Features) SlotCount() int { return featureSlots }

// Slots returns the slots for a catalogue.
func (f *Features) Slots(items int) []method.Slot {
	k, wide := f.columns(items), f.Width(items)
	const most = 1e12 // of sums over all devices
	return []method.Slot{
		featureTable: {
			Name: "features", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: wide,
			Limit: 16 * math.Sqrt(float64(wide)), // a row has the length sqrt(wide)
			Doc:   "features of the item: factors of who follows it, whom it follows, and what it occurs with",
		},
		featureCounts: {
			Name: "devices", Scope: method.Server, PerItem: true, Dim: 1, Limit: most,
			Doc: "number of devices that have the item, or 0 if they are few",
		},
		featureProbe: {
			Name: "probe", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: 2 * k, Limit: 16,
			Doc: "columns that devices multiply their item pairs by",
		},
		featureSums: {
			Name: "totals", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: sumColumns,
			Range: 1, HighPrecision: true,
			Doc: "1 for each item of the device, and how much it precedes, follows and occurs with other items",
		},
		featureRows: {
			Name: "products", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: 2 * k,
			Range: followsRange, Levels: rowLevels,
			Doc: "products of the device's item pairs with the probe, in the second and third pass",
		},
		featureTotal: {
			Name: "all-totals", Scope: method.Server, PerItem: true, Dim: sumColumns, Limit: most,
			Doc: "totals of all devices of the first pass",
		},
		featureGather: {
			Name: "all-products", Scope: method.Server, PerItem: true, Dim: 2 * k, Limit: most,
			Doc: "products of all devices of a pass",
		},
		featureState: {
			Name: "gathered", Scope: method.Server, Rows: 1, Dim: 2*k + 1, Limit: most,
			Doc: "number of reports in the sums of the pass, and the scale of each column of the probe",
		},
	}
}

// Transfers reports whether a slot of Features is transferred in a pass. After its own passes devices read the
// features.
func (f *Features) Transfers(pass, slot int) bool {
	switch slot - f.First {
	case featureTable:
		return pass >= FeaturePasses
	case featureSums:
		return pass == 0
	case featureProbe, featureRows:
		return pass == 1 || pass == 2
	}
	return false
}

// Updates reports whether Update may change a slot of Features in a pass.
func (f *Features) Updates(pass int, last bool, slot int) bool {
	switch slot - f.First {
	case featureState:
		return pass < FeaturePasses
	case featureTotal:
		return pass == 0
	case featureGather:
		return pass == 1 || pass == 2
	case featureCounts:
		return pass == 0 && last
	case featureProbe:
		return pass < FeaturePasses && last
	case featureTable:
		return pass == 2 && last
	}
	return false
}
