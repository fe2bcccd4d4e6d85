package local

import (
	"errors"
	"slices"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// layout says where each slot has its integers in an encoded update, and how large they are.
type layout struct {
	at      []int // by slot; -1 for one that is not sent
	numbers int
	most    int64 // largest integer in narrow sums; 0 if sums are wide
	digits  []int // by slot: the integers that encode one number
}

// layOut gives each slot that a phase sends its offset in the update.
func (p *Plan) layOut() error {
	if err := p.limitIntegers(); err != nil {
		return err
	}
	phases := 1
	if p.sent != nil {
		for t := range p.Rounds {
			phases = max(phases, p.Phase(t)+1)
		}
	}
	p.transfers = make([][]bool, phases)
	for phase := range phases {
		for i := range p.Slots {
			p.transfers[phase] = append(p.transfers[phase], p.sent == nil || p.sent.Transfers(phase, i))
		}
		l := layout{most: p.most, digits: make([]int, len(p.Slots))}
		for i := range p.Slots {
			l.at = append(l.at, -1)
			if isSent(&p.Slots[i]) && p.IsSent(phase, i) {
				l.at[i] = 0
			}
		}
		p.chooseDigits(&l)
		for i, at := range l.at {
			if at == 0 {
				l.at[i] = l.numbers
				l.numbers += p.Slots[i].Rows * p.Slots[i].Dim * l.digits[i]
			}
		}
		p.layouts = append(p.layouts, l)
	}
	return nil
}

// limitIntegers finds the largest integer of an update if sums are narrow: if their bits
// are set, and the method declares the range of every slot that it sends.
func (p *Plan) limitIntegers() error {
	unknown := func(i int) bool { return !(p.Slots[i].Range > 0) }
	if p.Bits == 0 || slices.ContainsFunc(p.SentSlots(), unknown) {
		return nil
	}
	b, err := privacy.NarrowBound(p.Users, p.Bits)
	p.most = b.MaxInteger
	return err
}

func (p *Plan) layout(phase int) *layout {
	if p.sent == nil {
		phase = 0
	}
	return &p.layouts[phase]
}

// UpdateLength is the number of integers in an update of a round, from 0, without the
// clipping bit.
func (p *Plan) UpdateLength(round int) int { return p.layout(p.Phase(round)).numbers }

// MaxUpdateLength is the largest UpdateLength of any round.
func (p *Plan) MaxUpdateLength() (n int) {
	for i := range p.layouts {
		n = max(n, p.layouts[i].numbers)
	}
	return n
}

// IntegersOf returns where a slot's integers begin in an update of a round, from 0, and how many of them encode a
// number: all first ones, then all second ones. A slot that the round does not send begins at -1.
func (p *Plan) IntegersOf(round, slot int) (first, each int) {
	l := p.layout(p.Phase(round))
	return l.at[slot], l.digits[slot]
}

// MaxInteger is the largest integer that the run's bits allow in narrow sums; 0 if sums are wide.
func (p *Plan) MaxInteger() int64 { return p.most }

// RoundMaxInteger is the largest integer of an update of a round, from 0, in narrow sums; 0 if
// sums are wide.
func (p *Plan) RoundMaxInteger(round int) int64 { return p.layout(p.Phase(round)).most }

// Bound is the bound of integer sums over that many devices without a privacy guarantee. In
// narrow sums it is that of the round with the largest integers: see RoundMaxInteger.
func (p *Plan) Bound(devices int) privacy.Bound {
	if p.most > 0 {
		return privacy.Bound{MaxInteger: p.most}
	}
	return privacy.WideBound(devices)
}

// CheckMaskable reports why updates cannot be masked without differential privacy.
func (p *Plan) CheckMaskable() error {
	if p.most > 0 {
		return nil
	}
	if p.Bits == 0 {
		return errors.New("secure aggregation without dp requires a fixed number of bits: use bits=24, or add " +
			"--dp epsilon=8")
	}
	return errors.New("secure aggregation requires a bound on each number, and this method does not declare the " +
		"range of its numbers: add --dp epsilon=8, use a method that does (tacit, gru4rec, ials), or omit --secagg")
}

// Decode writes the numbers of a slot in a round's sum of updates to padded rows; zeros if
// the round does not send the slot. In narrow sums each slot has its own unit.
func (p *Plan) Decode(round, slot int, sum []int64, unit float64, dst []float32) {
	s, l := &p.Slots[slot], p.layout(p.Phase(round))
	from := l.at[slot]
	if from < 0 {
		clear(dst)
		return
	}
	stride, size := vec.Pad(s.Dim), s.Rows*s.Dim
	if l.most > 0 {
		unit = s.Range / float64(l.levels(slot))
	}
	digits, base := l.digits[slot], l.base()
	for r := range s.Rows {
		row := dst[r*stride : r*stride+s.Dim]
		for i := range row {
			at := from + r*s.Dim + i
			x := sum[at]
			for d := 1; d < digits; d++ {
				x = x*base + sum[at+d*size]
			}
			row[i] = float32(float64(x) * unit)
		}
	}
}

// RoundShares returns the length of each round's update and its share of the privacy budget;
// nil if all rounds are alike. weighted reports whether the method decides the shares.
func (p *Plan) RoundShares() (shares []privacy.RoundShare, weighted bool) {
	m, weighted := method.As[method.BudgetWeighter](p.Method)
	if p.sent == nil && !weighted {
		return nil, false
	}
	shares = make([]privacy.RoundShare, p.Rounds)
	for t := range shares {
		shares[t] = privacy.RoundShare{Numbers: p.UpdateLength(t), Share: 1}
		if weighted {
			shares[t].Share = m.BudgetWeight(t, p.Rounds)
		}
	}
	return shares, weighted
}
