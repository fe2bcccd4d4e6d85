package privacy

import (
	"fmt"
	"math"
	mathbits "math/bits"

	"github.com/tacit-rec/tacit/privacy/secagg"
)

// Draft is the update of one device before anybody sees it: rows of numbers, and
// where each stands in the flat vector that is summed. Whatever travels beside the
// rows (a decay of all of them, say) is in the rows, or is a row.
type Draft struct {
	Rows [][]float32
	At   []int
	// Places has, of a row whose numbers do not follow one another, where each stands,
	// counted from At; they ascend. Of any other row it has nil, or nothing.
	Places [][]uint32
	// BitAt is the place of the clipping bit, where one is asked for.
	BitAt int
}

// Bound is what a coordinator tells the devices of a round: how long an update may
// be, and how numbers become integers. A device obeys it before anything leaves it.
type Bound struct {
	Clip   float64 // the longest that an update may be
	L1     bool    // length is the sum of magnitudes, not the Euclidean norm
	Row    float64 // the longest that one row may be, before the whole is bounded; 0 for no such bound
	Levels float64 // integers per Clip
	Bit    bool    // say whether the update was within Clip
	Late   bool    // the bit is taken after clipping, as the PrivRec paper prints it: it is then always 1
	// Most, if not 0, is the integer that the reach of a slot becomes, and the largest that a
	// device sends: each slot has a scale of its own, and nothing else of the bound applies.
	Most int64
}

// Narrow is the bound of sums that nobody's privacy rests on and that fit in so many bits:
// a number is cut at the reach of its slot, which becomes the largest integer of which
// so many devices cannot make a sum of 2^(bits-1). With fewer than NarrowLeast of them a
// number is mostly the draw that rounds it, and a model of such sums is none.
func Narrow(devices, bits int) (Bound, error) {
	if bits < 2 || bits > secagg.MaxBits {
		return Bound{}, fmt.Errorf("privacy: sums of %d bits: want 2 to %d", bits, secagg.MaxBits)
	}
	most := (int64(1)<<(bits-1) - 1) / int64(max(devices, 1))
	if most < NarrowLeast {
		return Bound{}, fmt.Errorf("privacy: sums of %d bits leave each of %d devices %d levels: want %d bits or "+
			"more for %d levels, or better %d bits for %d", bits, devices, most,
			NarrowBits(devices, NarrowLeast), NarrowLeast, NarrowBits(devices, NarrowGood), NarrowGood)
	}
	return Bound{Most: most}, nil
}

// Levels of a narrow sum: without the least it is refused; with the good number results are
// those of sums without a limit. ADR 0012 has what was measured.
const (
	NarrowLeast = 16
	NarrowGood  = 256
)

// NarrowBits is how many bits a sum of so many devices needs for so many levels.
func NarrowBits(devices, levels int) int { return mathbits.Len(uint(devices)*uint(levels)) + 1 }

// Integers is the bound of sums that nobody's privacy rests on: wide enough for any
// honest update, as fine as float32 where so many devices allow it, and such that
// their sum fits in 63 bits.
func Integers(devices int) Bound {
	const wide, fine = 20, 24
	return Bound{Clip: 1 << wide, Levels: math.Ldexp(1, min(wide+fine, 62-mathbits.Len(uint(max(devices, 1)))))}
}

// BitLevels is the integer that a whole clipping bit becomes; half of it is taken
// off, so that one device moves the sum by half a bit.
const BitLevels = 1 << 10

// below is a little less than 1, by more than a sum of ten million squares can be off:
// rounding must not let an update be longer than it may.
const below = 1 - 1e-9

// Add lists a row in a draft.
func (d *Draft) Add(row []float32, at int, places []uint32) {
	d.Rows, d.At, d.Places = append(d.Rows, row), append(d.At, at), append(d.Places, places)
}

// Reset empties a draft.
func (d *Draft) Reset() { d.Rows, d.At, d.Places = d.Rows[:0], d.At[:0], d.Places[:0] }

// Seal bounds a draft and adds it to the flat sum as integers. The draft's rows stay
// as they are. Its integer length is at most Sensitivity, whatever the draft
// holds: one that is not finite counts as zero, and is told.
func (b *Bound) Seal(d *Draft, sum []int64) (norm float64, finite bool) {
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
		within := norm <= b.Clip || b.Late
		sum[d.BitAt] -= BitLevels / 2
		if within {
			sum[d.BitAt] += BitLevels
		}
	}
	return norm, finite
}

// length is the length of a draft after its rows are bounded.
func (b *Bound) length(d *Draft) float64 {
	total := 0.0
	for _, row := range d.Rows {
		n := b.of(row)
		if n-n != 0 {
			return math.NaN() // no bound on the row may hide it
		}
		if b.Row > 0 {
			n = min(n, b.Row)
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

func (b *Bound) add(d *Draft, scale float64, sum []int64) {
	unit := b.Levels / b.Clip * scale
	for r, row := range d.Rows {
		u := unit
		if b.Row > 0 {
			if n := b.of(row); n > b.Row {
				u *= b.Row / n * below
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

// Sensitivity is the longest that the integers of one device can be, of numbers so
// many: the levels, and what rounding can add.
func (b *Bound) Sensitivity(numbers int) float64 {
	if b.L1 {
		return b.Levels + float64(numbers)/2
	}
	return b.Levels + math.Sqrt(float64(numbers))/2
}

// Unit is what an integer is worth; 0 where each slot has a unit of its own.
func (b *Bound) Unit() float64 {
	if b.Most > 0 {
		return 0
	}
	return b.Clip / b.Levels
}
