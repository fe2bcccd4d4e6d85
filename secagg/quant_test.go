package secagg

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestTheWrapProofIsTight(t *testing.T) {
	for _, c := range []struct {
		q       Quant
		modulus int    // that it takes
		want    string // or of the error
	}{
		{Quant{Devices: 1000, Bits: 16}, 26, ""},
		{Quant{Devices: 1000, Bits: 16, Modulus: 26}, 26, ""},
		{Quant{Devices: 1000, Bits: 16, Noise: 787, Modulus: 26}, 26, ""}, // 1000 * 33554 <= 2^25-1
		{Quant{Devices: 1000, Bits: 16, Noise: 788, Modulus: 26}, 0, "a modulus of 27 bits is the smallest that would do, or take numbers of 15 bits"},
		{Quant{Devices: 1024, Bits: 16, Modulus: 26}, 26, ""}, // the rule n * 2^b <= 2^m
		{Quant{Devices: 1024, Bits: 16, Modulus: 25}, 0, "a modulus of 26 bits"},
		{Quant{Devices: 65536, Bits: 16}, 32, ""},
		{Quant{Devices: 65540, Bits: 16}, 0, "33 bits would be needed and 32 is the most there is, or take numbers of 15 bits"},
		{Quant{Devices: 10, Bits: 16, Noise: 1 << 30}, 0, "fewer bits do not help"},
		{Quant{Devices: 1, Bits: 2}, 2, ""},
	} {
		c.q.Peak = 1
		z, err := NewQuantiser(c.q)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: got %v, want an error with %q", c.q, err, c.want)
		case c.want == "" && (err != nil || z.Modulus() != c.modulus):
			t.Errorf("%+v: got %+v, %v, want a modulus of %d bits", c.q, z, err, c.modulus)
		case c.want == "":
			p, err := Plan(c.q.Devices, 1, z.Max(), Risk{})
			if err != nil || p.Bits > z.Modulus() {
				t.Errorf("%+v: the plan has %d bits, %v, want at most %d", c.q, p.Bits, err, z.Modulus())
			}
		}
	}
}

