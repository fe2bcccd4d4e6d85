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

// Calibrate finds the least noise for which the events cost at most target at delta.
// It returns a multiplier rounded up to five digits, and its cost, which is
// computed from the rounded one. events makes the events of a noise multiplier;
// more noise must cost less.
func Calibrate(target, delta float64, o Options, events func(noise float64) []Event) (float64, Result, error) {
	if math.IsNaN(target) || target <= 0 || math.IsInf(target, 1) {
		return 0, Result{}, fmt.Errorf("account: target epsilon is %v, want a positive number", target)
	}
	quick := o
	if o.Accountant == PLD { // its epsilon is never above RDP's, and dear
		quick.Accountant = RDP
	}
	hi, err := leastNoiseFor(target, delta, quick, events, 1e-9, mostNoise, 1e-7)
	if err == nil && o.Accountant == PLD {
		hi, err = leastNoiseFor(target, delta, o, events, hi/4, hi, 1e-4)
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
	return 0, Result{}, fmt.Errorf("account: no noise near %v keeps epsilon at %v: it does not fall with the noise", hi, target)
}

// leastNoiseFor bisects between lo and hi, on a log scale, to the given relative
// width; lo is moved down if it is enough already.
func leastNoiseFor(target, delta float64, o Options, events func(float64) []Event, lo, hi, width float64) (float64, error) {
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
		return 0, fmt.Errorf("account: with noise multiplier %g epsilon is still %.4g at delta %g, above the target %g; raise the target or delta, or do fewer rounds", hi, r.Epsilon, delta, target)
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

// roundUp rounds to five significant digits, so that what is printed is what was checked.
func roundUp(x float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))) / digits
	up, err := strconv.ParseFloat(strconv.FormatFloat(math.Ceil(x/unit*(1-1e-12))*unit, 'e', 4, 64), 64)
	if err != nil || up < x {
		return x
	}
	return up
}
