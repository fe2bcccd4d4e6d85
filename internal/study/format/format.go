// Package format writes numbers, amounts and names the way people read them, in tables, charts and messages. It
// never parses.
package format

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fraction writes a fraction for people: .7162, and - for NaN.
func Fraction(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	s := strconv.FormatFloat(x, 'f', 4, 64)
	if rest, ok := strings.CutPrefix(s, "0."); ok {
		return "." + rest
	}
	if rest, ok := strings.CutPrefix(s, "-0."); ok {
		return "-." + rest
	}
	return s
}

// PlainFraction writes a fraction for programs: 0.7162, and an empty string for NaN.
func PlainFraction(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'f', 4, 64)
}

// Points writes a difference of fractions in points (hundredths).
func Points(d float64) string {
	if math.IsNaN(d) {
		return "-"
	}
	if s := fmt.Sprintf("%+.2f", 100*d); s != "-0.00" && s != "+0.00" {
		return s
	}
	return "0.00"
}

// Count writes an integer with commas: 100,000.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Compact writes a number with three digits and a suffix: 236k.
func Compact(x float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(x) >= u.size {
			return Digits(x/u.size) + u.name
		}
	}
	return Digits(x)
}

// Digits writes three significant digits of x, without an exponent if possible.
func Digits(x float64) string {
	switch a := math.Abs(x); {
	case a == 0:
		return "0"
	case a >= 1e6 || a < 1e-3:
		return strconv.FormatFloat(x, 'g', 3, 64)
	case a >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// Size writes a number of bytes: 1.23 MB.
func Size(b float64) string {
	s := Compact(b)
	if last := s[len(s)-1]; last >= 'A' {
		return s[:len(s)-1] + " " + string(last) + "B"
	}
	return s + " B"
}

// Duration writes a time: 850 ms, 12.3 s, 3 min 12 s.
func Duration(s float64) string {
	switch {
	case s < 1:
		return Digits(s*1000) + " ms"
	case s < 120:
		return Digits(s) + " s"
	case s < 7200:
		return fmt.Sprintf("%d min %d s", int(s)/60, int(s)%60)
	case s < 1e9:
		return fmt.Sprintf("%d h %d min", int(s)/3600, int(s)/60%60)
	}
	return Digits(s) + " s"
}

// Value writes the value of a setting.
func Value(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case fmt.Stringer:
		return v.String()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if s, err := strconv.Unquote(string(b)); err == nil {
		return s
	}
	return string(b)
}

// Clip shortens s to n runes.
func Clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// HashPrefix is the start of a hash, without an ellipsis.
func HashPrefix(s string) string { return strings.TrimSuffix(Clip(s, 13), "…") }

// Clean makes s safe for one line of a terminal. Names come from data files and may contain escape sequences.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// Wrap breaks a text between words into lines of at most width letters. Lines after the first start with indent.
func Wrap(s string, width int, indent string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteString("\n" + indent)
			at = utf8.RuneCountInString(indent)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// Plural writes "1 seed", "3 seeds".
func Plural[N int | int64 | uint32](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(int(n)) + " " + noun + "s"
}

// Epsilon writes an epsilon with at most four digits, rounded up, so that the printed guarantee holds.
func Epsilon(v any) string {
	x, ok := v.(float64)
	switch {
	case !ok:
		return Clip(Clean(Value(v)), 30)
	case math.IsInf(x, 1):
		return "inf"
	case !(x > 0):
		return Value(x)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-3)
	up := math.Ceil(x/unit*(1-1e-9)) * unit // one that is too large in its tenth digit is rounding, not a cost
	return strconv.FormatFloat(up, 'g', 4, 64)
}

// Exact writes a number with nine digits, for files of figures.
func Exact(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 9, 64)
}

// FileName turns any text into a safe file name.
func FileName(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '+' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '-'
	}, s), "-")
}