func TestQuantisersRefuseWhatHasNoMeaning(t *testing.T) {
	for want, q := range map[string]Quant{
		"0 devices":         {Peak: 1, Bits: 8},
		"one of them posit": {Devices: 5, Bits: 8},
		"norm NaN":          {Devices: 5, Bits: 8, Norm: math.NaN(), Peak: 1},
		"peak +Inf":         {Devices: 5, Bits: 8, Peak: math.Inf(1)},
		"of 1 bits":         {Devices: 5, Bits: 1, Peak: 1},
		"of 25 bits":        {Devices: 5, Bits: 25, Peak: 1},
		"noise up to -1":    {Devices: 5, Bits: 8, Peak: 1, Noise: -1},
		"modulus of 40":     {Devices: 5, Bits: 8, Peak: 1, Modulus: 40},
		"beta is 0.9":       {Devices: 5, Bits: 8, Peak: 1, Beta: 0.9},
	} {
		if _, err := NewQuantiser(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	z := quantiser(t, Quant{Devices: 5, Peak: 1, Bits: 8})
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		if err := z.Encode([]float32{0, bad}, nil, make([]int32, 2)); err == nil {
			t.Errorf("%v is encoded", bad)
		}
	}
	if err := z.Encode([]float32{0}, nil, make([]int32, 2)); err == nil {
		t.Error("one number is encoded as two")
	}
}

func quantiser(t *testing.T, q Quant) *Quantiser {
	t.Helper()
	z, err := NewQuantiser(q)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// Over many draws the mean of a rounded number is the number. With a variance f(1-f)
// of a draw, the mean is off by more than 5.5 deviations with a chance of 4e-8; for
// the 200 numbers together, 8e-6.
func TestRandomRoundingHasNoBias(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	const draws = 5000
	z := quantiser(t, Quant{Devices: 100, Norm: 1, Bits: 10})
	r := rand.New(rand.NewPCG(1, 1))
	x, dst, sum := make([]float32, 200), make([]int32, 200), make([]float64, 200)
	for i := range x {
		x[i] = float32(r.Float64()-0.5) / 10 // of norm about 0.4: nothing is clipped
	}
	random := newStream([keySize]byte{1})
	for range draws {
		if err := z.Encode(x, random, dst); err != nil {
			t.Fatal(err)
		}
		for i, v := range dst {
			sum[i] += float64(v)
		}
	}
	for i := range x {
		y := float64(x[i]) * z.scale
		f := y - math.Floor(y)
		if d := math.Abs(sum[i]/draws-y) / math.Sqrt(f*(1-f)/draws+1e-12); d > 5.5 {
			t.Errorf("number %d is %.4f and on average %.4f, %.1f deviations off", i, y, sum[i]/draws, d)
		}
	}
}

// The worst vector for rounding is as long as it may be and has every fraction at
// one half. None is over Bound, and the longest come near it.
func TestRoundingKeepsTheNorm(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	const n = 1000
	for _, beta := range []float64{0, math.Exp(-0.5)} {
		z := quantiser(t, Quant{Devices: 10, Norm: 1, Peak: 31 / (1.5 * math.Sqrt(n)), Bits: 6, Beta: beta})
		x, dst := make([]float32, n), make([]int32, n)
		for i := range x {
			x[i] = float32(1.5 / z.scale) // norm 1
		}
		random, bound, longest := newStream([keySize]byte{2}), z.Bound(n), 0.0
		for range 1000 {
			if err := z.Encode(x, random, dst); err != nil {
				t.Fatal(err)
			}
			longest = max(longest, norm(dst))
		}
		if longest > bound || longest < 0.95*bound {
			t.Errorf("beta %g: the longest vector has norm %.1f, want at most %.1f and near it", beta, longest, bound)
		}
		for i := range x { // far over the norm: clipped to it, then rounded
			x[i] = float32(i%7) - 3
		}
		if err := z.Encode(x, random, dst); err != nil || norm(dst) > bound || norm(dst) < 0.9*bound {
			t.Errorf("beta %g: a long vector has norm %.1f, %v, want at most %.1f and near it", beta, norm(dst), err, bound)
		}
	}
}

func norm(x []int32) float64 {
	s := 0.0
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return math.Sqrt(s)
}

// A bound below what most roundings give: the draws that are over it are redrawn,
// seen by the chance that is left when the condition is taken away.
func TestTooLongVectorsAreRoundedAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	z := quantiser(t, Quant{Devices: 10, Norm: 1, Bits: 2, Beta: math.Exp(-0.5)})
	const n = 8 // levels 1: fractions of 1/sqrt(8), norm 1
	x, dst := make([]float32, n), make([]int32, n)
	for i := range x {
		x[i] = float32(1 / math.Sqrt(n))
	}
	bound, over := z.Bound(n), 0
	u := uniform{stream: newStream([keySize]byte{3})}
	for range 1000 {
		if z.round(x, z.scale, u.next, dst) > bound*bound {
			over++
		}
		if err := z.Encode(x, newStream([keySize]byte{byte(over), 4}), dst); err != nil || norm(dst) > bound {
			t.Fatalf("norm %.2f, %v, want at most %.2f", norm(dst), err, bound)
		}
	}
	if over == 0 || over > 607 {
		t.Errorf("%d of 1000 roundings are over the bound without the condition, want some and at most 60.7 %%", over)
	}
}

func TestNearestRoundingIsExactToHalfAStep(t *testing.T) {
	z := quantiser(t, Quant{Devices: 10, Peak: 2, Bits: 8, Nearest: true})
	x := []float32{0, 1, -1, 2, -2, 3, -7, 0.013, -0.013}
	dst, back := make([]int32, len(x)), make([]float32, len(x))
	if err := z.Encode(x, nil, dst); err != nil {
		t.Fatal(err)
	}
	z.Decode(dst, back)
	for i, v := range x {
		want := max(-2, min(2, float64(v)))
		if math.Abs(float64(back[i])-want) > 0.5/z.scale+1e-7 {
			t.Errorf("%g comes back as %g, want %g within %g", v, back[i], want, 0.5/z.scale)
		}
	}
	if !slices.Equal(dst[3:7], []int32{127, -127, 127, -127}) {
		t.Errorf("what is at or over the peak becomes %v, want 127", dst[3:7])
	}
}

// Real vectors in, their mean out: the whole way, with integer noise.
func TestTheSumOfRealVectorsComesBack(t *testing.T) {
	const n, length = 6, 500
	z := quantiser(t, Quant{Devices: n, Norm: 1, Bits: 16, Noise: Tail(3, n*length, 1e-9)})
	p, err := Plan(n, length, z.Max(), Risk{})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, length)
	x := make([][]float32, n)
	for id := range x {
		r := rand.New(rand.NewPCG(uint64(id), 5))
		x[id] = make([]float32, length)
		for i := range x[id] {
			x[id][i] = float32(r.NormFloat64()) / 100
			want[i] += float64(x[id][i])
		}
	}
	s := Session{Round: Round{Params: p}, Vector: func(id uint32, dst []int32) error {
		r := rand.New(rand.NewPCG(uint64(id), 6))
		if err := z.Encode(x[id], newStream([keySize]byte{byte(id)}), dst); err != nil {
			return err
		}
		for i := range dst {
			dst[i] += r.Int32N(7) - 3
		}
		return nil
	}}
	got, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	sum := make([]float32, length)
	z.Decode(got.Sum, sum)
	for i := range sum {
		if math.Abs(float64(sum[i])-want[i]) > n*4/z.scale {
			t.Fatalf("number %d of the sum is %g, want %g within %g", i, sum[i], want[i], n*4/z.scale)
		}
	}
}

func TestTheTailIsThatOfAGaussian(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws: run without -short")
	}
	if got := Tail(100, 1, 2*math.Exp(-8)); got != 400 { // 2 exp(-4^2/2)
		t.Errorf("the bound is %d, want 4 deviations, 400", got)
	}
	// In 1e6 draws of deviation 10, one is over the bound with a chance below 1e-6.
	bound, r := Tail(10, 1e6, 1e-6), rand.New(rand.NewPCG(8, 8))
	for range 1000000 {
		if x := math.Abs(math.Round(10 * r.NormFloat64())); x > float64(bound) {
			t.Fatalf("a draw of %g is over %d", x, bound)
		}
	}
}
