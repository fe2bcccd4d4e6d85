package rng

import (
	"math"
	"slices"
	"testing"
)

// evenly fails if the counts are unlikely under a uniform distribution. The chi-square bound is
// Wilson and Hilferty's at 4.9 standard deviations: a false positive for 1 in two million seeds,
// and the seeds are fixed.
func evenly(t *testing.T, what string, counts []int) {
	t.Helper()
	total := 0
	for _, c := range counts {
		total += c
	}
	mean, chi := float64(total)/float64(len(counts)), 0.0
	for _, c := range counts {
		chi += (float64(c) - mean) * (float64(c) - mean) / mean
	}
	k := float64(len(counts) - 1)
	if bound := k * math.Pow(1-2/(9*k)+4.9*math.Sqrt(2/(9*k)), 3); chi > bound {
		t.Errorf("%s: chi-square of %d counts is %.1f, want at most %.1f: %v", what, len(counts), chi, bound,
			counts[:min(len(counts), 24)])
	}
}

func TestStreamsDependOnKeysAndNotOnOrder(t *testing.T) {
	first := func(keys ...uint64) [4]uint64 {
		r := New(keys...)
		return [4]uint64{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}
	}
	var ahead [64][4]uint64
	for u := range ahead {
		ahead[u] = first(7, Negatives, 3, uint64(u))
	}
	other := New(7, Negatives, 3, 5)
	for range 1000 {
		other.Uint64()
	}
	for u := len(ahead) - 1; u >= 0; u-- {
		if got := first(7, Negatives, 3, uint64(u)); got != ahead[u] {
			t.Errorf("stream %d is %x if streams are created in reverse order, otherwise %x", u, got, ahead[u])
		}
	}
	for _, pair := range [][2][]uint64{
		{{1, 2}, {2, 1}},
		{{1}, {1, 0}},
		{{}, {0}},
		{{0, 0}, {0}},
		{{1, 2, 3}, {1, 3, 2}},
		{{1, Init, 0}, {1, Visit, 0}},
	} {
		if first(pair[0]...) == first(pair[1]...) {
			t.Errorf("streams %v and %v have the same numbers", pair[0], pair[1])
		}
	}
}

// Adjacent keys, such as those of users and rounds, must give independent streams. Each of the
// 64 bits of the first number is a fair coin over 16384 streams; any of them exceeds six
// standard deviations for 1 in 8 million seeds.
func TestAdjacentStreamsAreIndependent(t *testing.T) {
	const rounds, users = 64, 256
	seen := map[uint64]bool{}
	var ones, agree [64]int
	last := uint64(0)
	for round := range uint64(rounds) {
		for user := range uint64(users) {
			r := New(1, Negatives, round, user)
			x := r.Uint64()
			if seen[x] {
				t.Fatalf("round %d user %d: first number %x equals that of another stream", round, user, x)
			}
			seen[x] = true
			for b := range 64 {
				ones[b] += int(x >> b & 1)
				agree[b] += int((x ^ last) >> b & 1)
			}
			last = x
		}
	}
	const n = rounds * users
	for b := range 64 {
		for what, got := range map[string]int{"is set in": ones[b], "differs from the neighbour's in": agree[b]} {
			if d := math.Abs(float64(got)-n/2) / math.Sqrt(n/4); d > 6 {
				t.Errorf("bit %d %s %d of %d streams, %.1f standard deviations from half", b, what, got, n, d)
			}
		}
	}
}

// A change here changes every published result. The constants are the same on every platform.
func TestNumbersNeverChange(t *testing.T) {
	r := New(1, Init, 0)
	for i, want := range []uint64{0xcd7125e14e9dc4cf, 0xd45c7a544355101c, 0xc5655d004ec69e87} {
		if got := r.Uint64(); got != want {
			t.Errorf("number %d of New(1, Init, 0) is %#x, want %#x", i, got, want)
		}
	}
	var zero Rand
	if got, want := zero.Uint64(), uint64(0xe220a8397b1dcdaf); got != want { // published for SplitMix64 from state 0
		t.Errorf("first number of the zero stream is %#x, want %#x", got, want)
	}
	r = New(42)
	xs := []uint32{0, 1, 2, 3, 4, 5, 6, 7}
	got := [4]uint64{uint64(r.Uint32n(1000)), math.Float64bits(r.Float64()), math.Float64bits(r.Norm()), 0}
	r.Shuffle(xs)
	for _, x := range xs {
		got[3] = got[3]<<4 | uint64(x)
	}
	want := [4]uint64{0x282, 0x3fe05a631c68f8ed, 0x3fe3e52e8c2793b0, 0x27435016}
	if got != want {
		t.Errorf("Uint32n, Float64, Norm and Shuffle of New(42) are %#x, want %#x", got, want)
	}
}

func TestUint32nIsUnbiased(t *testing.T) {
	for _, n := range []uint32{1, 2, 3, 7, 10, 64, 1000} {
		r, counts := New(Test, uint64(n)), make([]int, n)
		for range 200 * max(int(n), 1000) {
			counts[r.Uint32n(n)]++
		}
		if n > 1 {
			evenly(t, "Uint32n", counts)
		}
	}
	// Without rejection, 3*2^30 results would share 2^32 numbers: every third result would occur
	// twice.
	r, counts := New(Test), make([]int, 3)
	for range 300000 {
		counts[r.Uint32n(3<<30)%3]++
	}
	evenly(t, "Uint32n(3<<30) mod 3", counts)
	for range 1000 {
		if x := r.Uint32n(1 << 31); x >= 1<<31 {
			t.Fatalf("Uint32n(2^31) gives %d", x)
		}
	}
}

