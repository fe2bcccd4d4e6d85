// Package local is the on-device runtime: it draws a device's samples, resolves
// them to rows, runs a method's visit and scores items. It holds no transport and
// no evaluation, and builds for js/wasm as it is. In simulation many devices
// share one Memory; a real device has one of its own.
package local

import (
	"errors"
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// Options are what a run fixes for all its devices.
type Options struct {
	Items     int
	Users     int // of the federation; only a Central method must know
	Rounds    int
	Batch     int
	Negatives int // per positive
	Seed      uint64
	// DeviceSeed, if not 0, is the seed of what devices draw, and Seed that of the starting
	// values alone: on a real device nobody else may know which negatives it drew.
	DeviceSeed   uint64
	Features     *rows.Features // what a Featured method reads; others do without
	SingleDevice bool           // the columns of users are about the one device that there is, at place 0
	Dense        bool           // an update holds every row: noise hides which were touched
	Integers     bool           // updates are bounded, and summed as integers
	// of sums without a promise, where the method says how large its numbers are; 0 for all there is room for
	Bits   int
	Cover  privacy.Cover  // which rows hide the touched ones, where not all do
	Sparse bool           // zeros are left out of what travels, where that is less
	Keep   rows.Precision // how a device keeps its private tables between visits
	// Plain copies every row and fuses nothing: the oracle of the fast path.
	Plain bool
}

// Plan is a method on a catalogue: everything that all devices have in common.
type Plan struct {
	Options
	Method  method.Method
	Visit   method.Visit
	Slots   []method.Slot // the method's own, then those of its parts
	head    *method.Head
	ready   *method.Visit
	phased  method.Phased
	travels method.PhasedSlots
	central bool
	width   []int    // floats of a plain slot, by slot
	at      []int    // place of a Private plain slot in State.Plain
	plain   int      // floats of State.Plain
	tables  []int    // the Private PerItem slots
	copied  int      // PerItem slots whose rows a visit may change
	context bool     // samples have a row of their interaction
	most    int64    // the largest integer of an update in narrow sums; 0 where they are wide
	flat    []layout // of an update's flat vector, by phase; one for all where everything travels always
}

// NewPlan checks a method's slots and lays out its state.
func NewPlan(m method.Method, opt Options) (*Plan, error) {
	m, err := bind(m, &opt)
	if err != nil {
		return nil, err
	}
	p := &Plan{Options: opt, Method: m, Visit: m.Visit(opt.Items), Slots: m.Slots(opt.Items)}
	for _, s := range p.Visit.Parts {
		own := s.State(p.Slots)
		s.Bind(len(p.Slots))
		p.Slots = append(p.Slots, own...)
	}
	if len(p.Slots) > method.MaxSlots {
		return nil, fmt.Errorf("device: %d slots, at most %d are possible", len(p.Slots), method.MaxSlots)
	}
	_, p.central = method.As[method.Central](m)
	p.width, p.at = make([]int, len(p.Slots)), make([]int, len(p.Slots))
	for i := range p.Slots {
		s := &p.Slots[i]
		if s.PerItem {
			s.Rows = opt.Items
		}
		if s.PerUser {
			s.Rows = opt.Users
		}
		if err := p.check(s); err != nil {
			return nil, err
		}
		p.width[i] = s.Rows * vec.Pad(s.Dim)
		if s.PerItem && s.Copied() {
			p.copied++
		}
		switch {
		case s.Scope != method.Private:
		case s.PerItem:
			p.tables = append(p.tables, i)
		default:
			p.at[i] = p.plain
			p.plain += p.width[i]
		}
	}
	if h, ok := method.As[method.Headed](m); ok {
		if head := h.Head(); head != nil && p.Slots[head.Item].Scope != method.Private {
			p.head = head
		}
	}
	if r, ok := method.As[method.Ready](m); ok {
		v := r.Ready(opt.Items)
		if len(v.Parts) > 0 {
			return nil, errors.New("device: what makes a device ready to recommend keeps no state: it has no parts")
		}
		p.ready = &v
	}
	p.phased, _ = method.As[method.Phased](m)
	p.travels, _ = method.As[method.PhasedSlots](m)
	if err := p.narrow(); err != nil {
		return nil, err
	}
	p.flatten()
	p.context = opt.Features != nil && len(opt.Features.Row) > 0
	return p, nil
}

// layout is where slots stand in the flat vector of an update.
type layout struct {
	at      []int // by slot; -1 for one that is not sent
	numbers int
}

// flatten gives each slot that a phase sends its place in the flat vector of an update.
func (p *Plan) flatten() {
	phases := 1
	for t := 0; p.travels != nil && t < p.Rounds; t++ {
		phases = max(phases, p.Phase(t)+1)
	}
	for phase := range phases {
		var l layout
		for i := range p.Slots {
			if l.at = append(l.at, -1); uploads(&p.Slots[i]) && p.IsSent(phase, i) {
				l.at[i] = l.numbers
				l.numbers += p.Slots[i].Rows * p.Slots[i].Dim * p.digits(i)
			}
		}
		p.flat = append(p.flat, l)
	}
}

// layout is that of a phase.
func (p *Plan) layout(phase int) *layout {
	if p.travels == nil {
		phase = 0
	}
	return &p.flat[phase]
}

// check says what of a slot does not fit the method.
func (p *Plan) check(s *method.Slot) error {
	_, updates := method.As[method.Updater](p.Method)
	switch {
	case p.central && s.Scope != method.Server || s.PerUser && !p.central:
		return fmt.Errorf("device: slot %q: a method that is trained in one place has Server slots only, and no "+
			"other has a row per user", s.Name)
	case s.Rows <= 0 || s.Dim <= 0:
		return fmt.Errorf("device: slot %q has %d rows of %d", s.Name, s.Rows, s.Dim)
	case s.Sparse && (s.Scope != method.Shared || s.Upload != method.Sum || s.PerItem || s.Rows != 1):
		return fmt.Errorf("device: slot %q: only a plain sum of one row is sparse", s.Name)
	case s.Upload == method.Gradient && !updates:
		return fmt.Errorf("device: slot %q: its gradient is sent, and the method has no Update to take it", s.Name)
	case s.PerItem && s.Copied() && p.Visit.HistoryOnly:
		return fmt.Errorf("device: slot %q: a visit of the history alone changes no rows; make it a sum, or send "+
			"nothing of it", s.Name)
	}
	return nil
}

// Direct reports whether rows touched once are left where they are. Beside a
// second table they are not: its rows are named by the positions of copies.
func (p *Plan) Direct() bool {
	return p.Visit.InPlace && p.head != nil && p.copied == 1 && p.ready == nil && !p.Plain
}

// PreparesScoring reports whether the method gets ready before it recommends.
func (p *Plan) PreparesScoring() bool { return p.ready != nil }

// Central reports whether the method is trained in one place.
func (p *Plan) Central() bool { return p.central }

// HasHead reports whether the method scores by a bilinear head on a shared table.
func (p *Plan) HasHead() bool { return p.head != nil }

// Serves reports whether the method recommends with a slot served as s.
func (p *Plan) Serves(s method.Serving) bool {
	for i := range p.Slots {
		if p.Slots[i].Scope == method.Shared && p.Slots[i].Serve == s && p.Slots[i].Copied() {
			return true
		}
	}
	return false
}

// Phase returns the phase of a round.
func (p *Plan) Phase(round int) int {
	if p.phased == nil {
		return 0
	}
	n, _ := p.phased.Phase(round, p.Rounds)
	return n
}

// draws is the seed of what devices draw.
func (p *Plan) draws() uint64 {
	if p.DeviceSeed != 0 {
		return p.DeviceSeed
	}
	return p.Seed
}

// Fill gives a slot its starting values, the same for every device of a seed.
func (p *Plan) Fill(slot int, dst []float32) {
	s := &p.Slots[slot]
	stride := vec.Pad(s.Dim)
	r := rng.New(p.Seed, rng.Init, uint64(slot))
	for i := range s.Rows {
		row := dst[i*stride : i*stride+stride]
		for k := range s.Dim {
			switch s.Init.Kind {
			case method.Zeros:
				row[k] = 0
			case method.Constant:
				row[k] = float32(s.Init.A)
			case method.Normal:
				row[k] = float32(s.Init.A * r.Norm())
			case method.Uniform:
				row[k] = float32(s.Init.A * (2*r.Float64() - 1))
			}
		}
		clear(row[s.Dim:])
	}
}

// IsSent reports whether a Shared slot travels in a phase.
func (p *Plan) IsSent(phase, slot int) bool {
	return p.travels == nil || p.travels.Transfers(phase, slot)
}

// BytesDown is what a device downloads in a round, from 0: every Shared slot that is
// not a sum, as float32.
func (p *Plan) BytesDown(round int) int {
	n, phase := 0, p.Phase(round)
	for i := range p.Slots {
		if s := &p.Slots[i]; s.Scope == method.Shared && s.Upload != method.Sum && p.IsSent(phase, i) {
			n += 4 * s.Rows * s.Dim
		}
	}
	return n
}

// MeanBytesDown is that of the first so many rounds.
func (p *Plan) MeanBytesDown(rounds int) float64 {
	n := 0
	for t := range rounds {
		n += p.BytesDown(t)
	}
	return float64(n) / float64(max(rounds, 1))
}

// MaxBytesUp is the most that an update can weigh: every row of every slot that
// is sent.
func (p *Plan) MaxBytesUp() int {
	if len(p.SentSlots()) == 0 {
		return 0
	}
	most := 0
	if p.most > 0 {
		return ((p.MaxUpdateLength()+1)*p.Bits + 7) / 8
	}
	for t := range p.Rounds {
		if t > 0 && p.travels == nil {
			break
		}
		n, phase := (&rows.Update{}).Size(), p.Phase(t)
		for _, i := range p.SentSlots() {
			if p.IsSent(phase, i) {
				n += rows.PartSize(p.Slots[i].Rows*p.Slots[i].Dim, 0)
			}
		}
		most = max(most, n)
	}
	return most
}

// Sizes counts the numbers that all devices share, and those that each has for
// itself (a private table counts in full).
func (p *Plan) Sizes() (shared, private int) {
	for i := range p.Slots {
		switch s := &p.Slots[i]; {
		case s.Scope == method.Shared && s.Upload != method.Sum:
			shared += s.Rows * s.Dim
		case s.Scope == method.Private:
			private += s.Rows * s.Dim
		}
	}
	return shared, private
}

// TableBytes is what the private tables of a device take at most.
func (p *Plan) TableBytes() (n int) {
	for k := range p.tables {
		n += p.Items * (4 + p.Keep.RowBytes(p.TableStride(k)))
	}
	return n
}

// MaxSamples is the largest sample a device with n interactions can have.
func (p *Plan) MaxSamples(n int) int { return n * (1 + p.Negatives) }

const maxItems = math.MaxInt32 / 4
