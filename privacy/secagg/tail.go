package secagg

import "math"

// Tail is a bound that discrete Gaussian noise of deviation sigma exceeds in the given
// number of draws with probability at most p, by 2 exp(-x^2 / 2 sigma^2) per draw: the
// discrete Gaussian is sub-Gaussian (Canonne, Kamath and Steinke 2020). A device redraws
// larger values; p must then be added to the delta of the release.
func Tail(sigma float64, draws int, p float64) int64 {
	if !(sigma >= 0 && sigma < 1<<32 && p > 0 && p < 1) || draws < 1 {
		panic("secagg: Tail requires a finite deviation, at least one draw and a probability between 0 and 1")
	}
	return int64(math.Ceil(sigma * math.Sqrt(2*math.Log(2*float64(draws)/p))))
}
