package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schema is docs/schema/tacit-1.schema.json.
type schema struct {
	t    *testing.T
	defs map[string]any
}

func readSchema(t *testing.T) *schema {
	t.Helper()
	b, err := os.ReadFile("../../docs/schema/tacit-1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return &schema{t, decode(t, string(b))["$defs"].(map[string]any)}
}

// errors lists where v violates the definition.
func (s *schema) errors(def string, v any) []string {
	if s.defs[def] == nil {
		s.t.Fatalf("the schema has no definition %q", def)
	}
	return s.check(def, s.defs[def].(map[string]any), v)
}

// check implements the keywords of JSON Schema that the file uses, and fails on others. It is stricter in one
// way: a property that the schema does not list is an error, so that new fields are documented.
func (s *schema) check(at string, rule map[string]any, v any) (out []string) {
	bad := func(format string, values ...any) { out = append(out, at+": "+fmt.Sprintf(format, values...)) }
	object, _ := v.(map[string]any)
	number, isNumber := v.(float64)
	text, isText := v.(string)
	for _, key := range slices.Sorted(maps.Keys(rule)) {
		switch want := rule[key]; key {
		case "description", "properties":
		case "$ref":
			out = append(out, s.check(at, s.defs[strings.TrimPrefix(want.(string), "#/$defs/")].(map[string]any), v)...)
		case "type":
			if got := typeOf(v); got != want && !(want == "number" && got == "integer") {
				bad("is %s, not %s", got, want)
			}
		case "const":
			if v != want {
				bad("is %v, not %v", v, want)
			}
		case "enum":
			if !slices.Contains(want.([]any), v) {
				bad("is %v, not one of %v", v, want)
			}
		case "minimum":
			if isNumber && number < want.(float64) {
				bad("%g is below %v", number, want)
			}
		case "maximum":
			if isNumber && number > want.(float64) {
				bad("%g is above %v", number, want)
			}
		case "pattern":
			if isText && !regexp.MustCompile(want.(string)).MatchString(text) {
				bad("%q does not match %s", text, want)
			}
		case "maxProperties":
			if float64(len(object)) > want.(float64) {
				bad("has %d properties", len(object))
			}
		case "required":
			for _, name := range want.([]any) {
				if _, has := object[name.(string)]; object != nil && !has {
					bad("has no %s", name)
				}
			}
		case "items":
			list, _ := v.([]any)
			for i, x := range list {
				out = append(out, s.check(fmt.Sprintf("%s[%d]", at, i), want.(map[string]any), x)...)
			}
		case "additionalProperties":
		case "anyOf":
			var all []string
			for _, one := range want.([]any) {
				problems := s.check(at, one.(map[string]any), v)
				if len(problems) == 0 {
					all = nil
					break
				}
				all = append(all, problems...)
			}
			out = append(out, all...)
		default:
			s.t.Fatalf("%s: unknown keyword %q in the schema", at, key)
		}
	}
	properties, closed := rule["properties"].(map[string]any)
	others, open := rule["additionalProperties"].(map[string]any)
	for name, x := range object {
		switch one, known := properties[name].(map[string]any); {
		case known:
			out = append(out, s.check(at+"."+name, one, x)...)
		case open:
			out = append(out, s.check(at+"."+name, others, x)...)
		case closed:
			bad("%s is not in the schema: add it to docs/schema/tacit-1.schema.json", name)
		}
	}
	return out
}

func typeOf(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case float64:
		if x == math.Trunc(x) {
			return "integer"
		}
		return "number"
	}
	return "object"
}

