package account

import (
	"fmt"
	"math"
)

// loss is the privacy loss ln(P/Q) of one release, drawn from P: a density over a
// line on which the loss rises, and atoms.
type loss struct {
	lo, hi  float64                 // ends of the line; the mass beyond hi is in inf
	piece   float64                 // longest stretch over which five points integrate well
	density func(t float64) float64 // of P
	at      func(t float64) float64 // the loss at t
	inverse func(l float64) float64 // the t of a loss; ±Inf beyond what is reached
	atoms   []atom
	inf     float64 // mass at +Inf
	rounds  float64
}

// atom is mass of P at a loss.
type atom struct{ l, p float64 }

// leastNoise is the smallest multiplier that a grid can hold; RDP serves below.
const leastNoise = 0.02

// checkLosses refuses events whose loss has no known worst pair that composes.
//
// Under replace-one the pair that is usual for a Poisson sample fails under
// composition (Lebeda, Regehr, Kamath and Steinke 2024); Event refuses it already.
// A sample without replacement has none that is known to be tight, and rho or an
// RDP curve does not determine a loss.
func checkLosses(live []*part) error {
	for _, p := range live {
		e := p.event
		switch {
		case e.Q < 1 && e.Sampler == WithoutReplacement:
			return fmt.Errorf("pld knows no worst case for sampling without replacement; use accountant " +
				"rdp, or sampler poisson with adjacency zero-out")
		case e.Mechanism == ZCDP:
			return fmt.Errorf("pld needs the mechanism, and zcdp is only a bound; use accountant rdp, or " +
				"name the mechanism")
		}
	}
	return nil
}

// symmetric reports whether both directions have the same loss.
func symmetric(live []*part) bool {
	for _, p := range live {
		if p.event.Q < 1 {
			return false
		}
	}
	return true
}

// newLoss makes the loss of an event; adding says that P lacks the user and Q has
// it. Mass of at most tail is moved to infinity.
func newLoss(e Event, adding bool, tail float64) (*loss, bool) {
	var l *loss
	if z, ok := e.multiplier(); ok {
		l = sampledLoss(1, z, false, tail)
	} else {
		switch e.Mechanism {
		case Laplace:
			l = laplaceLoss(e.Noise)
		case Pure:
			p := 1 / (1 + math.Exp(-e.Epsilon))
			l = &loss{atoms: []atom{{e.Epsilon, p}, {-e.Epsilon, p * math.Exp(-e.Epsilon)}}}
		default:
			l = sampledLoss(e.Q, e.Noise, adding, tail)
		}
	}
	if l == nil {
		return nil, false
	}
	l.rounds = float64(e.Rounds)
	return l, true
}

// sampledLoss is the loss of a Gaussian on a Poisson sample: P is the mixture
// (1-q)·N(0,1) + q·N(1/σ,1) and Q is N(0,1), or, adding, the other way around with
// the line reversed. q = 1 is the plain Gaussian.
func sampledLoss(q, sigma float64, adding bool, tail float64) *loss {
	if sigma < leastNoise || sigma > 1/leastTail {
		return nil
	}
	shift, half := 1/sigma, 1/(2*sigma*sigma)
	phi := func(t float64) float64 { return math.Exp(-t*t/2) / math.Sqrt(2*math.Pi) }
	cut := quantile(tail)
	l := &loss{lo: -cut, hi: cut, piece: min(0.125, sigma/4)}
	mix := func(e float64) float64 { // ln(1-q+q·e^e)
		if e > 700 {
			return math.Log(q) + e
		}
		if y := q * math.Expm1(e); y > -0.5 {
			return math.Log1p(y)
		}
		return math.Log((1 - q) + q*math.Exp(e))
	}
	unmix := func(m float64) float64 { // its inverse
		if m > 700 {
			return m - math.Log(q)
		}
		if y := math.Expm1(m) / q; y > -1 {
			return math.Log1p(y)
		}
		return math.Inf(-1)
	}
	if adding {
		l.density = phi
		l.at = func(t float64) float64 { return -mix(-t*shift - half) }
		l.inverse = func(x float64) float64 { return -(unmix(-x) + half) * sigma }
		l.inf = normalTail(cut)
		return l
	}
	// Less of the shifted part is needed where q is small.
	l.hi = max(cut, shift+quantile(min(0.5, tail/q)))
	l.density = func(t float64) float64 { return (1-q)*phi(t) + q*phi(t-shift) }
	l.at = func(t float64) float64 { return mix(t*shift - half) }
	l.inverse = func(x float64) float64 { return (unmix(x) + half) * sigma }
	l.inf = (1-q)*normalTail(l.hi) + q*normalTail(l.hi-shift)
	return l
}

