package param

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// span is a field type with a text form.
type span struct{ lo, hi int }

func (s span) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d-%d", s.lo, s.hi), nil }

func (s *span) UnmarshalText(b []byte) error {
	if n, err := fmt.Sscanf(string(b), "%d-%d", &s.lo, &s.hi); n != 2 || err != nil {
		return errors.New("want LO-HI")
	}
	return nil
}

type inner struct {
	Decay float32 `default:"0.1" doc:"weight decay"`
	Inner int     `default:"3" doc:"of the embedded struct"`
}

type sample struct {
	inner
	ItemLR  float32 `default:"0.25" range:"1e-3..1,log" doc:"rate of the rows"`
	Tol     float64 `default:"1e-4" doc:"when to stop"`
	Rounds  int     `default:"100" doc:"rounds"`
	Big     int64   `default:"-5" doc:"a long one"`
	Seed    uint64  `default:"18446744073709551615" doc:"seed"`
	Loud    bool    `default:"true" doc:"whether to print"`
	Kind    string  `default:"own" choices:"own|global|random" doc:"which table"`
	Name    string  `doc:"anything, and nothing by default"`
	Span    span    `default:"2-7" doc:"from and to"`
	NoDoc   int     `default:"9"`
	private int     `doc:"never seen"` //lint:ignore U1000 the test checks that it is ignored
}

func withDefaults() *sample {
	s := &sample{}
	Defaults(s)
	return s
}

func TestKeysAreKebabCase(t *testing.T) {
	for name, want := range map[string]string{
		"Dim": "dim", "LR": "lr", "ItemLR": "item-lr", "RowLR": "row-lr", "EvalEvery": "eval-every",
		"EvalUsers": "eval-users",
		"DPNoise":   "dp-noise", "HTTPPort": "http-port", "L1": "l1", "L1Weight": "l1-weight", "TopK": "top-k",
		"HR10": "hr10",
		"A":    "a", "AB": "ab", "ABc": "a-bc", "AbC": "ab-c", "K2V": "k2-v", "MinRows": "min-rows", "Über": "über",
		"": "",
	} {
		if got := Key(name); got != want {
			t.Errorf("the key of %s is %q, want %q", name, got, want)
		}
	}
}

func TestDefaultsComeFromTheTags(t *testing.T) {
	got := *withDefaults()
	want := sample{
		inner: inner{0.1, 3}, ItemLR: 0.25, Tol: 1e-4, Rounds: 100, Big: -5, Seed: 1<<64 - 1, Loud: true, Kind: "own",
		Span: span{2, 7},
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestInvalidDefaultPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a default of \"many\" for a whole number does not panic")
		}
	}()
	Defaults(&struct {
		N int `default:"many" doc:"a number"`
	}{})
}

