package account

import (
	"math"
	"testing"
)

// Releases of different noise without sampling are one Gaussian release, whose mu² is
// what their 1/z² add up to. The values of mu for delta 1e-6 were found with 60 digits.
func TestReleasesOfDifferentNoiseAreOneGaussian(t *testing.T) {
	for eps, mu := range map[float64]float64{1: 0.2367, 3: 0.6477, 10: 1.848, 20: 3.235} {
		for _, shares := range [][]float64{{1}, {0.1, 0.9}, {0.02, 0.18, 0.3, 0.5}} {
			var events []Event
			for _, share := range shares {
				for range 2 { // two rounds with half of it each
					events = append(events, Event{
						Mechanism: Gaussian, Adjacency: ZeroOut, Sampler: None,
						Noise: math.Sqrt(2/share) / mu, Rounds: 1,
					})
				}
			}
			for _, accountant := range []Accountant{Exact, PLD} {
				r, err := Epsilon(1e-6, Options{Accountant: accountant}, events...)
				if err != nil || math.Abs(r.Epsilon/eps-1) > 1e-3 || r.Accountant != Exact {
					t.Errorf("%s, shares %v of mu %g: epsilon is %v by %s (%v), want %g", accountant, shares, mu,
						r.Epsilon, r.Accountant, err, eps)
				}
			}
			rdp, err := Epsilon(1e-6, Options{}, events...)
			if err != nil || rdp.Epsilon < eps*(1-1e-3) {
				t.Errorf("shares %v: RDP says %v (%v), below the true %g", shares, rdp.Epsilon, err, eps)
			}
		}
	}
}
