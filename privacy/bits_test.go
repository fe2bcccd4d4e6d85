package privacy

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/privacy/account"
)

// A sum of clipping bits is plausible if honest devices can make it, with noise that is exceeded with a
// probability below 1e-9, whoever adds the noise.
func TestPlausibleBits(t *testing.T) {
	for _, trust := range []Trust{Central, Distributed} {
		p := defaultPolicy()
		p.Epsilon, p.Delta, p.Adaptive, p.Trust, p.MinDevices, p.BitNoise = 8, 1e-6, "geometric", trust, 20, 2
		k, err := Build(p, Run{
			Method: "test", Sends: true, Users: 100, Expected: 100, Sampler: account.None, Q: 1, Rounds: 10,
			Numbers: 50,
			Mean:    "fixed", Step: 1, Masked: true, Drawn: trust == Distributed,
		})
		if err != nil {
			t.Fatal(err)
		}
		const n = 30
		deviation := float64(k.RemainingCountNoise(0, n))
		if k.Drawn {
			deviation = float64(k.CountNoiseShare(0)) * math.Sqrt(n)
		}
		all := float64(n * BitLevels / 2)
		for bits, want := range map[float64]bool{
			0: true, all: true, -all: true, all + 6*deviation: true, -all - 6*deviation: true,
			all + 6.5*deviation: false, -all - 6.5*deviation: false, 100 * all: false,
		} {
			if got := k.PlausibleBits(0, n, int64(bits)); got != want {
				t.Errorf("%s: a sum of %g is plausible: %v", trust, bits, got)
			}
		}
		if p := math.Erfc(plausibleDeviations / math.Sqrt2); p > 1e-9 {
			t.Errorf("honest devices are ignored with probability %g", p)
		}
	}
}
