package param

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Range describes the values that a search may try for one parameter: an interval, or a list if
// List is set. Its text form is a..b, a..b,log or x|y|z; a single value is a list.
type Range struct {
	Lo, Hi float64
	Log    bool // draws are uniform in the logarithm
	Whole  bool // whole numbers only, both ends included
	List   []string
}

// RangeSyntax describes the text forms of a range, for error messages.
const RangeSyntax = "a..b, a..b,log or x|y|z"

// maxEnd limits the ends of an interval, so that their difference is finite.
const (
	maxEnd   = 1e300
	maxWhole = 1 << 53
	maxList  = 1000
)

// IsRange reports whether a text denotes more than one value.
func IsRange(text string) bool { return strings.Contains(text, "..") || strings.Contains(text, "|") }

// ParseRange parses a range. If whole is set, the ends of an interval must be whole numbers.
func ParseRange(text string, whole bool) (Range, error) {
	lo, hi, interval := strings.Cut(text, "..")
	if !interval {
		return parseList(text)
	}
	r := Range{Whole: whole}
	hi, how, more := strings.Cut(hi, ",")
	if more && strings.TrimSpace(how) != "log" {
		return Range{}, fmt.Errorf("%q after the comma: must be log", how)
	}
	r.Log = more
	for _, end := range []struct {
		text string
		to   *float64
	}{{lo, &r.Lo}, {hi, &r.Hi}} {
		x, err := strconv.ParseFloat(strings.TrimSpace(end.text), 64)
		switch {
		case err != nil || !(math.Abs(x) <= maxEnd):
			return Range{}, fmt.Errorf("%q: must be a finite number", end.text)
		case whole && (x != math.Trunc(x) || math.Abs(x) > maxWhole):
			return Range{}, fmt.Errorf("%q: must be a whole number", end.text)
		}
		*end.to = x + 0 // no negative zero
	}
	switch {
	case r.Lo >= r.Hi:
		return Range{}, fmt.Errorf("%s..%s: the smaller end must come first", number(r.Lo), number(r.Hi))
	case r.Log && r.Lo <= 0:
		return Range{}, fmt.Errorf("%s..%s,log: both ends must be above 0", number(r.Lo), number(r.Hi))
	}
	return r, nil
}

func parseList(text string) (Range, error) {
	var r Range
	for _, s := range strings.Split(text, "|") {
		s = strings.TrimSpace(s)
		switch {
		case s == "":
			return Range{}, errors.New("empty value in the list")
		case slices.Contains(r.List, s):
			return Range{}, fmt.Errorf("%q is listed twice", s)
		case len(r.List) == maxList:
			return Range{}, fmt.Errorf("more than %d values", maxList)
		}
		r.List = append(r.List, s)
	}
	return r, nil
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func (r Range) String() string {
	switch {
	case r.List != nil:
		return strings.Join(r.List, "|")
	case r.Log:
		return number(r.Lo) + ".." + number(r.Hi) + ",log"
	}
	return number(r.Lo) + ".." + number(r.Hi)
}

// At returns the value at u, which must be at least 0 and below 1. Numbers of an interval have
// three digits, or more if the interval is narrow; rounding also removes platform differences of
// the exponential function.
func (r Range) At(u float64) string {
	if r.List != nil {
		return r.List[min(int(u*float64(len(r.List))), len(r.List)-1)]
	}
	hi := r.Hi
	if r.Whole { // number k covers k to k+1
		hi++
	}
	x := r.Lo + float64(u*(hi-r.Lo))
	if r.Log {
		a, b := math.Log(r.Lo), math.Log(hi)
		x = math.Exp(a + float64(u*(b-a)))
	}
	if r.Whole {
		return strconv.FormatFloat(r.clamp(math.Floor(x)), 'f', -1, 64)
	}
	x, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', r.digits(), 64), 64)
	if err != nil {
		return number(r.Lo)
	}
	return number(r.clamp(x))
}

func (r Range) clamp(x float64) float64 { return math.Max(r.Lo, math.Min(r.Hi, x)) }

func (r Range) digits() int {
	narrow := math.Max(math.Abs(r.Lo), math.Abs(r.Hi)) / (r.Hi - r.Lo)
	return 3 + min(int(math.Log10(math.Max(narrow, 1))), 14)
}

// Where returns the position of a value in the range, from 0 to 1. It returns false if the range
// does not contain the value.
func (r Range) Where(value string) (u float64, ok bool) {
	if r.List != nil {
		i := slices.Index(r.List, value)
		return float64(i) / float64(max(len(r.List)-1, 1)), i >= 0
	}
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || !(x >= r.Lo && x <= r.Hi) {
		return 0, false
	}
	if r.Log {
		a, b := math.Log(r.Lo), math.Log(r.Hi)
		if a == b { // the ends have equal logarithms
			return 0, true
		}
		return (math.Log(x) - a) / (b - a), true
	}
	return (x - r.Lo) / (r.Hi - r.Lo), true
}
