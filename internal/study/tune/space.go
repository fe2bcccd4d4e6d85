package tune

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// Axis is a key that is searched, and its range.
type Axis struct {
	Key string
	param.Range
}

// Prefixes of the tables of a search's file, and the origin of settings that were typed.
const (
	spacePrefix = "space."
	tunePrefix  = "tune."
	typed       = "command line"
)

// Words parses the words of a command line: key=a..b and key=x|y are searched, a key without a value is
// searched over the range of its tag, key=value is fixed.
func Words(words []string) ([]experiment.Setting, error) {
	var fixed []string // keys that are never searched
	for _, k := range append(param.Keys(&experiment.Settings{}), param.Keys(&Options{})...) {
		if !slices.Contains(param.Keys(&sim.Options{}), k) {
			fixed = append(fixed, k)
		}
	}
	var out []experiment.Setting
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok && strings.ContainsAny(w, "./\\ ") {
			return nil, bad(fmt.Errorf("%q is neither a .toml file nor a key nor key=value", w))
		}
		if !ok || param.IsRange(value) && !slices.Contains(fixed, key) {
			key = spacePrefix + strings.TrimPrefix(key, "params.")
		}
		out = append(out, experiment.Setting{Key: key, Value: value, From: typed})
	}
	return out, nil
}

func bad(err error) error {
	return &experiment.InputError{Err: err, Hint: "ranges are " + param.RangeSyntax +
		"; example: tacit tune -m fedmf -d world lr=0.01..1,log dim=16|32|64 epochs=1"}
}

// space returns the axes: those of the method's tags except fixed keys, and the given ones. If the
// settings come from a file with a space, only its axes are used.
func space(base *experiment.Spec, given []experiment.Setting) ([]Axis, error) {
	fields := param.Fields(base.Params)
	own := len(fields)
	fields = append(fields, param.Fields(&base.Options)...)
	text := map[string]experiment.Setting{}
	if !slices.ContainsFunc(given, func(g experiment.Setting) bool {
		return strings.HasPrefix(g.Key, spacePrefix) &&
			g.From != typed
	}) {
		for _, f := range fields[:own] {
			if f.Range != "" {
				text[f.Key] = experiment.Setting{Key: f.Key, Value: f.Range, From: "tag"}
			}
		}
	}
	for _, g := range given {
		if key, searched := strings.CutPrefix(g.Key, spacePrefix); searched {
			text[key] = g
		} else {
			delete(text, strings.TrimPrefix(g.Key, "params."))
		}
	}
	var axes []Axis
	for i, f := range fields {
		g, ok := text[f.Key]
		if !ok {
			continue
		}
		delete(text, f.Key)
		if i >= own && f.Range == "" {
			return nil, bad(fmt.Errorf("%s: %s cannot be searched, because it determines what is run or how it is "+
				"measured", g.From,
				f.Key))
		}
		a, err := axis(base, f, g)
		if err != nil {
			return nil, err
		}
		axes = append(axes, a)
	}
	for key, g := range text { // report any of them
		return nil, unknown(base, fields, key, g.From)
	}
	if len(axes) == 0 {
		return nil, bad(fmt.Errorf("nothing to search: no parameter of %s that is not fixed has a default range",
			base.Method))
	}
	return axes, nil
}

func unknown(base *experiment.Spec, fields []param.Field, key, from string) error {
	if slices.Contains(param.Keys(&base.Settings), key) {
		return bad(fmt.Errorf("%s: %s cannot be searched, because it determines what is run or how it is measured",
			from, key))
	}
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.Key)
	}
	return bad(fmt.Errorf("%s: %w (method %s)", from, &param.Unknown{Key: key, Nearest: param.Nearest(key, keys)},
		base.Method))
}

// axis parses the range of one field and checks its ends.
func axis(base *experiment.Spec, f param.Field, g experiment.Setting) (Axis, error) {
	text := g.Value
	if text == "" {
		text = f.Range
		if text == "" {
			return Axis{}, bad(fmt.Errorf("%s: %s has no default range: add one", g.From, f.Key))
		}
	}
	r, err := param.ParseRange(text, f.Type == "whole number")
	if err != nil {
		return Axis{}, bad(fmt.Errorf("%s: %s = %q: %w; must be %s", g.From, f.Key, text, err, param.RangeSyntax))
	}
	values := r.List
	if values == nil {
		values = []string{r.At(0), r.At(1)}
	}
	for _, v := range values {
		m, o := base.Entry.Clone(base.Params), base.Options
		target := any(m)
		if !slices.Contains(param.Keys(m), f.Key) {
			target = &o
		}
		if err := param.Set(target, f.Key, v); err != nil {
			return Axis{}, bad(fmt.Errorf("%s: %w", g.From, err))
		}
	}
	return Axis{f.Key, r}, nil
}

// point is the value of each axis as text; nil for the current settings.
type point []string

// draws is how often a trial draws a setting until it finds an unused one.
const draws = 1000

// points draws up to n settings; the first is the current one. Each trial has a separate random stream,
// so that a longer search starts with the trials of a shorter one. A small space yields fewer settings.
func points(base *experiment.Spec, axes []Axis, n int) []point {
	seen := map[string]bool{}
	taken := func(p point) bool {
		key := ""
		for _, v := range p {
			key += canonical(v) + "|"
		}
		was := seen[key]
		seen[key] = true
		return was
	}
	taken(present(base, axes))
	out := []point{nil}
	for len(out) < n {
		r := rng.New(base.Seed, rng.Tune, uint64(len(out)))
		p := make(point, len(axes))
		for try := 0; ; try++ {
			if try == draws {
				return out
			}
			for i, a := range axes {
				p[i] = a.At(r.Float64())
			}
			if !taken(p) {
				break
			}
		}
		out = append(out, p)
	}
	return out
}

// present returns the current values of the axes.
func present(s *experiment.Spec, axes []Axis) point {
	values := valuesOf(s, axes)
	var out point
	for _, a := range axes {
		out = append(out, fmt.Sprint(values[a.Key]))
	}
	return out
}

func canonical(v string) string {
	if x, err := strconv.ParseFloat(v, 64); err == nil {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return v
}

// valuesOf returns the values of the axes as JSON values.
func valuesOf(s *experiment.Spec, axes []Axis) map[string]any {
	own, run := param.Values(s.Params), param.Values(&s.Options)
	out := map[string]any{}
	for _, a := range axes {
		v, ok := own[a.Key]
		if !ok {
			v = run[a.Key]
		}
		out[a.Key] = v
	}
	return out
}
