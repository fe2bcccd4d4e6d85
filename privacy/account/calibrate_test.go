package account

import (
	"testing"
)

// The privacy loss of a sampled release takes up to a second to compute; bisection took 17
// of them.
func TestCalibrationByPLDTakesFewSteps(t *testing.T) {
	for _, c := range []struct {
		target, q float64
		rounds    int64
	}{{1, 0.01, 100}, {20, 0.5, 40}, {3, 1, 10}} {
		calls := 0
		build := func(z float64) []Event {
			calls++
			return []Event{sgm(c.q, z, c.rounds)}
		}
		o := Options{Accountant: PLD}
		_, _, err := Calibrate(c.target, 1e-6, Options{}, build)
		if err != nil {
			t.Fatal(err)
		}
		cheap := calls
		calls = 0
		z, r, err := Calibrate(c.target, 1e-6, o, build)
		if err != nil {
			t.Fatal(err)
		}
		if dear := calls - cheap; dear > 8 {
			t.Errorf("epsilon %g at q %g: %d evaluations by PLD, want 8 at most", c.target, c.q, dear)
		}
		if r.Epsilon > c.target || r.Epsilon < c.target*0.999 {
			t.Errorf("noise %g has epsilon %g, want just below %g", z, r.Epsilon, c.target)
		}
		if less := epsilonOf(t, 1e-6, o, build(z*(1-5e-4))...); less.Epsilon <= c.target {
			t.Errorf("noise %g would have been enough", z*(1-5e-4))
		}
	}
}
