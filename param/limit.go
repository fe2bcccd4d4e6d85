package param

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Limited is a parameter type with a text form. Its limits apply to Number.
type Limited interface{ Number() float64 }

// Check returns an error for the first parameter that violates its tags `min`, `max` or
// `choices`. A limit is a number, which is inclusive, or a number after > or <, which is
// exclusive. Limits of a list apply to its length. NaN violates every limit.
func Check(v any) error {
	var err error
	each(v, func(sf reflect.StructField, fv reflect.Value) bool {
		if c := sf.Tag.Get("choices"); c != "" && !slices.Contains(strings.Split(c, "|"), fv.String()) {
			err = fmt.Errorf("%s = %q: must be one of %s", Key(sf.Name), fv.String(),
				strings.ReplaceAll(c, "|", ", "))
			return false
		}
		l := limitsOf(sf)
		if l.min == "" && l.max == "" {
			return true
		}
		x, isLength := measure(fv)
		if !l.allow(x) {
			err = fmt.Errorf("%s = %s: must %s", Key(sf.Name), text(fv), l.rule(isLength))
		}
		return err == nil
	})
	return err
}

// limits holds the limit tags of a field; an empty tag sets no limit.
type limits struct{ min, max string }

func limitsOf(sf reflect.StructField) limits { return limits{sf.Tag.Get("min"), sf.Tag.Get("max")} }

// String returns the rule in words: "1 to 256", "at least 0", "above 0 and below 1". Without
// limits it is empty.
func (l limits) String() string {
	low, hasLow := strings.CutPrefix(l.min, ">")
	high, hasHigh := strings.CutPrefix(l.max, "<")
	switch {
	case l.min == "" && l.max == "":
		return ""
	case l.max == "" && hasLow:
		return "above " + low
	case l.max == "":
		return "at least " + low
	case l.min == "" && hasHigh:
		return "below " + high
	case l.min == "":
		return "at most " + high
	case hasLow && hasHigh:
		return "above " + low + " and below " + high
	case hasLow:
		return "above " + low + " and at most " + high
	case hasHigh:
		return "at least " + low + " and below " + high
	}
	return low + " to " + high
}

func (l limits) rule(isLength bool) string {
	if isLength {
		return "have " + l.String() + " values"
	}
	return "be " + l.String()
}

func (l limits) allow(x float64) bool {
	if l.min != "" {
		low, exclusive := bound(l.min, ">")
		if !(x >= low) || exclusive && x == low {
			return false
		}
	}
	if l.max != "" {
		high, exclusive := bound(l.max, "<")
		if !(x <= high) || exclusive && x == high {
			return false
		}
	}
	return true
}

// bound parses a limit. It panics if the tag is malformed, which is a programming error.
func bound(tag, sign string) (x float64, exclusive bool) {
	number, exclusive := strings.CutPrefix(tag, sign)
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic("param: limit " + tag + " is not a number")
	}
	return x, exclusive
}

// measure returns the number that limits apply to, and whether it is a list's length.
func measure(fv reflect.Value) (x float64, isLength bool) {
	if l, ok := fv.Interface().(Limited); ok {
		return l.Number(), false
	}
	switch fv.Kind() {
	case reflect.Slice:
		return float64(fv.Len()), true
	case reflect.Int, reflect.Int64:
		return float64(fv.Int()), false
	case reflect.Uint64:
		return float64(fv.Uint()), false
	case reflect.Float32, reflect.Float64:
		return fv.Float(), false
	}
	panic("param: a field of type " + fv.Type().String() + " cannot have limits")
}

// text returns a parameter's value as a user writes it.
func text(fv reflect.Value) string {
	if m, ok := fv.Interface().(encoding.TextMarshaler); ok {
		if b, err := m.MarshalText(); err == nil {
			return string(b)
		}
	}
	if fv.Kind() == reflect.Float32 {
		return strconv.FormatFloat(fv.Float(), 'g', -1, 32)
	}
	return fmt.Sprint(fv.Interface())
}
