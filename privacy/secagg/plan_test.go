package secagg

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// exactTail is tail by whole numbers.
func exactTail(n, m, k, a int64) float64 {
	sum := new(big.Int)
	for x := max(a, k-(n-m)); x <= min(k, m); x++ {
		sum.Add(sum, new(big.Int).Mul(new(big.Int).Binomial(m, x), new(big.Int).Binomial(n-m, k-x)))
	}
	f, _ := new(big.Rat).SetFrac(sum, new(big.Int).Binomial(n, k)).Float64()
	return math.Log2(f)
}

func TestTailsAreThoseOfTheHypergeometric(t *testing.T) {
	if testing.Short() {
		t.Skip("much arithmetic: run without -short")
	}
	for _, c := range [][4]int{
		{999, 100, 106, 46},
		{999, 300, 106, 61},
		{9999, 1000, 134, 59},
		{199, 20, 54, 21},
		{99, 10, 30, 0},
		{50, 49, 10, 9},
		{1 << 20, 1 << 18, 200, 100},
	} {
		got, want := tail(c[0], c[1], c[2], c[3]), exactTail(int64(c[0]), int64(c[1]), int64(c[2]), int64(c[3]))
		if math.Abs(got-want) > 1e-6 && got != want {
			t.Errorf("log2 of the tail of %v is %.9f, want %.9f", c, got, want)
		}
	}
}

func TestUnlikelyIsWhereTheTailIsSmallEnough(t *testing.T) {
	for _, c := range [][3]int{{999, 300, 106}, {999, 0, 20}, {50, 49, 10}, {50, 5, 12}, {9999, 3300, 134}} {
		for _, limit := range []float64{-1, -20, -50} {
			a := unlikely(c[0], c[1], c[2], limit)
			if tail(c[0], c[1], c[2], a) > limit || a > 0 && tail(c[0], c[1], c[2], a-1) <= limit {
				t.Errorf("%v: %d is not the smallest place where the tail is 2^%g", c, a, limit)
			}
		}
	}
}

func TestAPlanWithstandsItsRisk(t *testing.T) {
	if testing.Short() {
		t.Skip("much arithmetic: run without -short")
	}
	for _, c := range []struct {
		n    int
		risk Risk
	}{
		{101, Risk{Corrupt: 0.1, Dropped: 0.3}},
		{1000, Risk{Corrupt: 0.1, Dropped: 0.3}},
		{1000, Risk{Corrupt: 1. / 3, Dropped: 0.1}},
		{10000, Risk{Corrupt: 0.1, Dropped: 0.3}},
		{1 << 20, Risk{Corrupt: 0.1, Dropped: 0.1, Security: 60, Failure: 30}},
	} {
		p, err := Plan(c.n, 10, 100, c.risk)
		if err != nil {
			t.Error(err)
			continue
		}
		security, failure := max(c.risk.Security, 40*(1-min(1, c.risk.Security))),
			max(c.risk.Failure, 20*(1-min(1, c.risk.Failure)))
		n, k := int64(c.n), int64(p.Degree)
		bad, gone, union := int64(c.risk.Corrupt*float64(n)), int64(c.risk.Dropped*float64(n)), math.Log2(float64(n))
		if got := union + exactTail(n-gone-1, bad, k, int64(p.Threshold)); got > -float64(security) {
			t.Errorf("%d devices: secrets open with chance 2^%.1f, want 2^-%d", n, got, security)
		}
		if got := 2*union + allBad(c.n, int(bad+gone), p.Degree); got > -float64(security) {
			t.Errorf("%d devices: the graph falls apart with chance 2^%.1f, want 2^-%d", n, got, security)
		}
		if got := union + exactTail(n-1, gone, k, k-int64(p.Threshold)+1); got > -float64(failure) {
			t.Errorf("%d devices: the round fails with chance 2^%.1f, want 2^-%d", n, got, failure)
		}
		if p.Degree >= c.n/2 && c.n >= 1000 {
			t.Errorf("%d devices have %d neighbours each: that is not sparse", n, p.Degree)
		}
	}
}

func TestSmallCohortsAndActiveServersHaveAllAsNeighbours(t *testing.T) {
	for _, c := range []struct{ n, threshold, active int }{
		{1, 1, 1},
		{2, 2, 2},
		{3, 2, 3},
		{5, 3, 4},
		{50, 26, 34},
		{100, 51, 67},
	} {
		for i, want := range []int{c.threshold, c.active} {
			p, err := Plan(c.n, 10, 100, Risk{Corrupt: 0.1, Dropped: 0.3, Active: i == 1})
			if c.n < 4 && i == 1 {
				p, err = Plan(c.n, 10, 100, Risk{Active: true})
			}
			if err != nil || p.Degree != c.n-1 || p.Threshold != want || p.MinDevices != want {
				t.Errorf("%d devices: %+v, %v, want threshold %d", c.n, p, err, want)
			}
		}
	}
}

