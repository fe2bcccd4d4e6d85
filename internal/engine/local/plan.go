// Package local is local training on a device: it prepares the device's state, draws
// samples, runs the method's training, and encodes the resulting delta as the update that
// leaves the device. It also scores items. It knows no transport and no evaluation, and
// builds for js/wasm. In a simulation many devices share one Memory; a real device has its
// own.
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

// Options are the settings that all devices of a run share.
type Options struct {
	Items     int
	Users     int // devices of the federation
	Rounds    int
	Batch     int
	Negatives int // per positive
	Seed      uint64
	// DeviceSeed, if not 0, is the seed of everything that devices draw; Seed then decides
	// the initial values only. A real device uses a secret one, so that nobody else knows
	// which negatives it drew.
	DeviceSeed   uint64
	Features     *rows.Features // nil unless the method is Featured
	SingleDevice bool           // the user columns hold one user, at index 0
	Dense        bool           // devices send every row, so that nobody learns which were touched
	Integers     bool           // updates are encoded as integers
	// Bits is the width of integer sums without a privacy guarantee, if the method declares
	// the range of its slots; 0 for as many as fit.
	Bits int
	// SumDevices is the expected number of devices of a masked sum, for counting traffic; 0 means Users.
	SumDevices int
	Cover      privacy.Cover  // which rows are sent to hide the touched ones, if not all are
	Sparse     bool           // count traffic without zeros
	Keep       rows.Precision // of the private tables that a device stores between rounds
	// Plain copies every row and fuses nothing: the reference for the fast path.
	Plain bool
}

// Plan is a method on a catalogue: everything that its devices have in common.
type Plan struct {
	Options
	Method  method.Method
	Visit   method.Visit
	Slots   []method.Slot // the method's, then those of its parts
	head    *method.Head
	heads   []method.Head // of a Linear method
	ready   *method.Visit
	phased  method.Phased
	sent    method.PhasedSlots
	central bool
	width   []int // floats of a slot, padded
	at      []int // offset of a Private plain slot in State.Plain
	plain   int   // length of State.Plain
	tables  []int // the Private PerItem slots
	copied  int   // PerItem slots whose rows training may change
	context bool  // samples have features of their interaction
	most    int64 // largest integer of an update in narrow sums; 0 if sums are wide
	// transfers tells, by phase and slot, what the method's Transfers returns: it may be slow.
	transfers [][]bool
	layouts   []layout // of an update, by phase; one if all phases send the same slots
}

// NewPlan checks a method's slots and lays out its state.
func NewPlan(m method.Method, opt Options) (*Plan, error) {
	m, err := bind(m, &opt)
	if err != nil {
		return nil, err
	}
	p := &Plan{Options: opt, Method: m, Visit: m.Visit(opt.Items), Slots: m.Slots(opt.Items)}
	for _, part := range p.Visit.Parts {
		own := part.State(p.Slots)
		part.Bind(len(p.Slots))
		p.Slots = append(p.Slots, own...)
	}
	if len(p.Slots) > method.MaxSlots {
		return nil, fmt.Errorf("%d slots: must be at most %d", len(p.Slots), method.MaxSlots)
	}
	_, p.central = method.As[method.Central](m)
	if err := p.sizeSlots(); err != nil {
		return nil, err
	}
	if err := p.findHeads(); err != nil {
		return nil, err
	}
	if r, ok := method.As[method.Ready](m); ok {
		v := r.Ready(opt.Items)
		if len(v.Parts) > 0 {
			return nil, errors.New("the visit that Ready returns must have no parts: it keeps no state")
		}
		p.ready = &v
	}
	p.phased, _ = method.As[method.Phased](m)
	p.sent, _ = method.As[method.PhasedSlots](m)
	p.context = opt.Features != nil && len(opt.Features.Row) > 0
	return p, p.layOut()
}

