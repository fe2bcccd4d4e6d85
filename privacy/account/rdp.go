package account

import (
	"fmt"
	"math"
)

// maxOrder bounds the sums over orders. +Inf is an order too: the pure epsilon.
const maxOrder = 1 << 16

func checkOrder(a float64) error {
	if math.IsInf(a, 1) || a > 1 && a <= maxOrder {
		return nil
	}
	return fmt.Errorf("order %v: must be above 1 and at most %d", a, maxOrder)
}

// RDP is the Rényi divergence of the given order between the releases of one round
// on adjacent data: the bound that the event's theorem gives, +Inf where it gives none.
func (e Event) RDP(order float64) (float64, error) {
	e, err := e.normal()
	if err != nil {
		return 0, err
	}
	if err := checkOrder(order); err != nil {
		return 0, err
	}
	return e.curve([]float64{order})[0], nil
}

// curve is the RDP of one round at each order.
func (e Event) curve(orders []float64) []float64 {
	out := make([]float64, len(orders))
	each := func(f func(a float64) float64) []float64 {
		for i, a := range orders {
			out[i] = f(a)
		}
		return out
	}
	one := e
	one.Rounds = 1
	if one.nothing() {
		return out
	}
	if z, ok := e.multiplier(); ok {
		return each(func(a float64) float64 { return gaussianRDP(a, z) })
	}
	switch e.Mechanism {
	case Laplace:
		return each(func(a float64) float64 { return laplaceRDP(a, e.Noise) })
	case Pure:
		return each(func(a float64) float64 { return pureRDP(a, e.Epsilon) })
	case ZCDP:
		return each(func(a float64) float64 { return e.Rho * a })
	}
	if e.Sampler == Poisson {
		return each(newSampled(e.Q, e.Noise, orders).rdp)
	}
	return each(newFixedSize(e.Q, e.Noise, e.Theorem, orders).rdp)
}

func gaussianRDP(a, sigma float64) float64 { return a / 2 / sigma / sigma }

// laplaceRDP is Mironov 2017, proposition 6, for scale over L1 sensitivity lam:
// ln((a·e^((a-1)x) + (a-1)·e^(-a·x))/(2a-1))/(a-1), x = 1/lam.
func laplaceRDP(a, lam float64) float64 {
	x := 1 / lam
	if math.IsInf(a, 1) || math.IsInf(x, 1) {
		return x
	}
	var cgf float64
	if a*x < 0.05 { // the terms of order 0 and 1 cancel, so they are left out
		sum, up, down := 0.0, (a-1)*x, -a*x
		for k := 2.0; k < 12; k++ {
			up *= (a - 1) * x / k
			down *= -a * x / k
			sum += a*up + (a-1)*down
		}
		cgf = math.Log1p(sum / (2*a - 1))
	} else {
		cgf = logSum2(math.Log(a/(2*a-1))+(a-1)*x, math.Log((a-1)/(2*a-1))-a*x)
	}
	return min(x, max(0, cgf)/(a-1))
}

// pureRDP is the divergence of randomised response, the worst mechanism with a pure
// epsilon: ln(p^a (1-p)^(1-a) + (1-p)^a p^(1-a))/(a-1), p = e^eps/(1+e^eps). The
// bracket is 1 + 2·sinh(a·eps/2)·sinh((a-1)·eps/2)/cosh(eps/2).
func pureRDP(a, eps float64) float64 {
	if math.IsInf(a, 1) || math.IsInf(eps, 1) {
		return eps
	}
	x := math.Ln2 + logSinh(a*eps/2) + logSinh((a-1)*eps/2) - (eps/2 + math.Log1p(math.Exp(-eps)) - math.Ln2)
	return min(eps, softplus(x)/(a-1))
}

// logSinh is ln sinh x for x >= 0.
func logSinh(x float64) float64 { return logExpm1(2*x) - x - math.Ln2 }

// softplus is ln(1+e^x), without overflow and to full precision where it is tiny.
func softplus(x float64) float64 {
	if x > 36 {
		return x + math.Exp(-x)
	}
	return math.Log1p(math.Exp(x))
}

// logExpm1 is ln(e^x - 1) for x >= 0.
func logExpm1(x float64) float64 {
	if x > 40 {
		return x
	}
	if x > 30 {
		return x + math.Log1p(-math.Exp(-x))
	}
	return math.Log(math.Expm1(x))
}

// logSum2 is ln(e^x + e^y).
func logSum2(x, y float64) float64 {
	if x < y {
		x, y = y, x
	}
	if math.IsInf(x, 0) {
		return x
	}
	return x + math.Log1p(math.Exp(y-x))
}

// logSum is ln(Σ e^x). No terms make -Inf.
func logSum(xs []float64) float64 {
	top := math.Inf(-1)
	for _, x := range xs {
		top = max(top, x)
	}
	if math.IsInf(top, 0) {
		return top
	}
	sum := 0.0
	for _, x := range xs {
		if x > top-50 { // the rest is below the last bit, however many there are
			sum += math.Exp(x - top)
		}
	}
	return top + math.Log(sum)
}

// logs holds ln 0 (unused), ln 1, ... ln n.
func logs(n int) []float64 {
	out := make([]float64, n+1)
	for k := 1; k <= n; k++ {
		out[k] = math.Log(float64(k))
	}
	return out
}

// whole is the largest integer that the orders need: their ceilings, below +Inf.
func whole(orders []float64) int {
	n := 2
	for _, a := range orders {
		if !math.IsInf(a, 1) {
			n = max(n, int(math.Ceil(a)))
		}
	}
	return n
}
