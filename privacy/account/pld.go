package account

import (
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
)

const (
	maxPoints = 1 << 20 // of the grid on which losses are added
	maxCells  = 1 << 20 // of the grid of one release
	wrapped   = 30.0    // -ln of the tilted mass that may fall outside of the window
	moved     = 1e-5    // share of delta that cutting the upper tails may cost
)

// pldEpsilon is an upper bound on epsilon, +Inf where the grid cannot tell.
func pldEpsilon(live []*part, delta float64) float64 {
	if delta == 0 {
		return math.Inf(1)
	}
	eps := 0.0
	for _, adding := range directions(live) {
		c, ok := compose(live, adding, delta, func(c *composed) float64 { return c.tiltFor(delta) })
		if !ok {
			return math.Inf(1)
		}
		eps = max(eps, c.epsilon(delta))
	}
	return eps
}

// pldDelta is an upper bound on delta; guess is one too, and says how far into the
// tails to look.
func pldDelta(live []*part, eps, guess float64) float64 {
	for range 3 {
		worst := 0.0
		for _, adding := range directions(live) {
			c, ok := compose(live, adding, max(guess, leastTail), func(c *composed) float64 { return c.tiltAt(eps) })
			if !ok {
				return 1
			}
			worst = max(worst, c.delta(eps))
		}
		if worst > guess/100 {
			return min(worst, guess)
		}
		guess = worst
	}
	return guess
}

func directions(live []*part) []bool {
	if symmetric(live) {
		return []bool{false}
	}
	return []bool{false, true}
}

// composed is the distribution of the sum of all losses, tilted by e^(θ·loss) so
// that the part that decides delta is where the bulk is: the rounding of an FFT is
// relative to the bulk.
type composed struct {
	losses   []*loss
	sketches [][]atom
	tilt     float64
	h        float64
	first    int64     // place of p[0] on the grid
	p        []float64 // tilted
	scale    float64   // ln of the mass before it was tilted and normalised
	extra    float64   // delta from what is at infinity, and beyond the window
	noise    float64   // what rounding may have taken from each of p
}

// compose adds up the losses of one direction.
func compose(live []*part, adding bool, delta float64, tilt func(*composed) float64) (*composed, bool) {
	c := &composed{}
	total := 0.0
	for _, p := range live {
		total += float64(p.event.Rounds)
	}
	kept := 0.0 // ln of the mass that is not at infinity
	for _, p := range live {
		l, ok := newLoss(p.event, adding, moved*delta/total)
		if !ok {
			return nil, false
		}
		c.losses = append(c.losses, l)
		c.sketches = append(c.sketches, l.sketch())
		kept += l.rounds * math.Log1p(-l.inf)
	}
	c.extra = -math.Expm1(kept)
	c.tilt = tilt(c)
	lo, hi, ok := c.window()
	if !ok {
		return nil, false
	}
	n := c.size(lo, hi)
	c.first = int64(math.Floor(lo / c.h))
	if !c.add(n, total) {
		return nil, false
	}
	end := float64(c.first+int64(n)) * c.h
	c.extra += math.Exp(min(0, c.scale-c.tilt*end-wrapped+1))
	return c, true
}

// cumulant is ln E[e^(θL)] of the sum.
func (c *composed) cumulant(theta float64) float64 {
	sum := 0.0
	for i, sketch := range c.sketches {
		top := math.Inf(-1)
		for _, a := range sketch {
			if a.p > 0 {
				top = max(top, theta*a.l)
			}
		}
		s := 0.0
		for _, a := range sketch {
			s += a.p * math.Exp(theta*a.l-top)
		}
		sum += c.losses[i].rounds * (top + math.Log(s))
	}
	return sum
}

// spread is mean and standard deviation of the sum, not tilted.
func (c *composed) spread() (mean, sd float64) {
	variance := 0.0
	for i, sketch := range c.sketches {
		m, v := 0.0, 0.0
		for _, a := range sketch {
			m += a.p * a.l
		}
		for _, a := range sketch {
			v += a.p * (a.l - m) * (a.l - m)
		}
		mean += c.losses[i].rounds * m
		variance += c.losses[i].rounds * v
	}
	return mean, math.Sqrt(variance)
}

// bound is ln of an upper bound on the delta of eps: Chernoff's for E[(1-e^(eps-L))+],
// whose integrand is at most e^(θ(L-eps))·(θ/(1+θ))^θ/(1+θ).
func (c *composed) bound(theta, eps float64) float64 {
	return c.cumulant(theta) - theta*eps - theta*math.Log1p(1/theta) - math.Log1p(theta)
}

// tiltFor is a θ whose bound on the epsilon of delta is near the best.
func (c *composed) tiltFor(delta float64) float64 {
	f := func(theta float64) float64 { return (c.bound(theta, 0) - math.Log(delta)) / theta }
	best := c.search(f)
	return c.lower(best, max(0, f(best)))
}

// tiltAt is a θ whose bound on the delta of eps is near the best.
func (c *composed) tiltAt(eps float64) float64 {
	return c.lower(c.search(func(theta float64) float64 { return c.bound(theta, eps) }), eps)
}

