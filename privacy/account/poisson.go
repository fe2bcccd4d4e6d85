package account

import "math"

// sampled is the Poisson-subsampled Gaussian: Mironov, Talwar and Zhang 2019. Sums
// hold A-1, not A: at small q, A is 1 plus what is lost in rounding.
type sampled struct {
	q, sigma float64
	ln       []float64 // of integers
	gain     []float64 // ln(e^(k(k-1)/2σ²) - 1), by k
	terms    []float64
	nodes    []node // of the trapezoid rule, for fractional orders
	step     float64
}

// node is a point t of the trapezoid rule.
type node struct {
	t, w    float64 // w is -t²/2
	mass    float64 // e^w
	y, log1 float64 // y = q·expm1((2σt-1)/2σ²), and ln(1+y)
}

const (
	reach      = 14    // standard deviations on either side of the outermost bump
	maxNodes   = 20000 // of the trapezoid rule; beyond, orders are interpolated
	leastSigma = 0.1   // for the same reason
)

func newSampled(q, sigma float64, orders []float64) *sampled {
	n := whole(orders)
	s := &sampled{q: q, sigma: sigma, ln: logs(n), gain: make([]float64, n+1), terms: make([]float64, 0, n)}
	for k := 2; k <= n; k++ {
		s.gain[k] = logExpm1(float64(k) * float64(k-1) / 2 / sigma / sigma)
	}
	s.step = min(0.1, sigma/5)
	top := 0.0
	for _, a := range orders {
		if a != math.Floor(a) && s.fine(a) {
			top = max(top, a)
		}
	}
	if top > 0 {
		s.lay(top)
	}
	return s
}

// fine reports whether the trapezoid rule can reach the order.
func (s *sampled) fine(a float64) bool {
	return s.sigma >= leastSigma && (a/s.sigma+2*reach)/s.step < maxNodes
}

func (s *sampled) lay(order float64) {
	q, sigma := s.q, s.sigma
	n := int((order/sigma + 2*reach) / s.step)
	s.nodes = make([]node, n+1)
	for i := range s.nodes {
		t := float64(i)*s.step - reach
		e := t/sigma - 1/(2*sigma*sigma)
		d := node{t: t, w: -t * t / 2}
		d.mass = math.Exp(d.w)
		d.y = q * math.Expm1(e)
		switch {
		case e > 700:
			d.log1 = math.Log(q) + e
		case d.y < -0.5:
			d.log1 = math.Log((1 - q) + q*math.Exp(e))
		default:
			d.log1 = math.Log1p(d.y)
		}
		s.nodes[i] = d
	}
}

func (s *sampled) rdp(a float64) float64 {
	plain := gaussianRDP(a, s.sigma)
	if math.IsInf(plain, 1) {
		return plain
	}
	var cgf float64 // ln A = (a-1)·rdp
	switch low := math.Floor(a); {
	case low == a:
		cgf = s.cgf(int(a))
	case s.fine(a):
		cgf = s.fractional(a)
	default: // convex in a, so a chord is above it
		cgf = (low+1-a)*s.cgf(int(low)) + (a-low)*s.cgf(int(low)+1)
	}
	return min(cgf/(a-1), plain)
}

// cgf is ln A at an integer order: ln(1 + Σ_{k>=2} C(a,k) q^k (1-q)^(a-k) (e^(k(k-1)/2σ²) - 1)).
func (s *sampled) cgf(a int) float64 {
	if a < 2 {
		return 0
	}
	in, out := math.Log(s.q), math.Log1p(-s.q)
	s.terms = s.terms[:0]
	choose := s.ln[a]
	for k := 2; k <= a; k++ {
		choose += s.ln[a-k+1] - s.ln[k]
		x := choose + float64(k)*in + s.gain[k]
		if k < a {
			x += float64(a-k) * out
		}
		s.terms = append(s.terms, x)
	}
	return softplus(logSum(s.terms))
}

// fractional is ln A at any order above 1: A-1 = E[(1+y)^a - 1 - a·y] over t ~ N(0,1),
// where the subtracted terms have mean 0 and make the bracket positive. The
// integrand is analytic, with its nearest singularity at distance πσ, so the error
// of the trapezoid rule falls exponentially in σ/step.
func (s *sampled) fractional(a float64) float64 {
	n := min(len(s.nodes), int((a/s.sigma+2*reach)/s.step)+1)
	top := 0.0
	for _, d := range s.nodes[:n] {
		top = max(top, a*d.log1+d.w)
	}
	scale := math.Exp(-top)
	var choose [12]float64 // C(a, k)
	choose[0] = 1
	for k := 1; k < len(choose); k++ {
		choose[k] = choose[k-1] * (a - float64(k) + 1) / float64(k)
	}
	sum := 0.0
	for i := range s.nodes[:n] {
		d := &s.nodes[i]
		l := a * d.log1
		switch {
		case math.Abs(d.y)*a < 0.01:
			p := 0.0
			for k := len(choose) - 1; k >= 2; k-- {
				p = p*d.y + choose[k]
			}
			sum += p * d.y * d.y * d.mass * scale
		case l < 100:
			sum += (math.Expm1(l) - a*d.y) * d.mass * scale
		default:
			less := math.Exp(-l) + math.Exp(math.Log(a)+d.log1-l)
			sum += math.Exp(l+d.w-top) * (1 - less)
		}
	}
	return softplus(top + math.Log(max(0, sum)*s.step) - math.Log(2*math.Pi)/2)
}