func TestPlansThatCannotHoldAreRefused(t *testing.T) {
	for want, f := range map[string]func() (Params, error){
		"moduli end at 32 bits":      func() (Params, error) { return Plan(1000, 10, 1<<24, Risk{}) },
		"take numbers up to 2147483": func() (Params, error) { return Plan(1000, 10, 1<<24, Risk{}) },
		"sum below 1": func() (Params, error) {
			return Plan(1000, 10, 1,
				Risk{Corrupt: 0.5, Dropped: 0.5})
		},
		"make groups": func() (Params, error) { return Plan(256, 10, 1, Risk{Active: true}) },
		"more than 254 neighbours": func() (Params, error) {
			return Plan(10000, 10, 1,
				Risk{Corrupt: 0.4, Dropped: 0.4})
		},
		"assume fewer that leave or collude": func() (Params, error) {
			return Plan(50, 10, 1,
				Risk{Corrupt: 0.1, Dropped: 0.6})
		},
		"must be 1 to 1048576": func() (Params, error) { return Plan(0, 10, 1, Risk{}) },
		"vectors of 0 numbers": func() (Params, error) { return Plan(5, 0, 1, Risk{}) },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestParamsThatDoNotHoldTogetherAreRefused(t *testing.T) {
	good := Params{Devices: 200, Length: 10, Max: 100, Bits: 16, Degree: 20, Threshold: 10, MinDevices: 100}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Params){
		"devices":        func(p *Params) { p.Devices = maxDevices + 1 },
		"vectors of":     func(p *Params) { p.Length = maxLength + 1 },
		"largest number": func(p *Params) { p.Max = 0 },
		"modulus of 33":  func(p *Params) { p.Bits = 33 },
		"would wrap modulo 2^15: take a modulus of 16 bits, or numbers up to 81": func(p *Params) { p.Bits = 15 },
		"would wrap modulo 2^16: take a modulus of 17 bits, or numbers up to 163": func(p *Params) {
			p.Max = 164
		},
		"would wrap modulo 2^16: take numbers up to 10737418": func(p *Params) { p.Max = math.MaxInt64 },
		"21 neighbours":            func(p *Params) { p.Degree = 21 },
		"199 neighbours among 300": func(p *Params) { p.Degree, p.Devices, p.Bits = 199, 300, 16 },
		"256 neighbours":           func(p *Params) { p.Degree, p.Devices, p.Bits = 256, 1000, 20 },
		"threshold of 22 of 21":    func(p *Params) { p.Threshold = 22 },
		"threshold of 0":           func(p *Params) { p.Threshold = 0 },
		"at least 20 devices":      func(p *Params) { p.MinDevices = 20 },
		"at least 201 devices":     func(p *Params) { p.MinDevices = 201 },
		"every device must be":     func(p *Params) { p.Active = true },
		"more than two thirds are needed, 134": func(p *Params) {
			p.Active, p.Degree, p.Threshold, p.MinDevices = true,
				199, 133, 150
		},
		"at least 99 devices in a sum: must be 101": func(p *Params) {
			p.Degree, p.Threshold, p.MinDevices = 199, 101,
				99
		},
	} {
		p := good
		change(&p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestNeighboursAreMutualAndFollowTheSeed(t *testing.T) {
	r := testRound(t, 200, 3, 16)
	present := newSet(200)
	for id := range uint32(200) {
		if id%10 != 3 {
			present.add(id)
		}
	}
	g := newGraph(&r, present)
	for _, u := range g.ring {
		list := g.neighbours(u)
		if len(list) != 16 {
			t.Fatalf("device %d has %d neighbours, want 16", u, len(list))
		}
		for i, v := range list {
			if i > 0 && list[i-1] >= v || v == u || !present.Has(v) {
				t.Fatalf("neighbours of %d are %v", u, list)
			}
			if back := g.neighbours(v); !slices.Contains(back, u) {
				t.Fatalf("%d is a neighbour of %d and not the other way round: %v", v, u, back)
			}
		}
	}
	other := r
	other.Seed[5] = 1
	if h := newGraph(&other, present); slices.Equal(h.ring, g.ring) {
		t.Error("another seed gives the same order")
	}
}

// Each of 6 orders of 3 has chance 1/6. Chi-square with 5 degrees of freedom; it
// is above 35.9 with a chance of 1e-6.
func TestTheOrderIsUniform(t *testing.T) {
	const draws = 6000
	counts := map[[3]uint32]int{}
	for i := range draws {
		counts[[3]uint32(shuffled(3, [keySize]byte{byte(i), byte(i >> 8), 1}))]++
	}
	chi := 0.0
	for _, n := range counts {
		d := float64(n) - draws/6
		chi += d * d / (draws / 6)
	}
	if len(counts) != 6 || chi > 35.9 {
		t.Errorf("chi-square is %.1f over %d orders, want at most 35.9 over 6", chi, len(counts))
	}
}
