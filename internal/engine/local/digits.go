package local

import (
	"github.com/tacit-rec/tacit/privacy"
)

// In narrow sums every integer of an update is at most layout.most in magnitude, and a number
// is one or more of them: the digits of an integer in base 2 most + 1, the highest first. Few
// bits suffice if most is small, but a slot that needs more precision then needs more digits.

// maxLevels is the largest Slot.Levels.
const maxLevels = 1 << 20

// manyDevices is the number of devices for which Slot.Levels is enough. In fewer devices rounding averages out
// less, and they have more levels in proportion: their sums have the same width.
const manyDevices = 1024

// maxDigits is the largest number of digits of a number.
const maxDigits = 6

// base is the weight of a digit relative to the next one.
func (l *layout) base() int64 { return 2*l.most + 1 }

// levels is the integer that encodes the range of a slot.
func (l *layout) levels(slot int) int64 { return levelsOf(l.most, l.digits[slot]) }

// levelsOf is the largest integer with that many digits, or 2^61 if it exceeds that.
func levelsOf(most int64, digits int) int64 {
	base, all := 2*most+1, int64(1)
	for range digits {
		if all > (1<<62)/base {
			return 1 << 61
		}
		all *= base
	}
	return (all - 1) / 2
}

// chooseDigits sets the largest integer and the digits of each slot of a layout whose sent slots
// are known. Slots that declare Levels are encoded as coarsely as they allow, if the update
// becomes shorter. The choice depends on the plan only, so that coordinator and devices agree.
func (p *Plan) chooseDigits(l *layout) {
	best := p.setDigits(l, p.most)
	if p.most == 0 || !p.declaresLevels(l) {
		return
	}
	chosen := p.most
	for i, at := range l.at {
		for digits := 1; at >= 0 && digits <= maxDigits; digits++ {
			most := p.smallest(p.precision(i), digits)
			if most == 0 {
				continue
			}
			if size := p.setDigits(l, most); size > 0 && (size < best || size == best && most > chosen) {
				best, chosen = size, most
			}
		}
	}
	p.setDigits(l, chosen)
}

// declaresLevels reports whether a sent slot needs less precision than the run's bits allow.
func (p *Plan) declaresLevels(l *layout) bool {
	for i, at := range l.at {
		if at >= 0 && p.precision(i) < p.most {
			return true
		}
	}
	return false
}

// precision is the largest integer that a number of a slot must be able to become.
func (p *Plan) precision(slot int) int64 {
	s := &p.Slots[slot]
	switch {
	case s.HighPrecision:
		return levelsOf(p.most, 2)
	case s.Levels > 0:
		levels := int64(s.Levels)
		if users := int64(p.Users); users > 0 && users < manyDevices {
			levels = (levels*manyDevices + users - 1) / users
		}
		return min(levels, p.most)
	}
	return p.most
}

// smallest returns the smallest integer below p.most with which that many digits have the
// precision; 0 if no such integer exists.
func (p *Plan) smallest(precision int64, digits int) int64 {
	low, high := int64(1), p.most
	for low < high {
		if mid := (low + high) / 2; levelsOf(mid, digits) >= precision {
			high = mid
		} else {
			low = mid + 1
		}
	}
	if low >= p.most {
		return 0
	}
	return low
}

// setDigits sets the largest integer of a layout and the digits that each slot then needs. It
// returns the bits of an update whose sum is over all devices, or 0 if a sum could exceed 62 bits.
func (p *Plan) setDigits(l *layout, most int64) (size int) {
	l.most = most
	width := 1
	if most > 0 {
		width = privacy.NarrowBits(p.Users, int(most))
	}
	for i, at := range l.at {
		l.digits[i] = 1
		if most == 0 || at < 0 {
			continue
		}
		for l.digits[i] < maxDigits && levelsOf(most, l.digits[i]) < p.precision(i) {
			l.digits[i]++
		}
		if most < p.most && l.levels(i) > (1<<62)/int64(max(p.Users, 1)) || l.levels(i) < p.precision(i) {
			return 0
		}
		size += p.Slots[i].Rows * p.Slots[i].Dim * l.digits[i] * width
	}
	return size
}
