package data

import (
	"math"
	"strconv"
)

// number parses a finite decimal number: digits, sign, point and exponent, but no other syntax of strconv.
func number(b []byte) (float64, bool) {
	if n, ok := integer(b); ok && -1<<53 < n && n < 1<<53 {
		return float64(n), true
	}
	digit := false
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			digit = true
		case c != '+' && c != '-' && c != '.' && c != 'e' && c != 'E':
			return 0, false
		}
	}
	if !digit {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	return f + 0, err == nil // + 0 makes -0 into 0: equal values have equal bits
}

// integer parses an integer of at most 18 digits; number parses others.
func integer(b []byte) (int64, bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	n := int64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

// value parses a rating or count, which must be finite as a float32.
func value(b []byte) (float32, bool) {
	f, ok := number(b)
	v := float32(f)
	return v, ok && !math.IsInf(float64(v), 0)
}

// sortKey maps finite floats to integers in the same order; it is its own
// inverse on the bits.
func sortKey(f float64) int64 { return flip(int64(math.Float64bits(f))) }

func fromKey(k int64) float64 { return math.Float64frombits(uint64(flip(k))) }

func flip(b int64) int64 {
	if b < 0 {
		b ^= math.MaxInt64
	}
	return b
}
