package account

import (
	"fmt"
	"math"
	"strconv"
)

const (
	mostNoise = 1e9
	digits    = 1e4 // five significant digits
)

// Calibrate finds the smallest noise multiplier for which the events cost at most target at
// delta. It returns the multiplier rounded up to five digits and the cost of the rounded
// one. The function events makes the events of a multiplier; more noise must cost less.
func Calibrate(target, delta float64, o Options, events func(noise float64) []Event) (float64, Result, error) {
	if math.IsNaN(target) || target <= 0 || math.IsInf(target, 1) {
		return 0, Result{}, fmt.Errorf("target epsilon=%v: must be a positive number", target)
	}
	quick := o
	if o.Accountant == PLD { // never above RDP's, and expensive
		quick.Accountant = RDP
	}
	hi, err := leastNoiseFor(target, delta, quick, events, 1e-9, mostNoise, 1e-7)
	if err == nil && o.Accountant == PLD {
		hi, err = refine(target, delta, o, events, hi)
	}
	if err != nil {
		return 0, Result{}, err
	}
	for range 100 {
		hi = roundUp(hi)
		r, err := Epsilon(delta, o, events(hi)...)
		if err != nil {
			return 0, Result{}, err
		}
		if r.Epsilon <= target {
			return hi, r, nil
		}
		hi *= 1 + 1/digits
	}
	return 0, Result{}, fmt.Errorf("no noise near %v keeps epsilon at %v: it does not fall with the noise",
		hi, target)
}

// leastNoiseFor bisects between lo and hi on a log scale to the given relative width. It
// lowers lo first if lo is already sufficient.
func leastNoiseFor(target, delta float64, o Options, events func(float64) []Event, lo, hi, width float64) (float64,
	error,
) {
	enough := func(z float64) (bool, error) {
		r, err := Epsilon(delta, o, events(z)...)
		return err == nil && r.Epsilon <= target, err
	}
	ok, err := enough(hi)
	if err != nil {
		return 0, err
	}
	if !ok {
		r, err := Epsilon(delta, o, events(hi)...)
		if err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("with noise multiplier %g epsilon is still %.4g at delta %g, above the target "+
			"%g; raise the target or delta, or do fewer rounds", hi, r.Epsilon, delta, target)
	}
	for lo > 1e-9 {
		if ok, err = enough(lo); err != nil {
			return 0, err
		} else if !ok {
			break
		}
		lo, hi = lo/4, lo
	}
	for hi/lo > 1+width {
		mid := math.Sqrt(lo) * math.Sqrt(hi)
		if ok, err = enough(mid); err != nil {
			return 0, err
		} else if ok {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi, nil
}

// near is how close below the target the epsilon of a refined noise is.
const near = 1e-4

// refine finds the smallest noise in few steps of an expensive accountant, starting from a
// sufficient noise. Log epsilon is nearly linear in log noise, so the line through the ends
// of the bracket leads close to the target; every third step halves the bracket in case it
// does not.
func refine(target, delta float64, o Options, events func(float64) []Event, hi float64) (float64, error) {
	r, err := Epsilon(delta, o, events(hi)...)
	top := r.Epsilon
	if err != nil || top > target { // Calibrate looks above it
		return hi, err
	}
	aim := math.Log(target * (1 - near/2))
	lo, slope := 0.0, -1.0 // a Gaussian release without sampling costs about 1/noise
	for n := 1; hi > lo*(1+near) && top < target*(1-near) && hi > 1e-9; n++ {
		z, floor := hi*math.Exp((aim-math.Log(top))/slope), max(lo, hi/4)
		if !(z > floor && z < hi) || lo > 0 && n%3 == 0 {
			z = math.Sqrt(floor) * math.Sqrt(hi)
		}
		if r, err = Epsilon(delta, o, events(z)...); err != nil {
			return 0, err
		}
		if got := math.Log(r.Epsilon/top) / math.Log(z/hi); got < -0.1 && !math.IsInf(got, 0) {
			slope = got
		}
		if r.Epsilon <= target {
			hi, top = z, r.Epsilon
		} else {
			lo = z
		}
	}
	return hi, nil
}

// roundUp rounds to five significant digits, so that what is printed is what was checked.
func roundUp(x float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))) / digits
	up, err := strconv.ParseFloat(strconv.FormatFloat(math.Ceil(x/unit*(1-1e-12))*unit, 'e', 4, 64), 64)
	if err != nil || up < x {
		return x
	}
	return up
}