// lower is the smallest θ whose bound on the delta of eps is at most e times that
// of the best. Near the largest loss there is, the best θ has no limit, and would
// leave eps itself out of the bulk.
func (c *composed) lower(best, eps float64) float64 {
	limit := c.bound(best, eps) + 1
	lo, hi := best/1e6, best
	for hi/lo > 1.05 {
		if mid := math.Sqrt(lo * hi); c.bound(mid, eps) > limit {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// search minimises f, which falls and then rises, over positive θ on a log scale.
func (c *composed) search(f func(float64) float64) float64 {
	_, sd := c.spread()
	golden := (math.Sqrt(5) - 1) / 2
	lo, hi := math.Log(1e-3/sd), math.Log(1e3/sd)
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	fa, fb := f(math.Exp(a)), f(math.Exp(b))
	for hi-lo > 0.02 {
		if fa <= fb {
			hi, b, fb = b, a, fa
			a = hi - golden*(hi-lo)
			fa = f(math.Exp(a))
		} else {
			lo, a, fa = a, b, fb
			b = lo + golden*(hi-lo)
			fb = f(math.Exp(b))
		}
	}
	return math.Exp((lo + hi) / 2)
}

// window is an interval that holds the tilted sum but for e^-wrapped on each side, by
// Chernoff, and also nearly all of the sum itself.
func (c *composed) window() (lo, hi float64, ok bool) {
	mean, sd := c.spread()
	if !(sd > 0) || math.IsInf(sd, 1) {
		return 0, 0, false
	}
	at := c.cumulant(c.tilt)
	lo, hi = math.Inf(-1), math.Inf(1)
	for k := -10; k <= 10; k++ {
		s := math.Exp2(float64(k)) / sd
		hi = min(hi, (c.cumulant(c.tilt+s)-at+wrapped)/s)
		lo = max(lo, -(c.cumulant(c.tilt-s)-at+wrapped)/s)
	}
	lo = min(lo, mean-4*sd)
	return lo, hi, lo < hi && !math.IsInf(lo, 0) && !math.IsInf(hi, 0)
}

// size sets h and returns the number of points of the window. A step of a 32nd of
// the spread of one release adds about 1e-4 to the variance.
func (c *composed) size(lo, hi float64) int {
	_, sd := c.spread()
	total, widest := 0.0, 0.0
	for i, l := range c.losses {
		total += l.rounds
		least, most := math.Inf(1), math.Inf(-1)
		for _, a := range c.sketches[i] {
			least, most = min(least, a.l), max(most, a.l)
		}
		widest = max(widest, most-least)
	}
	c.h = min(1e-4, sd/math.Sqrt(total)/32)
	c.h = max(c.h, widest/maxCells, (hi-lo)*1.01/maxPoints)
	n := 1 << 8
	for float64(n) < (hi-lo)*1.005/c.h+2 && n < maxPoints {
		n *= 2
	}
	return n
}

// add composes on a circle of n points: phases and logarithms of the transforms are
// multiplied by the counts. What falls out of the window comes in at its other end, so
// no mass is lost.
func (c *composed) add(n int, total float64) bool {
	fft := fourier.NewFFT(n)
	power := make([]complex128, n/2+1)
	circle := make([]float64, n)
	var coeff []complex128
	for _, l := range c.losses {
		g := l.discretise(c.h)
		clear(circle)
		top := c.tilt * float64(g.first+int64(len(g.p))-1) * c.h
		mass := 0.0
		for i, p := range g.p {
			x := p * math.Exp(c.tilt*float64(g.first+int64(i))*c.h-top)
			circle[mod(g.first+int64(i), n)] += x
			mass += x
		}
		if !(mass > 0) {
			return false
		}
		for i := range circle {
			circle[i] /= mass
		}
		c.scale += l.rounds * (top + math.Log(mass))
		coeff = fft.Coefficients(coeff, circle)
		for k, x := range coeff {
			power[k] += complex(l.rounds*math.Log(cmplx.Abs(x)), math.Mod(l.rounds*cmplx.Phase(x), 2*math.Pi))
		}
	}
	for k, x := range power {
		power[k] = cmplx.Rect(math.Exp(real(x))/float64(n), imag(x))
	}
	back := fft.Sequence(circle, power)
	c.p = make([]float64, n)
	most := 0.0
	for i := range c.p {
		c.p[i] = max(0, back[mod(c.first+int64(i), n)])
		most = max(most, c.p[i])
	}
	c.noise = most * (total + 64) * 0x1p-50
	return most > 0 && !math.IsInf(most, 1) && !math.IsNaN(c.scale)
}

func mod(i int64, n int) int {
	m := i % int64(n)
	if m < 0 {
		m += int64(n)
	}
	return int(m)
}

// at is the mass of point i, not tilted.
func (c *composed) at(i int) float64 {
	return (c.p[i] + c.noise) * math.Exp(c.scale-c.tilt*float64(c.first+int64(i))*c.h)
}

// epsilon is the smallest one with at most delta, walking down from the top: d is
// the delta of the current point, s is Σ p·e^(eps-l) over the points above it.
func (c *composed) epsilon(delta float64) float64 {
	d, s := c.extra, 0.0
	if d > delta {
		return math.Inf(1)
	}
	down, rise := math.Exp(-c.h), -math.Expm1(-c.h)
	for i := len(c.p) - 1; i >= 0; i-- {
		here := float64(c.first+int64(i)) * c.h
		if here <= 0 {
			return 0
		}
		p := c.at(i)
		next := d + (s+p)*rise
		s = (s + p) * down
		if next > delta {
			return max(0, here-c.h+math.Log1p((next-delta)/s))
		}
		d = next
	}
	return max(0, float64(c.first)*c.h)
}

// delta is that of eps.
func (c *composed) delta(eps float64) float64 {
	d := c.extra
	for i := len(c.p) - 1; i >= 0; i-- {
		l := float64(c.first+int64(i)) * c.h
		if l <= eps {
			return min(1, d)
		}
		d -= c.at(i) * math.Expm1(eps-l)
	}
	return 1 // eps is below the window: nothing is known
}