// laplaceLoss is that of Laplace noise with scale lam on a sum that moves by 1: ±1/lam
// outside of [0,1], linear within.
func laplaceLoss(lam float64) *loss {
	if lam < leastNoise || lam > 1/leastTail {
		return nil
	}
	return &loss{
		lo: 0, hi: 1, piece: min(0.125, lam/4),
		density: func(t float64) float64 { return math.Exp(-(1-t)/lam) / (2 * lam) },
		at:      func(t float64) float64 { return (2*t - 1) / lam },
		inverse: func(l float64) float64 { return (l*lam + 1) / 2 },
		atoms:   []atom{{1 / lam, 0.5}, {-1 / lam, math.Exp(-1/lam) / 2}},
	}
}

// normalTail is P[N(0,1) > x].
func normalTail(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// leastTail is the smallest mass that is told from 0.
const leastTail = 1e-150

// quantile is an x, not below 1, beyond which N(0,1) has at most the given mass.
func quantile(mass float64) float64 {
	mass = max(mass, leastTail)
	lo, hi := 1.0, 30.0
	for hi-lo > 1e-6 {
		if mid := (lo + hi) / 2; normalTail(mid) > mass {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// sketch is the loss as atoms at the points of a quadrature, for planning.
func (l *loss) sketch() []atom {
	out := append([]atom(nil), l.atoms...)
	if l.density == nil {
		return out
	}
	n := math.Ceil((l.hi - l.lo) / l.piece)
	w := (l.hi - l.lo) / n
	for i := range int(n) {
		for k, x := range gaussX5 {
			t := l.lo + (float64(i)+x)*w
			out = append(out, atom{l.at(t), gaussW5[k] * w * l.density(t)})
		}
	}
	return out
}

// grid is mass at the multiples first·h, (first+1)·h, ... .
type grid struct {
	first int64
	p     []float64
}

// discretise moves all mass to multiples of h by connecting the dots (Doroshenko,
// Ghazi, Kamath, Kumar and Manurangsi 2022): what lies between two of them is split so
// that P and Q both keep their mass. The hockey-stick curve of the result is the
// true one at the multiples of h, and its chords, which are above it, between them; so
// the result dominates the loss, and stays so under composition.
func (l *loss) discretise(h float64) grid {
	first, last := math.Inf(1), math.Inf(-1)
	for _, a := range l.atoms {
		first, last = min(first, math.Floor(a.l/h)), max(last, math.Floor(a.l/h)+1)
	}
	if l.density != nil {
		first, last = min(first, math.Floor(l.at(l.lo)/h)), max(last, math.Floor(l.at(l.hi)/h)+1)
	}
	g := grid{first: int64(first), p: make([]float64, int(last-first)+2)}
	whole := -math.Expm1(-h)
	put := func(j int, a atom) {
		up := -math.Expm1(-(a.l - (first+float64(j))*h)) / whole
		up = a.p * min(1, max(0, up))
		g.p[j] += a.p - up
		g.p[j+1] += up
	}
	for _, a := range l.atoms {
		put(int(math.Floor(a.l/h)-first), a)
	}
	if l.density == nil {
		return g
	}
	// What lies below lo has at most the loss at lo.
	g.p[int(math.Floor(l.at(l.lo)/h)-first)+1] += l.below()
	t, j := l.lo, int(math.Floor(l.at(l.lo)/h)-first)
	for t < l.hi {
		edge := l.inverse((first + float64(j) + 1) * h)
		if edge <= t { // rounding, or an edge below lo
			j++
			continue
		}
		if math.IsNaN(edge) {
			edge = l.hi
		}
		to := min(edge, t+l.piece, l.hi)
		l.integrate(t, to, func(a atom) { put(j, a) })
		if t = to; to == edge {
			j++
		}
	}
	return g
}

// below is the mass of P under lo that atoms do not hold.
func (l *loss) below() float64 {
	if l.atoms != nil {
		return 0
	}
	return normalTail(-l.lo)
}

// integrate hands out the mass of a stretch at the points of a quadrature.
func (l *loss) integrate(from, to float64, put func(atom)) {
	w := to - from
	xs, ws := gaussX5[:], gaussW5[:]
	if w < l.piece/8 {
		xs, ws = gaussX3[:], gaussW3[:]
	}
	for k, x := range xs {
		t := from + w*x
		put(atom{l.at(t), ws[k] * w * l.density(t)})
	}
}
