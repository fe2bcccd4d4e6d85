package privacy

import (
	"fmt"
	"math"
	mathbits "math/bits"

	"github.com/tacit-rec/tacit/privacy/secagg"
)

// Delta is one device's local change before it is encoded: rows of numbers and their
// offsets in the flat vector that is summed. Everything that is sent, such as the decay of
// a whole table, is part of a row or a row itself.
type Delta struct {
	Rows [][]float32
	At   []int
	// Places holds, for a row whose numbers are not contiguous, the ascending offset of each
	// number from At; nil or absent for other rows.
	Places [][]uint32
	// BitAt is the offset of the clipping bit, if Bound.Bit is set.
	BitAt int
}

// Bound is what every device of a round enforces before anything leaves it: the largest
// norm of an update, and how numbers become integers.
type Bound struct {
	Clip         float64 // largest norm of an update
	L1           bool    // use the L1 norm instead of the Euclidean norm
	RowClip      float64 // largest norm of one row, applied before Clip; 0 for none
	Levels       float64 // integers per Clip
	Bit          bool    // send whether the update was within Clip
	BitAfterClip bool    // compute the bit after clipping, as printed in PrivRec: it is then always 1
	// MaxInteger, if not 0, is the largest integer that a device sends: it encodes the range
	// of a slot, each slot has its own scale, and no other field of the bound applies.
	MaxInteger int64
}

// NarrowBound is the bound of sums without a privacy guarantee that fit in the given number
// of bits. A number is truncated at the range of its slot, which maps to the largest integer
// whose sum over all devices stays below 2^(bits-1). Below minNarrowLevels levels, rounding
// noise dominates and the model is useless, so NarrowBound refuses.
func NarrowBound(devices, bits int) (Bound, error) {
	if bits < 2 || bits > secagg.MaxBits {
		return Bound{}, fmt.Errorf("sums of %d bits: must be 2 to %d", bits, secagg.MaxBits)
	}
	most := (int64(1)<<(bits-1) - 1) / int64(max(devices, 1))
	if most < minNarrowLevels {
		return Bound{}, fmt.Errorf("sums of %d bits leave each of %d devices %d levels; use at least %d bits "+
			"for %d levels, or better %d bits for %d", bits, devices, most,
			NarrowBits(devices, minNarrowLevels), minNarrowLevels, NarrowBits(devices, GoodNarrowLevels),
			GoodNarrowLevels)
	}
	return Bound{MaxInteger: most}, nil
}

// Levels of a narrow sum: fewer than minNarrowLevels are refused; with GoodNarrowLevels
// results match those of wide sums (docs/adr has the measurement).
const (
	minNarrowLevels  = 16
	GoodNarrowLevels = 256
)

// NarrowBits is the number of bits that a sum over devices needs for a number of levels.
func NarrowBits(devices, levels int) int { return mathbits.Len(uint(devices)*uint(levels)) + 1 }

// WideBound is the bound of sums without a privacy guarantee: wide enough for any honest
// update, as fine as float32 if the number of devices allows it, and such that the sum
// fits in 63 bits.
func WideBound(devices int) Bound {
	const wide, fine = 20, 24
	return Bound{Clip: 1 << wide, Levels: math.Ldexp(1, min(wide+fine, 62-mathbits.Len(uint(max(devices, 1)))))}
}

// BitLevels is the integer that encodes a clipping bit of 1. Half of it is subtracted, so
// one device moves the sum by half a bit.
const BitLevels = 1 << 10

// below is less than 1 by more than the rounding error of a sum of ten million squares, so
// rounding never lets an update exceed its bound.
const below = 1 - 1e-9

// Add appends a row.
func (d *Delta) Add(row []float32, at int, places []uint32) {
	d.Rows, d.At, d.Places = append(d.Rows, row), append(d.At, at), append(d.Places, places)
}

// Reset removes all rows.
func (d *Delta) Reset() { d.Rows, d.At, d.Places = d.Rows[:0], d.At[:0], d.Places[:0] }

// Encode clips a delta and adds it to a flat sum as integers, without changing the delta.
// The norm of what it adds is at most Sensitivity, whatever the delta holds: a delta that
// is not finite counts as zero, and Encode reports it.
func (b *Bound) Encode(d *Delta, sum []int64) (norm float64, finite bool) {
	norm = b.length(d)
	if finite = norm-norm == 0; !finite {
		norm = math.Inf(1)
	}
	scale := 1.0
	if norm > b.Clip*below {
		scale = b.Clip / norm * below
	}
	if finite && scale > 0 {
		b.add(d, scale, sum)
	}
	if b.Bit {
		within := norm <= b.Clip || b.BitAfterClip
		sum[d.BitAt] -= BitLevels / 2
		if within {
			sum[d.BitAt] += BitLevels
		}
	}
	return norm, finite
}

// length is the norm of a delta after its rows are clipped.
func (b *Bound) length(d *Delta) float64 {
	total := 0.0
	for _, row := range d.Rows {
		n := b.of(row)
		if n-n != 0 {
			return math.NaN() // clipping the row must not hide it
		}
		if b.RowClip > 0 {
			n = min(n, b.RowClip)
		}
		total += b.raise(n)
	}
	if b.L1 {
		return total
	}
	return math.Sqrt(total)
}

func (b *Bound) raise(x float64) float64 {
	if b.L1 {
		return x
	}
	return float64(x * x)
}

func (b *Bound) of(row []float32) float64 {
	n := 0.0
	if b.L1 {
		for _, v := range row {
			n += math.Abs(float64(v))
		}
		return n
	}
	for _, v := range row {
		x := float64(v)
		n += float64(x * x)
	}
	return math.Sqrt(n)
}

func (b *Bound) add(d *Delta, scale float64, sum []int64) {
	unit := b.Levels / b.Clip * scale
	for r, row := range d.Rows {
		u := unit
		if b.RowClip > 0 {
			if n := b.of(row); n > b.RowClip {
				u *= b.RowClip / n * below
			}
		}
		if r < len(d.Places) && d.Places[r] != nil {
			places := d.Places[r]
			for i, v := range row {
				sum[d.At[r]+int(places[i])] += int64(math.RoundToEven(float64(u * float64(v))))
			}
			continue
		}
		dst := sum[d.At[r] : d.At[r]+len(row)]
		for i, v := range row {
			dst[i] += int64(math.RoundToEven(float64(u * float64(v))))
		}
	}
}

// Sensitivity is the largest norm of one device's integers: the levels plus what rounding
// can add over the given number of numbers.
func (b *Bound) Sensitivity(numbers int) float64 {
	if b.L1 {
		return b.Levels + float64(float64(numbers)/2)
	}
	return b.Levels + float64(math.Sqrt(float64(numbers))/2)
}

// Unit is the value of one integer step; 0 if each slot has its own unit.
func (b *Bound) Unit() float64 {
	if b.MaxInteger > 0 {
		return 0
	}
	return b.Clip / b.Levels
}
