package account

import (
	"fmt"
	"math"
)

// GaussianDelta is the exact delta of one Gaussian release with noise multiplier
// sigma (Balle and Wang 2018, theorem 8). T releases with multipliers zᵢ are one with Joint(z...).
func GaussianDelta(sigma, eps float64) (float64, error) {
	if err := checkGaussian(sigma); err != nil {
		return 0, err
	}
	if math.IsNaN(eps) || eps < 0 {
		return 0, fmt.Errorf("epsilon=%v: must be 0 or more", eps)
	}
	return gaussianDelta(sigma, eps), nil
}

// GaussianEpsilon is the exact epsilon of one Gaussian release.
func GaussianEpsilon(sigma, delta float64) (float64, error) {
	if err := checkGaussian(sigma); err != nil {
		return 0, err
	}
	if err := checkDelta(delta); err != nil {
		return 0, err
	}
	return gaussianEpsilon(sigma, delta), nil
}

func checkGaussian(sigma float64) error {
	if math.IsNaN(sigma) || sigma < 0 {
		return fmt.Errorf("noise=%v: must be 0 or more", sigma)
	}
	return nil
}

func checkDelta(delta float64) error {
	if math.IsNaN(delta) || delta < 0 || delta > 1 {
		return fmt.Errorf("delta=%v: must be 0 to 1, and below 1/users to mean anything, such as 1e-6", delta)
	}
	return nil
}

// gaussianDelta is Φ(1/2σ - εσ) - e^ε·Φ(-1/2σ - εσ). With u = (εσ - 1/2σ)/√2 and
// w = (εσ + 1/2σ)/√2, w² - u² = ε, so it is e^(-u²)·(erfcx u - erfcx w)/2: nothing
// overflows, and where σ is large the difference is an integral of a derivative.
func gaussianDelta(sigma, eps float64) float64 {
	switch {
	case math.IsInf(sigma, 1) || math.IsInf(eps, 1):
		return 0
	case sigma == 0:
		return 1
	}
	half := 1 / sigma / 2
	u, w := (eps*sigma-half)/math.Sqrt2, (eps*sigma+half)/math.Sqrt2
	gap := math.Sqrt2 * half // w-u, with all its digits
	switch {
	case math.IsInf(u, 1):
		return 0
	case math.IsInf(u, -1):
		return 1
	case gap < 0.1: // the derivative of erfcx is 2x·erfcx(x) - 2/√π
		d := 0.0
		for i, x := range gaussX5 {
			x = u + gap*x
			d += gaussW5[i] * (2/math.Sqrt(math.Pi) - 2*x*erfcx(x))
		}
		return max(0, math.Exp(-u*u)*d*gap/2)
	case u < 0: // Φ is above 1/2, and erfcx u may overflow
		return min(1, max(0, (math.Erfc(u)-math.Exp(-u*u)*erfcx(w))/2))
	}
	return max(0, math.Exp(-u*u)*(erfcx(u)-erfcx(w))/2)
}

// erfcx is e^(x²)·erfc(x), for x that is not far below 0.
func erfcx(x float64) float64 {
	if x < 5 {
		return math.Exp(x*x) * math.Erfc(x)
	}
	f := 0.0 // the continued fraction of Laplace; 40 levels give full precision from 5 on
	for k := 40.0; k > 0; k-- {
		f = k / 2 / (x + f)
	}
	return 1 / (x + f) / math.Sqrt(math.Pi)
}

// gaussianEpsilon inverts gaussianDelta; it returns the upper end of the last
// interval of a bisection.
func gaussianEpsilon(sigma, delta float64) float64 {
	switch {
	case math.IsInf(sigma, 1) || gaussianDelta(sigma, 0) <= delta:
		return 0
	case delta == 0 || sigma == 0:
		return math.Inf(1)
	}
	lo, hi := 0.0, 1.0
	for gaussianDelta(sigma, hi) > delta {
		lo, hi = hi, 2*hi
		if math.IsInf(hi, 1) {
			return hi
		}
	}
	for range 200 {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if gaussianDelta(sigma, mid) > delta {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// Nodes and weights of Gauss and Legendre on [0, 1].
var (
	gaussX3 = [3]float64{0.11270166537925831, 0.5, 0.8872983346207417}
	gaussW3 = [3]float64{5.0 / 18, 8.0 / 18, 5.0 / 18}
	gaussX5 = [5]float64{0.046910077030668, 0.23076534494715845, 0.5, 0.7692346550528415, 0.953089922969332}
	gaussW5 = [5]float64{
		0.11846344252809454, 0.23931433524968324, 0.28444444444444444, 0.23931433524968324,
		0.11846344252809454,
	}
)
