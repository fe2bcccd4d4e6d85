// Package param describes parameters by the tags of struct fields. Flags, TOML keys, JSON fields
// and documentation pages are derived from these tags. The package sets and lists values; it
// keeps no state.
//
// The tags are `default` and `doc`; `choices` for strings ("a|b|c"); `min` and `max` for numbers
// (see Check); and `range` for the values that a search may try ("1e-3..1,log", see Range). A
// field without a `doc` tag is not a parameter.
package param

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Field describes one parameter.
type Field struct {
	Key, Type, Default, Doc string
	Choices                 []string
	Range                   string // values that a search tries; empty if it keeps the default
	Limits                  string // the rule that Check enforces, in words; may be empty
}

// Key converts a field name into a key: ItemLR becomes item-lr.
func Key(name string) string {
	var b strings.Builder
	rs := []rune(name)
	for i, r := range rs {
		up := unicode.IsUpper(r)
		if i > 0 && up && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// each calls f for every parameter, including those of embedded structs, until f returns false.
func each(v any, f func(sf reflect.StructField, fv reflect.Value) bool) {
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer {
		rv = rv.Elem()
	}
	if rv.Kind() != reflect.Struct {
		return
	}
	walk(rv, f)
}

func walk(rv reflect.Value, f func(sf reflect.StructField, fv reflect.Value) bool) bool {
	for i := range rv.NumField() {
		sf := rv.Type().Field(i)
		if sf.Anonymous {
			if in := embedded(rv.Field(i)); in.IsValid() && !walk(in, f) {
				return false
			}
			continue
		}
		if _, ok := sf.Tag.Lookup("doc"); ok && sf.IsExported() && !f(sf, rv.Field(i)) {
			return false
		}
	}
	return true
}

// embedded returns the struct of an embedded field, following interfaces and pointers.
func embedded(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v
}

// Fields returns the parameters of a struct in declaration order.
func Fields(v any) []Field {
	var out []Field
	each(v, func(sf reflect.StructField, fv reflect.Value) bool {
		fd := Field{
			Key: Key(sf.Name), Default: sf.Tag.Get("default"), Doc: sf.Tag.Get("doc"),
			Range: sf.Tag.Get("range"), Limits: limitsOf(sf).String(), Type: typeName(fv),
		}
		if c := sf.Tag.Get("choices"); c != "" {
			fd.Choices = strings.Split(c, "|")
		}
		out = append(out, fd)
		return true
	})
	return out
}

func typeName(v reflect.Value) string {
	if v.CanAddr() {
		if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
			return strings.ToLower(v.Type().Name())
		}
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "yes or no"
	default:
		return "whole number"
	}
}

// Defaults sets every parameter to its default. It panics if a default does not
// parse.
func Defaults(v any) {
	for _, f := range Fields(v) {
		if f.Default == "" {
			continue
		}
		if err := Set(v, f.Key, f.Default); err != nil {
			panic(err)
		}
	}
}

// Unknown is the error for an unknown key. Nearest is a similar valid key, or empty.
type Unknown struct{ Key, Nearest string }

func (e *Unknown) Error() string {
	if e.Nearest == "" {
		return fmt.Sprintf("unknown key %q", e.Key)
	}
	return fmt.Sprintf("unknown key %q; did you mean %q?", e.Key, e.Nearest)
}

// Set parses value and assigns it to the parameter with the given key. It returns an *Unknown
// error if the key does not exist. Set checks choices; Check also checks limits.
func Set(v any, key, value string) error {
	var err error
	known := false
	each(v, func(sf reflect.StructField, fv reflect.Value) bool {
		if known = Key(sf.Name) == key; known {
			err = set(fv, sf, key, strings.TrimSpace(value))
		}
		return !known
	})
	if !known {
		return &Unknown{key, Nearest(key, Keys(v))}
	}
	return err
}

func set(fv reflect.Value, sf reflect.StructField, key, value string) error {
	if u, ok := fv.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(value)); err != nil {
			return fmt.Errorf("%s = %q: %w", key, value, err)
		}
		return nil
	}
	bad := func(rule string) error { return fmt.Errorf("%s = %q: must be %s", key, value, rule) }
	switch fv.Kind() {
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return bad("a whole number")
		}
		fv.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return bad("a whole number of at least 0")
		}
		fv.SetUint(n)
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(value, fv.Type().Bits())
		if err != nil || x-x != 0 {
			return bad("a finite number")
		}
		fv.SetFloat(x)
	case reflect.Bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return bad("true or false")
		}
		fv.SetBool(b)
	case reflect.String:
		if c := sf.Tag.Get("choices"); c != "" {
			if all := strings.Split(c, "|"); !slices.Contains(all, value) {
				rule := "one of " + strings.Join(all, ", ")
				if near := Nearest(value, all); near != "" {
					rule += fmt.Sprintf("; did you mean %q?", near)
				}
				return bad(rule)
			}
		}
		fv.SetString(value)
	default:
		panic("param: field " + sf.Name + " has an unsupported type")
	}
	return nil
}

// Keys returns the keys of a struct in declaration order.
func Keys(v any) []string {
	var out []string
	for _, f := range Fields(v) {
		out = append(out, f.Key)
	}
	return out
}

// Values returns the current value of every parameter by key, as plain JSON
// values (numbers, strings, booleans).
func Values(v any) map[string]any {
	out := map[string]any{}
	each(v, func(sf reflect.StructField, fv reflect.Value) bool {
		if m, ok := fv.Interface().(encoding.TextMarshaler); ok {
			b, _ := m.MarshalText()
			out[Key(sf.Name)] = string(b)
			if x, err := strconv.ParseFloat(string(b), 64); err == nil {
				out[Key(sf.Name)] = x
			}
			return true
		}
		if fv.Kind() == reflect.Float32 { // 0.1, not 0.10000000149
			x, _ := strconv.ParseFloat(strconv.FormatFloat(fv.Float(), 'g', -1, 32), 64)
			out[Key(sf.Name)] = x
			return true
		}
		if fv.Kind() == reflect.String { // including named string types
			out[Key(sf.Name)] = fv.String()
			return true
		}
		out[Key(sf.Name)] = fv.Interface()
		return true
	})
	return out
}

// Nearest returns the candidate with the smallest edit distance to s, or "" if none
// is close.
func Nearest(s string, candidates []string) string {
	if len(s) > 64 { // the distance takes quadratic time
		return ""
	}
	best, at := max(2, len(s)/2)+1, ""
	for _, c := range candidates {
		if d := distance(s, c); d < best {
			best, at = d, c
		}
	}
	return at
}

// distance returns the edit distance of two words: the number of bytes to add, remove or
// replace.
func distance(a, b string) int {
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		diag := prev[0]
		prev[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost = min(diag, prev[j], prev[j+1]) + 1
			}
			diag, prev[j+1] = prev[j+1], cost
		}
	}
	return prev[len(b)]
}