// TestOutputFollowsItsSchema validates real output of several kinds of runs.
func TestOutputFollowsItsSchema(t *testing.T) {
	s := readSchema(t)
	check := func(what, def string, v any) {
		t.Helper()
		for _, problem := range s.errors(def, v) {
			t.Errorf("%s: %s", what, problem)
		}
	}
	// data runs a command, validates the envelope and returns its data.
	data := func(words ...string) any {
		t.Helper()
		_, out, _ := tacit(append(words, "--format", "json", "-q")...)
		v := decode(t, out)
		check(strings.Join(words, " "), "envelope", v)
		return v["data"]
	}
	world := []string{"run", "-d", "world", "--world", "users=60,items=130,mean-rows=10", "rounds=2"}
	base := t.TempDir()
	dir := func(name string) string { return filepath.Join(base, name) }
	for name, words := range map[string][]string{
		"plain":    {"-m", "fedmf"},
		"paper":    {"-m", "pfedrec", "--protocol", "paper", "--no-figures"},
		"new":      {"-m", "ials", "--new-users", "0.2", "--no-figures"},
		"private":  {"-m", "fedmf", "--dp", "epsilon=8,metrics=5", "--no-references", "--no-figures", "dim=4"},
		"held out": {"-m", "privrec", "--protocol", "privrec", "--no-references", "--no-figures"},
		"on test":  {"-m", "fedmf", "--protocol", "fedrecgel", "--no-figures", "--encode", "sparse"},
	} {
		check(name, "result", data(append(append(world, words...), "-o", dir(name))...))
		checkFolder(t, s, dir(name))
	}
	seeds := append(world, "-m", "fedmf", "--seeds", "2", "--no-figures", "-o", dir("seeds"))
	check("seeds", "repeated", data(seeds...))
	grid := append(world, "-m", "fedmf", "--protocol", "paper,deployed", "--grid", "dim=4,8", "--no-references")
	check("grid", "several", data(grid...))
	list := data("recommend", "--run", dir("plain"), "--user", "3", "-n", "130")
	check("recommend", "recommendations", list)
	check("export", "export", data("export", "--run", dir("plain"), "-o", dir("out")))
	comparisons := data("compare", dir("plain"), dir("plain")).([]any)
	for _, c := range comparisons {
		check("compare", "comparison", c)
	}
	if len(comparisons) == 0 {
		t.Error("nothing was compared")
	}
	if v := data("run", "-m", "nothing"); v != nil {
		t.Errorf("a failed command has the data %v", v)
	}
}

// checkFolder validates result.json, metrics.jsonl and per_user.csv.
func checkFolder(t *testing.T, s *schema, dir string) {
	t.Helper()
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	report := func(name string, problems []string) {
		for _, problem := range problems {
			t.Errorf("%s of %s: %s", name, filepath.Base(dir), problem)
		}
	}
	report("result.json", s.errors("result", decode(t, read("result.json"))))
	for line := range strings.Lines(read("metrics.jsonl")) {
		report("metrics.jsonl", s.errors("round", decode(t, line)))
	}
	rows, err := csv.NewReader(strings.NewReader(read("per_user.csv"))).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("per_user.csv of %s: %d rows, %v", dir, len(rows), err)
	}
	for _, row := range rows[1:] {
		v := map[string]any{}
		for i, x := range row {
			v[rows[0][i]] = x
		}
		report("per_user.csv", s.errors("user", v))
	}
}

// The check can fail: every required field, type and limit is noticed.
func TestTheSchemaCheckFindsViolations(t *testing.T) {
	s := readSchema(t)
	good := `{"round":1,"devices":3,"samples":9,"bytes_up":8,"train_ms":1.5,"eval_ms":0,
		"valid":{"sampled":{"users":3,"hr@10":0.5},"full":null}}`
	if problems := s.errors("round", decode(t, good)); problems != nil {
		t.Fatal(problems)
	}
	for _, change := range [][2]string{
		{`"round":1`, `"round":0`},
		{`"round":1`, `"round":1.5`},
		{`"round":1`, `"round":"1"`},
		{`"round":1,`, ``},
		{`"hr@10":0.5`, `"hr@10":1.5`},
		{`"users":3,`, ``},
		{`,"full":null`, ``},
		{`"full":null`, `"full":7`},
		{`"samples":9`, `"samples":9,"sample":1`},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if !json.Valid([]byte(text)) || text == good {
			t.Fatalf("bad test: %s", text)
		}
		if s.errors("round", decode(t, text)) == nil {
			t.Errorf("accepted: %s", text)
		}
	}
}