func TestFloat64IsUniformBelowOne(t *testing.T) {
	r, counts := New(Test, 1), make([]int, 100)
	for range 200000 {
		x := r.Float64()
		if !(x >= 0 && x < 1) {
			t.Fatalf("Float64 gives %g, want a number in [0, 1)", x)
		}
		counts[int(x*100)]++
	}
	evenly(t, "Float64", counts)
}

// Each moment may be off by five standard deviations (a false positive for any of the four for 1
// in 400,000 seeds), and the largest distance from the distribution function by 2.7/sqrt(n)
// (Kolmogorov: 1 in a million).
func TestNormIsStandardNormal(t *testing.T) {
	const n = 200000
	r := New(Test, 2)
	var m1, m2, m3, m4 float64
	var below [81]int // numbers below -4, -3.9, ... 4
	for range n {
		x := r.Norm()
		m1, m2, m3, m4 = m1+x, m2+x*x, m3+x*x*x, m4+x*x*x*x
		for k := max(0, int(math.Ceil((x+4)*10))); k < len(below); k++ {
			below[k]++
		}
	}
	for _, c := range []struct {
		name          string
		got, want, sd float64
	}{
		{"mean", m1 / n, 0, 1},
		{"second moment", m2 / n, 1, math.Sqrt(2)},
		{"third moment", m3 / n, 0, math.Sqrt(15)},
		{"fourth moment", m4 / n, 3, math.Sqrt(96)},
	} {
		if d := math.Abs(c.got-c.want) / (c.sd / math.Sqrt(n)); d > 5 {
			t.Errorf("%s is %.5f, want %g: %.1f standard deviations off", c.name, c.got, c.want, d)
		}
	}
	for k, got := range below {
		x := float64(k)/10 - 4
		if want := math.Erfc(-x/math.Sqrt2) / 2; math.Abs(float64(got)/n-want) > 2.7/math.Sqrt(n) {
			t.Errorf("fraction below %.1f is %.5f, want %.5f", x, float64(got)/n, want)
		}
	}
}

func TestShuffleIsUniform(t *testing.T) {
	r, counts := New(Test, 3), make([]int, 24)
	for range 24 * 2000 {
		xs := [4]uint32{0, 1, 2, 3}
		r.Shuffle(xs[:])
		code := 0 // rank of the permutation
		for i, x := range xs {
			smaller := 0
			for _, y := range xs[i+1:] {
				if y < x {
					smaller++
				}
			}
			code = code*(4-i) + smaller
		}
		counts[code]++
	}
	evenly(t, "orders of four", counts)
	for n := range 70 {
		xs, seen := make([]uint32, n), make([]bool, n)
		for i := range xs {
			xs[i] = uint32(i)
		}
		r.Shuffle(xs)
		for _, x := range xs {
			if seen[x] {
				t.Fatalf("a shuffle of %d contains %d twice", n, x)
			}
			seen[x] = true
		}
	}
}

func TestStreamsDoNotAllocate(t *testing.T) {
	xs, sink := make([]uint32, 50), 0.0
	if n := testing.AllocsPerRun(100, func() {
		r := New(1, Visit, 2, 3)
		r.Shuffle(xs)
		s := &r
		sink += s.Norm() + float64(s.Uint32n(9))
	}); n != 0 {
		t.Errorf("creating and reading a stream allocates %g times, want 0", n)
	}
}

func TestInsertTakesTheNumbersOfUint32n(t *testing.T) {
	// The second stream begins with a number whose upper half is 0, which Uint32n rejects.
	for _, a := range []Rand{New(Test, 6), {unmix(5) - golden}} {
		testInsert(t, a)
	}
}

// unmix is the inverse of mix.
func unmix(z uint64) uint64 {
	inverse := func(x uint64) uint64 {
		y := x
		for range 6 {
			y *= 2 - x*y
		}
		return y
	}
	z ^= z>>31 ^ z>>62
	z *= inverse(0x94d049bb133111eb)
	z ^= z>>27 ^ z>>54
	z *= inverse(0xbf58476d1ce4e5b9)
	return z ^ z>>30 ^ z>>60
}

func testInsert(t *testing.T, a Rand) {
	if z := unmix(5); mix(z) != 5 {
		t.Fatalf("unmix is not the inverse of mix: %d", mix(z))
	}
	for _, n := range []int{1, 2, 3, 50, 199, 4} {
		items := make([]uint32, n)
		for i := range items {
			items[i] = uint32(1000 + i)
		}
		got, want := make([]uint32, 3*n), make([]uint32, 3*n)
		for i := range 2 * n {
			got[i], want[i] = uint32(i), uint32(i)
		}
		b := a // the first call of the second stream has a bound of 3
		a.Insert(items, 1<<31, got)
		for i, item := range items {
			at := 2*n + i
			j := b.Uint32n(uint32(at + 1))
			want[at] = want[j]
			want[j] = item | 1<<31
		}
		if a != b || !slices.Equal(got, want) {
			t.Fatalf("inserting %d items gives %v, want %v", n, got, want)
		}
	}
}