// sizeSlots checks the slots and finds where each has its numbers.
func (p *Plan) sizeSlots() error {
	p.width = make([]int, len(p.Slots))
	p.at = make([]int, len(p.Slots))
	for i := range p.Slots {
		s := &p.Slots[i]
		if s.PerItem {
			s.Rows = p.Items
		}
		if s.PerUser {
			s.Rows = p.Users
		}
		if err := p.check(s); err != nil {
			return fmt.Errorf("slot %q: %w", s.Name, err)
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
	return nil
}

// check reports why a slot does not fit the method.
func (p *Plan) check(s *method.Slot) error {
	_, updates := method.As[method.Updater](p.Method)
	switch {
	case p.central && s.Scope != method.Server:
		return errors.New("a method that is trained in one place may only have Server slots")
	case s.PerUser && !p.central:
		return errors.New("only a method that is trained in one place may have a row per user")
	case s.Rows <= 0 || s.Dim <= 0:
		return fmt.Errorf("%d rows of %d numbers: must be 1 or more", s.Rows, s.Dim)
	case s.Sparse && (s.Scope != method.Shared || s.Upload != method.Sum || s.PerItem || s.Rows != 1):
		return errors.New("a sparse slot must be a shared sum of one row that is not per item")
	case s.Levels < 0 || s.Levels > maxLevels || s.Levels > 0 && !(s.Range > 0):
		return fmt.Errorf("%d levels: must be 0 to %d, and requires a Range", s.Levels, maxLevels)
	case s.Upload == method.Gradient && !updates:
		return errors.New("devices send its gradient, so the method must implement Updater")
	case s.PerItem && s.Copied() && p.Visit.HistoryOnly:
		return errors.New("a visit with HistoryOnly changes no rows; make the slot a Sum or a Broadcast")
	}
	return nil
}

// InPlace reports whether rows that are touched once are trained in place, without a copy.
// With a second table they are not: its rows are named by the positions of copies.
func (p *Plan) InPlace() bool {
	return p.Visit.InPlace && p.head != nil && p.copied == 1 && p.ready == nil && !p.Plain
}

// PreparesScoring reports whether the method computes something before it recommends.
func (p *Plan) PreparesScoring() bool { return p.ready != nil }

// Central reports whether the method is trained in one place.
func (p *Plan) Central() bool { return p.central }

// HasHead reports whether the method scores by a bilinear head on a shared table.
func (p *Plan) HasHead() bool { return p.head != nil }

// Serves reports whether the method recommends with a slot that is served as s.
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

// deviceSeed returns the seed of what devices draw.
func (p *Plan) deviceSeed() uint64 {
	if p.DeviceSeed != 0 {
		return p.DeviceSeed
	}
	return p.Seed
}

// Fill writes a slot's initial values, which are the same for every device of a seed.
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
				row[k] = float32(s.Init.A * (float64(2*r.Float64()) - 1))
			}
		}
		clear(row[s.Dim:])
	}
}

// isSent reports whether devices send a slot in any phase.
func isSent(s *method.Slot) bool { return s.Scope == method.Shared && s.Upload != method.Broadcast }

// IsSent reports whether a Shared slot is sent in a phase.
func (p *Plan) IsSent(phase, slot int) bool {
	if p.sent == nil || phase < 0 || phase >= len(p.transfers) {
		return p.sent == nil || p.sent.Transfers(phase, slot)
	}
	return p.transfers[phase][slot]
}

// SentSlots lists the slots that devices send in some phase.
func (p *Plan) SentSlots() []int {
	var out []int
	for i := range p.Slots {
		if isSent(&p.Slots[i]) {
			out = append(out, i)
		}
	}
	return out
}

// Sizes counts the numbers that all devices share, and those that each device has for
// itself; a private table counts in full.
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

// MaxSamples is the number of samples of a device with n interactions.
func (p *Plan) MaxSamples(n int) int { return n * (1 + p.Negatives) }

// maxRows bounds the rows of an arena.
const maxRows = math.MaxInt32 / 4
