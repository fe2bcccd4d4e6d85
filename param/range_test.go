package param

import (
	"math"
	"strconv"
	"testing"
)

func TestRangesRoundTripAsText(t *testing.T) {
	for _, c := range []struct {
		text  string
		whole bool
		want  Range
		back  string
	}{
		{"1e-3..1,log", false, Range{Lo: 1e-3, Hi: 1, Log: true}, "0.001..1,log"},
		{" -2 .. 3 ", false, Range{Lo: -2, Hi: 3}, "-2..3"},
		{"1..10", true, Range{Lo: 1, Hi: 10, Whole: true}, "1..10"},
		{".5...7", false, Range{Lo: .5, Hi: .7}, "0.5..0.7"},
		{"8|16|32", true, Range{List: []string{"8", "16", "32"}}, "8|16|32"},
		{"own | global", false, Range{List: []string{"own", "global"}}, "own|global"},
		{"tanh:0.1,10", false, Range{List: []string{"tanh:0.1,10"}}, "tanh:0.1,10"},
	} {
		got, err := ParseRange(c.text, c.whole)
		if err != nil || got.String() != c.back || got.Lo != c.want.Lo || got.Hi != c.want.Hi ||
			got.Log != c.want.Log || len(got.List) != len(c.want.List) {
			t.Errorf("%q is %+v (%s), %v; want %+v (%s)", c.text, got, got, err, c.want, c.back)
		}
	}
}

func TestInvalidRangesAreRejectedWithReason(t *testing.T) {
	for _, c := range []struct {
		text  string
		whole bool
		want  string
	}{
		{"1..0", false, "1..0: the smaller end must come first"},
		{"1..1", false, "1..1: the smaller end must come first"},
		{"0..1,log", false, "0..1,log: both ends must be above 0"},
		{"1..10,lin", false, `"lin" after the comma: must be log`},
		{"1..10,", false, `"" after the comma: must be log`},
		{"a..b", false, `"a": must be a finite number`},
		{"..", false, `"": must be a finite number`},
		{"1..inf", false, `"inf": must be a finite number`},
		{"nan..1", false, `"nan": must be a finite number`},
		{"1..2.5", true, `"2.5": must be a whole number`},
		{"1..1e99", true, `"1e99": must be a whole number`},
		{"8||16", false, "empty value in the list"},
		{"", false, "empty value in the list"},
		{"8|16|8", false, `"8" is listed twice`},
	} {
		if got, err := ParseRange(c.text, c.whole); err == nil || err.Error() != c.want {
			t.Errorf("%q is %v, %v; want the error %s", c.text, got, err, c.want)
		}
	}
}

// The quantiles of a log-uniform distribution are known, so the comparison is exact.
func TestLogRangeIsUniformInTheLogarithm(t *testing.T) {
	r := Range{Lo: 1e-4, Hi: 1, Log: true}
	for u, want := range map[float64]string{0: "0.0001", 0.25: "0.001", 0.5: "0.01", 0.75: "0.1", 0.125: "0.000316"} {
		if got := r.At(u); got != want {
			t.Errorf("at %g it is %s, want %s", u, got, want)
		}
		if back, ok := r.Where(want); !ok || math.Abs(back-u) > 1e-3 {
			t.Errorf("%s lies at %g, want %g", want, back, u)
		}
	}
}

func TestWholeNumbersOfARangeAreEquallyLikely(t *testing.T) {
	r := Range{Lo: 1, Hi: 4, Whole: true}
	count := map[string]int{}
	for i := range 1000 {
		count[r.At(float64(i)/1000)]++
	}
	for _, k := range []string{"1", "2", "3", "4"} {
		if count[k] != 250 {
			t.Errorf("%s is drawn for %d of 1000 even points, want 250 (%v)", k, count[k], count)
		}
	}
}

func TestNarrowRangeKeepsDigits(t *testing.T) {
	r := Range{Lo: 100.001, Hi: 100.002}
	if got := r.At(0.5); got != "100.0015" {
		t.Errorf("the middle is %s, want 100.0015", got)
	}
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{
		"1e-3..1,log", "1..10", "8|16", "-1e300..1e300", "1e-320..1,log", "x", "..", "0...1",
		"5..6,log", "99999999..100000000",
	} {
		f.Add(s, 0.5, false)
		f.Add(s, 0.999999999, true)
	}
	f.Fuzz(func(t *testing.T, text string, u float64, whole bool) {
		r, err := ParseRange(text, whole)
		if err != nil || !(u >= 0 && u < 1) {
			return
		}
		again, err := ParseRange(r.String(), whole)
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q is written as %q, which reads as %v, %v", text, r, again, err)
		}
		v := r.At(u)
		at, ok := r.Where(v)
		if !ok || !(at >= 0 && at <= 1) {
			t.Fatalf("%q at %g is %s, whose position is %g (%v)", text, u, v, at, ok)
		}
		if r.List != nil {
			return
		}
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || x < r.Lo || x > r.Hi || whole && x != math.Trunc(x) {
			t.Fatalf("%q at %g is %s, which is outside the range", text, u, v)
		}
	})
}
