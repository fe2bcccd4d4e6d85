package account

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Ledger records releases before they are published. Spent is a ledger in memory; the
// round engine has one in a file.
type Ledger interface {
	// Spend appends an event. After an error nothing was appended and the release must
	// not be published.
	Spend(Event) error
	// Events lists what was spent; equal events may be merged.
	Events() []Event
}

var _ Ledger = (*Spent)(nil)

// Spent composes events of all kinds under one adjacency. The zero value is empty and uses
// RDP. It is not safe for concurrent use.
type Spent struct {
	Options Options

	parts []part
	memo  []float64 // the orders of the curves in parts
}

// part is all events of one kind.
type part struct {
	event Event     // Rounds is their sum
	curve []float64 // RDP of one round; nil until it is needed
}

// Spend adds an event: a comparison, if one of its kind was there before.
func (s *Spent) Spend(e Event) error {
	e, err := e.normal()
	if err != nil {
		return err
	}
	if len(s.parts) > 0 && s.parts[0].event.Adjacency != e.Adjacency {
		return fmt.Errorf("adjacency %s after %s: one epsilon has one adjacency; account for them apart, "+
			"or restate the noise under %s",
			e.Adjacency, s.parts[0].event.Adjacency, s.parts[0].event.Adjacency)
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.event.kind() != e.kind() {
			continue
		}
		if p.event.Rounds > math.MaxInt64-e.Rounds {
			return fmt.Errorf("%d rounds more than %d cannot be counted", e.Rounds, p.event.Rounds)
		}
		p.event.Rounds += e.Rounds
		return nil
	}
	s.parts = append(s.parts, part{event: e})
	return nil
}

// Events lists the kinds of events that were spent, each with its number of rounds.
func (s *Spent) Events() []Event {
	var out []Event
	for _, p := range s.parts {
		out = append(out, p.event)
	}
	return out
}

// Epsilon is the cost of the events at delta. It returns an error if the accountant does not
// support an event, and +Inf if the cost is unbounded.
func (s *Spent) Epsilon(delta float64) (Result, error) {
	if err := checkDelta(delta); err != nil {
		return Result{}, err
	}
	return s.result(Result{Delta: delta}, func(o Options, live []*part) (Result, error) {
		return epsilon(o, live, s.rdp, delta)
	})
}

// Delta is the cost of the events at epsilon.
func (s *Spent) Delta(eps float64) (Result, error) {
	if math.IsNaN(eps) || eps < 0 {
		return Result{}, fmt.Errorf("epsilon=%v: must be 0 or more", eps)
	}
	return s.result(Result{Epsilon: eps}, func(o Options, live []*part) (Result, error) {
		return deltaOf(o, live, s.rdp, eps)
	})
}

// Epsilon is the cost of events at delta, without a ledger.
func Epsilon(delta float64, o Options, events ...Event) (Result, error) {
	s := Spent{Options: o}
	for _, e := range events {
		if err := s.Spend(e); err != nil {
			return Result{}, err
		}
	}
	return s.Epsilon(delta)
}

// result has compute find the numbers from the events that cost something and describes
// what they cover. If no event costs anything, it returns r.
func (s *Spent) result(r Result, compute func(Options, []*part) (Result, error)) (Result, error) {
	o, err := s.Options.normal()
	if err != nil {
		return Result{}, err
	}
	var live []*part
	for i := range s.parts {
		if p := &s.parts[i]; !p.event.nothing() {
			live = append(live, p)
		}
	}
	r.Accountant, r.Conversion = o.Accountant, o.Conversion
	if o.Accountant != RDP {
		r.Conversion = Direct
	}
	if len(live) > 0 {
		if r, err = compute(o, live); err != nil {
			return Result{}, err
		}
	}
	r.describe(s.Events())
	return r, nil
}

// rdp is the total at each order.
func (s *Spent) rdp(o Options, live []*part) (orders, total []float64) {
	orders = o.Orders
	if orders == nil {
		orders = Orders()
	}
	if !slices.Equal(s.memo, orders) {
		s.memo = orders
		for i := range s.parts {
			s.parts[i].curve = nil
		}
	}
	total = make([]float64, len(orders))
	for _, p := range live {
		if p.curve == nil {
			p.curve = p.event.curve(orders)
		}
		for i, x := range p.curve {
			if x > 0 {
				total[i] += x * float64(p.event.Rounds)
			}
		}
	}
	return orders, total
}

// totals is Spent.rdp.
type totals func(Options, []*part) (orders, rdp []float64)

// epsilon returns the smallest of the bounds that the accountant allows.
func epsilon(o Options, live []*part, rdp totals, delta float64) (Result, error) {
	if o.Accountant == Exact || o.Accountant == PLD {
		z, plain := joint(live)
		if plain {
			return Result{Epsilon: gaussianEpsilon(z, delta), Delta: delta, Accountant: Exact, Conversion: Direct}, nil
		}
		if o.Accountant == Exact {
			return Result{}, notExact(live)
		}
	}
	if delta == 1 {
		return Result{Delta: delta, Accountant: o.Accountant, Conversion: o.Conversion}, nil
	}
	orders, total := rdp(o, live)
	eps, at := o.best(orders, total, delta)
	r := Result{
		Epsilon: eps, Delta: delta, Accountant: RDP, Conversion: o.Conversion,
		Warnings: warning(orders, at, eps),
	}
	if at >= 0 {
		r.Order = orders[at]
	}
	if o.Accountant == RDP {
		return r, nil
	}
	if err := checkLosses(live); err != nil {
		return Result{}, err
	}
	if x := pldEpsilon(live, delta); x < eps {
		return Result{Epsilon: x, Delta: delta, Accountant: PLD, Conversion: Direct}, nil
	}
	if eps > 0 && !math.IsInf(eps, 1) {
		r.Warnings = append(r.Warnings, "RDP is below what the PLD grid resolves here, so its epsilon is given")
	}
	return r, nil
}

