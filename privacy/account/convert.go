package account

import (
	"fmt"
	"math"
)

// Accountant says how privacy costs are composed.
type Accountant string

const (
	RDP Accountant = "rdp" // Rényi divergences; always available
	// the distribution of the privacy loss, by FFT; tighter; not for sampling without replacement and zCDP
	PLD   Accountant = "pld"
	Exact Accountant = "exact" // plain Gaussians only: Balle and Wang 2018; PLD gives it where it holds
)

// Conversion says how RDP is converted to epsilon and delta.
type Conversion string

const (
	Improved Conversion = "improved" // Canonne, Kamath and Steinke 2020, proposition 12
	Classic  Conversion = "classic"  // Mironov 2017, proposition 3
	Direct   Conversion = "none"     // PLD and Exact need none
)

// Options choose an accountant. The zero value is RDP with the improved conversion
// on the orders of Orders.
type Options struct {
	Accountant Accountant
	Conversion Conversion
	Orders     []float64 // Exactly these; nil for Orders.
}

func (o Options) normal() (Options, error) {
	if o.Accountant == "" {
		o.Accountant = RDP
	}
	if o.Conversion == "" {
		o.Conversion = Improved
	}
	switch o.Accountant {
	case RDP, PLD, Exact:
	default:
		return o, fmt.Errorf("accountant %q: must be rdp, pld or exact", o.Accountant)
	}
	if o.Conversion != Improved && o.Conversion != Classic {
		return o, fmt.Errorf("conversion %q: must be improved or classic", o.Conversion)
	}
	last := 1.0
	for _, a := range o.Orders {
		if err := checkOrder(a); err != nil {
			return o, err
		}
		if a <= last {
			return o, fmt.Errorf("order %v comes after %v; give the orders once each, in rising order", a,
				last)
		}
		last = a
	}
	if o.Orders != nil && len(o.Orders) == 0 {
		return o, fmt.Errorf("the list of orders is empty: pass orders, or nil for the default ones")
	}
	return o, nil
}

// Orders lists the default orders: tenths to 10.9, integers to 64, then sparser, powers of
// two to 2^15 for very small costs, and +Inf, at which the RDP is the pure epsilon.
func Orders() []float64 {
	var out []float64
	for a := 11; a < 110; a++ {
		out = append(out, float64(a)/10)
	}
	for a := 11; a <= 64; a++ {
		out = append(out, float64(a))
	}
	out = append(out, 96)
	for a := 128; a <= 1<<15; a *= 2 {
		out = append(out, float64(a))
	}
	return append(out, math.Inf(1))
}

// leastOrder is where the improved conversion starts: below, its terms lose digits.
const leastOrder = 1.01

// epsilonAt converts the RDP r at order a.
func epsilonAt(c Conversion, a, r, delta float64) float64 {
	switch {
	case math.IsInf(a, 1) || math.IsInf(r, 1):
		return r
	case c == Classic:
		return r - math.Log(delta)/(a-1)
	case a <= leastOrder:
		return math.Inf(1)
	}
	return max(0, r+math.Log1p(-1/a)-(math.Log(delta)+math.Log(a))/(a-1))
}

// logDeltaAt is ln delta for the RDP r at order a.
func logDeltaAt(c Conversion, a, r, eps float64) float64 {
	switch {
	case math.IsInf(r, 1):
		return 0
	case math.IsInf(a, 1):
		if r <= eps {
			return math.Inf(-1)
		}
		return 0
	case c == Classic:
		return min(0, (a-1)*(r-eps))
	case a <= leastOrder:
		return 0
	}
	return min(0, (a-1)*(r-eps+math.Log1p(-1/a))-math.Log(a))
}

// best returns the smallest epsilon over the orders and the index of its order.
//
// The shortcut is Bretagnolle and Huber's: the total variation is at most
// sqrt(1-e^-KL), and an RDP of any order is above the KL. If that is below delta,
// epsilon is 0.
func (o Options) best(orders, rdp []float64, delta float64) (eps float64, at int) {
	eps, at = math.Inf(1), -1
	for i, a := range orders {
		x := epsilonAt(o.Conversion, a, rdp[i], delta)
		if o.Orders == nil && o.Conversion == Improved && delta*delta+math.Expm1(-rdp[i]) > 0 {
			x = 0
		}
		if x < eps {
			eps, at = x, i
		}
	}
	return eps, at
}

// warning reports that the best order is at an end of the list.
func warning(orders []float64, at int, eps float64) []string {
	if at < 0 || eps == 0 || math.IsInf(orders[at], 1) {
		return nil
	}
	last := len(orders) - 1
	if last > 0 && math.IsInf(orders[last], 1) {
		last--
	}
	switch at {
	case 0:
		return []string{fmt.Sprintf("the best order is the lowest one, %v: a lower order could give a smaller epsilon",
			orders[at])}
	case last:
		return []string{fmt.Sprintf(
			"the best order is the highest one, %v: a higher order could give a smaller epsilon", orders[at])}
	}
	return nil
}