func TestFieldsDescribeParameters(t *testing.T) {
	got := Fields(&sample{})
	want := []Field{
		{"decay", "number", "0.1", "weight decay", nil, "", ""},
		{"inner", "whole number", "3", "of the embedded struct", nil, "", ""},
		{"item-lr", "number", "0.25", "rate of the rows", nil, "1e-3..1,log", ""},
		{"tol", "number", "1e-4", "when to stop", nil, "", ""},
		{"rounds", "whole number", "100", "rounds", nil, "", ""},
		{"big", "whole number", "-5", "a long one", nil, "", ""},
		{"seed", "whole number", "18446744073709551615", "seed", nil, "", ""},
		{"loud", "yes or no", "true", "whether to print", nil, "", ""},
		{"kind", "text", "own", "which table", []string{"own", "global", "random"}, "", ""},
		{"name", "text", "", "anything, and nothing by default", nil, "", ""},
		{"span", "span", "2-7", "from and to", nil, "", ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := Fields(5); got != nil {
		t.Errorf("the fields of a number are %v, want none", got)
	}
}

func TestSetSetsEveryKind(t *testing.T) {
	s := withDefaults()
	want := *s
	want.Decay, want.Inner, want.ItemLR, want.Tol, want.Rounds, want.Big = 0.5, -1, 1e-3, 2, 7, -9e18
	want.Seed, want.Loud, want.Kind, want.Name, want.Span = 5, false, "random", "a b", span{1, 9}
	for key, value := range map[string]string{
		"decay": "0.5", "inner": "-1", "item-lr": " 1e-3 ", "tol": "2", "rounds": "7", "big": "-9000000000000000000",
		"seed": "5", "loud": "false", "kind": "random", "name": " a b ", "span": "1-9",
	} {
		if err := Set(s, key, value); err != nil {
			t.Error(err)
		}
	}
	if *s != want {
		t.Errorf("got  %+v\nwant %+v", *s, want)
	}
}

func TestInvalidValuesAreRejectedWithRule(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"rounds", "ten", `rounds = "ten": must be a whole number`},
		{"rounds", "1.5", `rounds = "1.5": must be a whole number`},
		{"rounds", "", `rounds = "": must be a whole number`},
		{"big", "9223372036854775808", `big = "9223372036854775808": must be a whole number`},
		{"seed", "-1", `seed = "-1": must be a whole number of at least 0`},
		{"item-lr", "fast", `item-lr = "fast": must be a finite number`},
		{"item-lr", "inf", `item-lr = "inf": must be a finite number`},
		{"item-lr", "nan", `item-lr = "nan": must be a finite number`},
		// finite as a float64 but not as a float32
		{"item-lr", "1e39", `item-lr = "1e39": must be a finite number`},
		{"tol", "1e309", `tol = "1e309": must be a finite number`},
		{"loud", "maybe", `loud = "maybe": must be true or false`},
		{"kind", "mine", `kind = "mine": must be one of own, global, random`},
		{"kind", "own|mine", `kind = "own|mine": must be one of own, global, random`},
		{"kind", "globl", `kind = "globl": must be one of own, global, random; did you mean "global"?`},
		{"span", "x", `span = "x": want LO-HI`},
		{"lamda", "1", `unknown key "lamda"`},
		{"item_lr", "1", `unknown key "item_lr"; did you mean "item-lr"?`},
		{"round", "1", `unknown key "round"; did you mean "rounds"?`},
		{"Rounds", "1", `unknown key "Rounds"; did you mean "rounds"?`},
		{"no-doc", "1", `unknown key "no-doc"`},
		{"private", "1", `unknown key "private"`},
		{"", "1", `unknown key ""`},
	} {
		s := withDefaults()
		if err := Set(s, c.key, c.value); err == nil || err.Error() != c.want {
			t.Errorf("%s=%s\ngot  %v\nwant %s", c.key, c.value, err, c.want)
		}
		if *s != *withDefaults() && c.key != "span" {
			t.Errorf("%s=%s is rejected but changes the struct: %+v", c.key, c.value, *s)
		}
	}
	var unknown *Unknown
	if err := Set(withDefaults(), "lamda", "1"); !errors.As(err, &unknown) || unknown.Key != "lamda" {
		t.Errorf("got %v, want an Unknown with the key", err)
	}
}

func TestSetPanicsOnUnsupportedType(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "field N has an unsupported type") {
			t.Errorf("panics with %q", got)
		}
	}()
	_ = Set(&struct {
		N []int `doc:"a list"`
	}{}, "n", "1")
}

func TestValuesArePlainJSON(t *testing.T) {
	got, err := json.Marshal(Values(withDefaults()))
	want := `{"big":-5,"decay":0.1,"inner":3,"item-lr":0.25,"kind":"own","loud":true,"name":"","rounds":100,` +
		`"seed":18446744073709551615,"span":"2-7","tol":0.0001}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// Set must accept the output of Values, so that a resolved configuration can be run again.
func TestValuesCanBeSetAgain(t *testing.T) {
	s := withDefaults()
	for _, x := range []float32{0.1, 1.0 / 3, 1e-7, 3e38, 16777217, 1e-45} {
		s.Decay = x
		back := &sample{}
		for key, v := range Values(s) {
			if err := Set(back, key, fmt.Sprint(v)); err != nil {
				t.Fatal(err)
			}
		}
		if *back != *s {
			t.Errorf("got  %+v\nwant %+v", *back, *s)
		}
	}
}

func TestNearestIsTheSmallestEditDistance(t *testing.T) {
	keys := []string{"rounds", "batch", "negatives", "item-lr", "lambda"}
	for s, want := range map[string]string{
		"lamda": "lambda", "batc": "batch", "bacth": "batch", "roundz": "rounds", "negative": "negatives",
		"itemlr": "item-lr",
		"zzzzzz": "", "": "", "rounds": "rounds",
	} {
		if got := Nearest(s, keys); got != want {
			t.Errorf("nearest to %q is %q, want %q", s, got, want)
		}
	}
}

// The reference is the recursive definition.
func TestDistanceIsLevenshteinDistance(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		if a[0] == b[0] {
			return slow(a[1:], b[1:])
		}
		return 1 + min(slow(a[1:], b[1:]), slow(a[1:], b), slow(a, b[1:]))
	}
	words := []string{"", "a", "ab", "ba", "abc", "acb", "kitten", "sitting", "lambda", "lamda", "xxabxx"}
	for _, a := range words {
		for _, b := range words {
			if got, want := distance(a, b), slow(a, b); got != want {
				t.Errorf("from %q to %q it is %d edits, want %d", a, b, got, want)
			}
		}
	}
}