// deltaOf does the same for a given epsilon.
func deltaOf(o Options, live []*part, rdp totals, eps float64) (Result, error) {
	r := Result{Epsilon: eps, Accountant: Exact, Conversion: Direct}
	if o.Accountant == Exact || o.Accountant == PLD {
		z, plain := joint(live)
		if plain {
			r.Delta = gaussianDelta(z, eps)
			return r, nil
		}
		if o.Accountant == Exact {
			return Result{}, notExact(live)
		}
		if err := checkLosses(live); err != nil {
			return Result{}, err
		}
	}
	orders, total := rdp(o, live)
	best, at := 0.0, -1
	for i, a := range orders {
		if x := logDeltaAt(o.Conversion, a, total[i], eps); x < best {
			best, at = x, i
		}
	}
	r.Delta, r.Accountant, r.Conversion = math.Exp(best), RDP, o.Conversion
	if at >= 0 {
		r.Order, r.Warnings = orders[at], warning(orders, at, 1)
	}
	if o.Accountant == RDP {
		return r, nil
	}
	if x := pldDelta(live, eps, r.Delta); x < r.Delta {
		return Result{Epsilon: eps, Delta: x, Accountant: PLD, Conversion: Direct}, nil
	}
	return r, nil
}

// joint is the multiplier of the single Gaussian that the events are equivalent to.
func joint(live []*part) (float64, bool) {
	least, sum := math.Inf(1), 0.0
	for _, p := range live {
		z, ok := p.event.multiplier()
		if !ok {
			return 0, false
		}
		least = min(least, z)
	}
	if least == 0 {
		return 0, true
	}
	for _, p := range live {
		z, _ := p.event.multiplier()
		sum += (least / z) * (least / z) * float64(p.event.Rounds)
	}
	return least / math.Sqrt(sum), true
}

func notExact(live []*part) error {
	for _, p := range live {
		if _, ok := p.event.multiplier(); !ok {
			return fmt.Errorf("accountant exact is for gaussian events without sampling, and there is one "+
				"of %s with sampler %s; use accountant rdp or pld", p.event.Mechanism, p.event.Sampler)
		}
	}
	return nil
}

// Result is an epsilon with everything that it depends on.
type Result struct {
	Epsilon, Delta float64
	Order          float64    // Where RDP was best; +Inf is the pure epsilon, 0 means that no order was used.
	Accountant     Accountant // The one that gave the number: PLD takes RDP's, and Exact's, where it is smaller.
	Conversion     Conversion
	Adjacency      Adjacency
	Mechanism      string // Several are joined by +, and so are samplers.
	Sampler        string
	Rounds         int64   // Of all events; MaxInt64 if there are more.
	Q, Noise       float64 // NaN never: where events differ in them, Events tells, and Mixed is true.
	Mixed          bool
	Events         []Event
	Warnings       []string
}

// describe fills in what the events have in common.
func (r *Result) describe(events []Event) {
	r.Events = events
	var mechanisms, samplers []string
	for i, e := range events {
		r.Adjacency = e.Adjacency
		if !slices.Contains(mechanisms, string(e.Mechanism)) {
			mechanisms = append(mechanisms, string(e.Mechanism))
		}
		if !slices.Contains(samplers, string(e.Sampler)) {
			samplers = append(samplers, string(e.Sampler))
		}
		if r.Rounds > math.MaxInt64-e.Rounds {
			r.Rounds = math.MaxInt64
		} else {
			r.Rounds += e.Rounds
		}
		if i == 0 {
			r.Q, r.Noise = e.Q, e.Noise
		} else if e.Q != r.Q || e.Noise != r.Noise {
			r.Mixed = true
		}
	}
	if r.Mixed {
		r.Q, r.Noise = 0, 0
	}
	r.Mechanism, r.Sampler = strings.Join(mechanisms, "+"), strings.Join(samplers, "+")
}

// MarshalJSON writes infinity as "inf", and null for what no single number says.
func (r Result) MarshalJSON() ([]byte, error) {
	m := map[string]any{
		"epsilon": number(r.Epsilon), "delta": number(r.Delta), "order": nil, "accountant": r.Accountant,
		"conversion": r.Conversion,
		"adjacency":  r.Adjacency, "mechanism": r.Mechanism, "sampler": r.Sampler, "rounds": r.Rounds, "q": nil,
		"noise": nil,
	}
	if r.Order != 0 {
		m["order"] = number(r.Order)
	}
	if !r.Mixed {
		m["q"], m["noise"] = number(r.Q), number(r.Noise)
	}
	if len(r.Warnings) > 0 {
		m["warnings"] = r.Warnings
	}
	return json.Marshal(m)
}

func number(x float64) any {
	if math.IsInf(x, 1) {
		return "inf"
	}
	return x
}
