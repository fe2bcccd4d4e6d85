package aggregate

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

func TestNoiseReadsAndWritesItsText(t *testing.T) {
	for _, text := range []string{"none", "laplace:0.3", "gauss:2", "laplace:0"} {
		var n Noise
		if err := n.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got, _ := n.MarshalText(); string(got) != text {
			t.Errorf("%q is written as %q", text, got)
		}
		if n.On() != (n.Scale > 0) {
			t.Errorf("%q: On is %v", text, n.On())
		}
	}
	for _, text := range []string{
		"", "laplace", "laplace:", "laplace:-1", "laplace:x", "gauss:inf", "gauss:nan",
		"none:1", "cauchy:1",
	} {
		var n Noise
		if err := n.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, n)
		}
	}
}

// draws are sums of the noise of that many devices, drawn at once.
func draws(n Noise, devices, count int) []float64 {
	sum := make([]float32, count*8)
	n.AddSum(devices, rng.New(rng.Test, uint64(devices)), 8, 5, sum)
	var out []float64
	for i, x := range sum {
		if i%8 < 5 {
			out = append(out, float64(x))
		}
	}
	return out
}

// The largest distance between an empirical and the true distribution function of
// N draws exceeds 2.23/sqrt(N) with probability 1e-4 (Kolmogorov).
const distance = 2.23

func TestOneDevicesNoiseHasItsDistribution(t *testing.T) {
	for _, c := range []struct {
		noise Noise
		cdf   func(x float64) float64
	}{
		{Noise{"laplace", 0.5}, func(x float64) float64 {
			if x < 0 {
				return 0.5 * math.Exp(x/0.5)
			}
			return 1 - 0.5*math.Exp(-x/0.5)
		}},
		{Noise{"gauss", 2}, func(x float64) float64 { return 0.5 * math.Erfc(-x/2/math.Sqrt2) }},
	} {
		xs := draws(c.noise, 1, 8000)
		slices.Sort(xs)
		far := 0.0
		for i, x := range xs {
			far = max(far, math.Abs(c.cdf(x)-float64(i)/float64(len(xs))),
				math.Abs(c.cdf(x)-float64(i+1)/float64(len(xs))))
		}
		if bound := distance / math.Sqrt(float64(len(xs))); far > bound {
			t.Errorf("%+v: the distribution is off by %g, more than %g", c.noise, far, bound)
		}
	}
}

// A sum of n Laplace variables drawn at once is compared with n drawn one by one,
// by the two-sample form of the same test.
func TestTheSumOfNoisesIsThatOfDevicesOneByOne(t *testing.T) {
	const devices = 7
	once := draws(Noise{"laplace", 0.3}, devices, 4000)
	r := rng.New(rng.Test, 99)
	single := make([]float64, len(once))
	for i := range single {
		for range devices {
			u := r.Float64() - 0.5
			single[i] -= 0.3 * math.Copysign(math.Log(1-2*math.Abs(u)), u)
		}
	}
	slices.Sort(once)
	slices.Sort(single)
	far := 0.0
	for i, x := range once {
		below, _ := slices.BinarySearch(single, x)
		far = max(far, math.Abs(float64(i)/float64(len(once))-float64(below)/float64(len(single))))
	}
	if bound := distance * math.Sqrt(2/float64(len(once))); far > bound {
		t.Errorf("the two distributions are %g apart, more than %g", far, bound)
	}
}

// With many devices the mean has the deviation lambda*sqrt(2/n) that the PFedRec
// paper's Table 4 lives on. The sample variance of N normal numbers is off by more
// than 3.9*sqrt(2/N) of itself with probability 1e-4.
func TestTheVarianceOfManyNoises(t *testing.T) {
	for _, n := range []Noise{{"laplace", 0.5}, {"gauss", 0.7}} {
		const devices = 943
		xs := draws(n, devices, 8000)
		want := devices * n.Scale * n.Scale
		if n.Kind == "laplace" {
			want *= 2
		}
		got := 0.0
		for _, x := range xs {
			got += x * x / float64(len(xs))
		}
		if math.Abs(got/want-1) > 3.9*math.Sqrt(2/float64(len(xs))) {
			t.Errorf("%+v: the variance of the sum is %g, want %g", n, got, want)
		}
	}
}

func TestNoNoiseChangesNothingAndPaddingStaysZero(t *testing.T) {
	sum := []float32{1, 2, 0, 0, 0, 0, 0, 0}
	Noise{Kind: "none"}.AddSum(10, rng.New(1), 8, 2, sum)
	Noise{"laplace", 1}.AddSum(0, rng.New(1), 8, 2, sum)
	if sum[0] != 1 || sum[1] != 2 {
		t.Errorf("without noise or devices the sum is %v", sum)
	}
	Noise{"laplace", 1}.AddSum(3, rng.New(1), 8, 2, sum)
	if sum[0] == 1 || sum[1] == 2 {
		t.Errorf("noise leaves %v", sum)
	}
	for _, x := range sum[2:] {
		if x != 0 {
			t.Errorf("padding is %v", sum)
		}
	}
}
