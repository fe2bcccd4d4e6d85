package privacy

import (
	"math"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/privacy/account"
)

// A coordinator knows whom it has asked, so a sample hides nobody from it.
func TestNoAmplificationAgainstTheCoordinator(t *testing.T) {
	noise := map[Trust]float64{}
	for _, text := range []string{"epsilon=8", "epsilon=8,trust=distributed,min-devices=60", "epsilon=8,trust=local"} {
		s := setting()
		s.Masked = strings.Contains(text, "distributed")
		k, err := Build(policy(t, text), s)
		if err != nil {
			t.Fatal(err)
		}
		e, err := k.Events(k.Noise, 1)
		if err != nil {
			t.Fatal(err)
		}
		if sampled := e[0].Sampler != account.None || e[0].Q != 1; sampled != (k.Trust == Central) {
			t.Errorf("%s claims the sampler %s with q %g", text, e[0].Sampler, e[0].Q)
		}
		noise[k.Trust] = k.Noise
	}
	if noise[Distributed] != noise[Local] || noise[Central] >= noise[Local] {
		t.Errorf("the multipliers are %v", noise)
	}
}

// Fewer honest devices than were counted on leave less noise than was promised: with half
// of them the multiplier is 1/sqrt(2) of it.
func TestDistributedNoiseRestsOnTheHonestDevices(t *testing.T) {
	s := setting()
	s.Masked = true
	k, err := Build(policy(t, "epsilon=8,trust=distributed,min-devices=60"), s)
	if err != nil {
		t.Fatal(err)
	}
	whole := float64(k.at(0).deviation)
	for devices, want := range map[int]float64{60: 1, 100: math.Sqrt(100.0 / 60), 30: math.Sqrt(0.5)} {
		if got := float64(k.NoiseParts(0, devices)[0].Deviation) / whole; math.Abs(got-want) > 1e-3 {
			t.Errorf("%d devices add %.4f of the noise, want %.4f", devices, got, want)
		}
	}
}

func TestEveryGuaranteeNamesItsCaveats(t *testing.T) {
	for text, want := range map[string]string{
		"epsilon=8":                  "settings chosen by looking at the same users' data are not covered",
		"epsilon=8,clip=2":           "publishing them would spend more",
		"epsilon=8,cover=decoys:3":   "no epsilon covers them",
		"epsilon=8,noise-cohort=900": "not to this one",
	} {
		k, err := Build(policy(t, text), setting())
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(k.Caveats(), "\n"); !strings.Contains(all, want) {
			t.Errorf("%s does not say %q:\n%s", text, want, all)
		}
	}
}
