package privacy

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/privacy/account"
)

// extremes are values at and beyond the ends of what a policy may contain.
var extremes = []string{
	"0", "1e-300", "1e-12", "1e-3", "0.5", "0.999999", "1", "1.5", "100", "999", "1001", "20000", "1e6", "1e9", "1e12",
	"1e13", "-1", "NaN", "Inf", "-Inf", "1e400", "0x1p-1074", "",
}

var extremeBases = []string{
	"epsilon=8", "noise=1", "epsilon=8,adaptive=geometric,bit-noise=40", "noise=1,adaptive=linear,balance=0.5",
	"epsilon=8,metrics=5", "epsilon=8,trust=distributed,min-devices=20",
	"epsilon=8,trust=distributed,min-devices=20,adaptive=geometric,bit-noise=80", "epsilon=50,trust=local",
	"epsilon=50,trust=local,mechanism=laplace", "noise=1,noise-cohort=1000",
}

// Whatever number a policy contains, it is refused when it is parsed or built, or all of its noise can be
// drawn: nothing panics after the ledger has recorded a release.
func TestExtremeNumbersOfAPolicyAreRefusedBeforeARelease(t *testing.T) {
	built := 0
	for i := range fields {
		f := &fields[i]
		if f.number == nil && f.whole == nil {
			continue
		}
		for _, base := range extremeBases {
			for _, value := range extremes {
				if tryExtreme(t, base, f.key, value) {
					built++
				}
			}
		}
	}
	if built < 100 {
		t.Errorf("only %d policies were built: the test does not show much", built)
	}
}

// tryExtreme builds a policy with one number replaced and draws its noise. It returns whether the
// policy is valid.
func tryExtreme(t *testing.T, base, key, value string) bool {
	t.Helper()
	var words []string
	for word := range strings.SplitSeq(base, ",") {
		if !strings.HasPrefix(word, key+"=") {
			words = append(words, word)
		}
	}
	text := strings.Join(append(words, key+"="+value), ",")
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: %v", text, r)
		}
	}()
	var p Policy
	if p.UnmarshalText([]byte(text)) != nil {
		return false
	}
	s := setting()
	s.Sampler, s.Q, s.Users, s.Rounds = account.None, 1, 100, 5
	s.Masked, s.Drawn, s.Metrics = p.Trust == Distributed, p.Trust == Distributed, 3
	k, err := Build(p, s)
	if err != nil {
		return false
	}
	drawAll(t, text, k)
	return true
}

// drawAll draws every noise of a stack, and checks that none is less than the accountant assumes.
func drawAll(t *testing.T, text string, k *Stack) {
	t.Helper()
	from := NewSource(rng.Bytes(1, rng.Noise))
	one := make([]int64, 1)
	draw := func(deviation int64) {
		one[0] = 0
		from.AddGauss(deviation, one)
	}
	b := k.Bound(0)
	least := b.Sensitivity(k.Numbers) * k.UpdateNoise
	if got := k.at(0).deviation; k.NoiseCohort == 0 && float64(got) < least*(1-1e-9) {
		t.Errorf("%s: noise of %d integers: must be at least %g", text, got, least)
	}
	for _, devices := range []int{1, int(k.Expected), int(k.MaxCohort())} {
		for round := range 3 {
			if k.Mechanism != Laplace {
				for _, part := range k.NoiseParts(round, devices) {
					draw(part.Deviation)
				}
			}
			if k.Trust == Distributed {
				draw(k.NoiseShare(round))
			}
			if k.Adaptive != "off" {
				draw(k.RemainingCountNoise(round, devices))
				draw(k.CountNoiseShare(round))
			}
			if x := k.SumDeviation(round, devices); math.IsNaN(x) || math.IsInf(x, 0) {
				t.Errorf("%s: a sum has noise of %g", text, x)
			}
			if k.MaxInteger(round) < 1 {
				t.Errorf("%s: integers up to %d", text, k.MaxInteger(round))
			}
		}
	}
	if m := k.Policy.Metrics; m > 0 { // as a simulation and as a coordinator draw it
		draw(int64(m*(MetricSensitivity*(1<<12)+2)) + 1)
		draw(int64(math.Ceil(m * MetricSensitivity * (1<<10 + 1))))
	}
	for _, bits := range []int64{-1 << 40, 0, 1 << 40} {
		if err := k.Adapt(bits); err == nil && !(k.Clip >= minClip && k.Clip <= maxClip) {
			t.Errorf("%s: the clipping bound became %g", text, k.Clip)
		}
	}
	if e := fmt.Sprint(k.Total.Epsilon); e == "NaN" {
		t.Errorf("%s: epsilon is not a number", text)
	}
}
