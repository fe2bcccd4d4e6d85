package format

import (
	"fmt"
	"math"
	"testing"
)

func TestNumbersForPeople(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Fraction(0.7162), ".7162"},
		{Fraction(1), "1.0000"},
		{Fraction(-0.01), "-.0100"},
		{PlainFraction(0.7162), "0.7162"},
		{Points(-0.00001), "0.00"},
		{Count(1234567), "1,234,567"},
		{Count(-123), "-123"},
		{Count(999), "999"},
		{Size(999), "999 B"},
		{Size(105_600), "106 kB"},
		{Size(96_400_000), "96.4 MB"},
		{Size(0), "0 B"},
		{Duration(0.004), "4.00 ms"},
		{Duration(75), "75.0 s"},
		{Duration(192), "3 min 12 s"},
		{Duration(7320), "2 h 2 min"},
		{Value(0.1), "0.1"},
		{Value(32), "32"},
		{Value([]any{1.0, "a"}), `[1,"a"]`},
		{Compact(122e6), "122M"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestAnEpsilonIsRoundedUpToFourDigits(t *testing.T) {
	for _, c := range []struct {
		x    any
		want string
	}{
		{7.9999479933162565, "8"},
		{8.0, "8"},
		{8.0000000001, "8"},
		{8.00001, "8.001"},
		{1.2341, "1.235"},
		{0.00123401, "0.001235"},
		{123.41, "123.5"},
		{12341.0, "1.235e+04"},
		{0.0, "0"},
		{math.Inf(1), "inf"},
		{"inf", "inf"},
		{nil, "null"},
	} {
		if got := Epsilon(c.x); got != c.want {
			t.Errorf("%v is written as %s, want %s", c.x, got, c.want)
		}
		if x, ok := c.x.(float64); ok && x > 0 {
			var back float64
			if _, err := fmt.Sscan(Epsilon(x), &back); err != nil || back < x*(1-1e-9) {
				t.Errorf("%v is written as less: %v", x, back)
			}
		}
	}
}
