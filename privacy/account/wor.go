package account

import "math"

// fixedSize is the Gaussian on a sample without replacement, under replace-one:
// Wang, Balle and Kasiviswanathan 2019 (WBK), theorem 9, or theorem 27, which the
// Gaussian's higher moments allow.
type fixedSize struct {
	q, sigma float64
	ln       []float64 // of integers
	bound    []float64 // ln T_j, by j
	terms    []float64
}

// maxMoment is the last j for which theorem 27 is computed; beyond it the terms
// are those of theorem 9, which are valid and never below.
const maxMoment = 256

func newFixedSize(q, sigma float64, theorem int, orders []float64) *fixedSize {
	n := whole(orders)
	s := &fixedSize{q: q, sigma: sigma, ln: logs(n), bound: make([]float64, n+1), terms: make([]float64, 0, n)}
	if gaussianRDP(1, sigma) > math.MaxFloat64/maxOrder {
		return s // rdp says +Inf without them
	}
	for j := 2; j <= n; j++ {
		s.bound[j] = math.Ln2 + s.plain(j)
	}
	s.bound[2] = min(s.bound[2], math.Log(4)+logExpm1(gaussianRDP(2, sigma)))
	if theorem == 27 {
		s.refine(n)
	}
	return s
}

// plain is (j-1)·e(j), where e is the RDP of the unsampled Gaussian.
func (s *fixedSize) plain(j int) float64 { return float64(j-1) * gaussianRDP(float64(j), s.sigma) }

// refine takes theorem 27's 4·sqrt(B(2⌊j/2⌋)·B(2⌈j/2⌉)) where it is smaller. Once
// j·e^(-(j-1)/σ²) is small, B(j) is near e^((j-1)e(j)), and theorem 9 has the smaller factor.
func (s *fixedSize) refine(n int) {
	last := 2
	for j := 3; j <= min(n, maxMoment) && s.ln[j]-float64(j-1)/s.sigma/s.sigma > -1; j++ {
		last = j
	}
	if last < 3 {
		return
	}
	moment := logMoments(last+last%2, s.sigma)
	for j := 3; j <= last; j++ {
		s.bound[j] = min(s.bound[j], math.Log(4)+(moment[j/2*2]+moment[(j+1)/2*2])/2)
	}
}

// logMoments holds ln B(l) at the even l up to last: B(l) is the l-th forward
// difference at 0 of e^((x-1)e(x)), which is E[expm1((2σt-1)/2σ²)^l] over t ~ N(0,1).
// Differencing in float64 loses all digits from l = 8 at σ = 50; this integrand is
// positive, and the trapezoid rule is as good on it as in sampled.fractional.
func logMoments(last int, sigma float64) []float64 {
	step := min(0.1, sigma/10)
	margin := reach + math.Sqrt(float64(last)) // t^l has its peak at √l
	n := int((float64(last)/sigma + 2*margin) / step)
	root, weight := make([]float64, n+1), make([]float64, n+1)
	for i := range root {
		t := float64(i)*step - margin
		root[i] = logAbsExpm1(t/sigma - 1/(2*sigma*sigma))
		weight[i] = -t * t / 2
	}
	out, terms := make([]float64, last+1), make([]float64, n+1)
	for l := 2; l <= last; l += 2 {
		for i, r := range root {
			terms[i] = float64(l)*r + weight[i]
		}
		out[l] = logSum(terms) + math.Log(step) - math.Log(2*math.Pi)/2
	}
	return out
}

// logAbsExpm1 is ln|e^x - 1|.
func logAbsExpm1(x float64) float64 {
	if x > 0 {
		return logExpm1(x)
	}
	return math.Log(-math.Expm1(x))
}

func (s *fixedSize) rdp(a float64) float64 {
	plain := gaussianRDP(a, s.sigma)
	if math.IsInf(plain, 1) || plain*a > math.MaxFloat64/maxOrder {
		return plain
	}
	low := math.Floor(a)
	cgf := s.cgf(int(low))
	if low < a { // WBK, corollary 10: the cumulant is convex
		cgf = (low+1-a)*cgf + (a-low)*s.cgf(int(low)+1)
	}
	return min(cgf/(a-1), plain)
}

func (s *fixedSize) cgf(a int) float64 {
	if a < 2 {
		return 0
	}
	in := math.Log(s.q)
	s.terms = s.terms[:0]
	choose := s.ln[a]
	for j := 2; j <= a; j++ {
		choose += s.ln[a-j+1] - s.ln[j]
		s.terms = append(s.terms, choose+float64(j)*in+s.bound[j])
	}
	return softplus(logSum(s.terms))
}
