package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// frac writes a fraction for people: .7162, and - for none.
func frac(x float64) string {
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

// plainFrac writes a fraction for machines: 0.7162, and nothing for none.
func plainFrac(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'f', 4, 64)
}

// points writes a difference of fractions in points, which are hundredths.
func points(d float64) string {
	if math.IsNaN(d) {
		return "-"
	}
	if s := fmt.Sprintf("%+.2f", 100*d); s != "-0.00" && s != "+0.00" {
		return s
	}
	return "0.00"
}

// count writes a whole number with commas: 100,000.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a number with three digits and a suffix: 236k.
func short(x float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(x) >= u.size {
			return digits(x/u.size) + u.name
		}
	}
	return digits(x)
}

// digits writes three digits of x, without an exponent where it can.
func digits(x float64) string {
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

// size writes a number of bytes: 1.23 MB.
func size(b float64) string {
	s := short(b)
	if last := s[len(s)-1]; last >= 'A' {
		return s[:len(s)-1] + " " + string(last) + "B"
	}
	return s + " B"
}

// took writes a time: 850 ms, 12.3 s, 3 min 12 s.
func took(s float64) string {
	switch {
	case s < 1:
		return digits(s*1000) + " ms"
	case s < 120:
		return digits(s) + " s"
	case s < 7200:
		return fmt.Sprintf("%d min %d s", int(s)/60, int(s)%60)
	case s < 1e9:
		return fmt.Sprintf("%d h %d min", int(s)/3600, int(s)/60%60)
	}
	return digits(s) + " s"
}

// word writes the value of a setting.
func word(v any) string {
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

// clip cuts s to n runes.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// head is the start of a hash, which needs no mark that it was cut.
func head(s string) string { return strings.TrimSuffix(clip(s, 13), "…") }

// because ends a sentence about something that is not there.
func because(name, reason string) string {
	return name + ": none, " + strings.TrimSuffix(reason, ".") + "."
}

// clean makes s safe for one line of a terminal: names come from data files,
// and may hold escape sequences.
func clean(s string) string {
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

// plural writes "1 seed", "3 seeds".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}
