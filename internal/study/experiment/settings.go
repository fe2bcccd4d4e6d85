// Package experiment runs one experiment, from its settings to its run folder: it resolves flags,
// environment, file and preset, opens the data, runs the simulation and the reference rows, and
// writes a folder that can be resumed and reported on. It never prints: progress is events. Errors
// that the user can correct are InputErrors.
package experiment

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// Settings are all settings of a run except the parameters of its method.
type Settings struct {
	Method   string `default:"tacit" doc:"the method; tacit methods lists them"`
	Data     string `default:"world" doc:"a name of tacit data list, or a text, JSON or Parquet file"`
	Protocol string `default:"deployed" choices:"paper|isolated|deployed|complete|temporal|fedrecgel|privrec" doc:"evaluation protocol; tacit help protocols describes them"`
	Seed     uint64 `default:"1" doc:"seed of all randomness"`
	Seeds    int    `default:"1" doc:"number of runs, with consecutive seeds starting at --seed"`

	Preset string `default:"auto" doc:"settings to start from: auto, built-in, none, or a preset file (.toml)"`

	sim.Options

	World string `default:"" doc:"size of the synthetic data set: users=1000,items=500,mean-rows=40,seed=1,drift=0.5"`
	Reading
}

// Reading says how the rows of a data set are read and which are kept.
type Reading struct {
	Sep        string `default:"" doc:"separator of a text file: tab, comma, semicolon, pipe, space or ::; detected if empty"`
	Header     string `default:"auto" choices:"auto|yes|no" doc:"whether the first line of a text file names the columns"`
	Columns    string `default:"" doc:"columns of a file: user,item,rating,time or user=uid,item=3,title=name,context=city"`
	TimeFormat string `default:"auto" choices:"auto|number|day-first|month-first" doc:"how a file writes times: numbers, or the order in dates such as 1/11/2000"`
	MinRows    int    `default:"3" doc:"drop users with fewer interactions; at least 3 are needed"`
	Threshold  string `default:"" doc:"drop interactions with a rating below this value; empty keeps all"`
	Dedup      string `default:"none" choices:"none|first|last" doc:"which of a user's repeated interactions with an item to keep"`
	KCore      int    `default:"0" doc:"drop users and items with fewer interactions, until all that remain have as many"`
	TimeCut    string `default:"" doc:"where validation and test start (protocol temporal): 0.8,0.9 or 2000-11-01,2000-12-01"`
	TestFile   string `default:"" doc:"file with the test interactions; the data is then the train file"`
	ValidFile  string `default:"" doc:"file with the validation interactions, beside --test-file"`
	TestRows   string `default:"auto" choices:"auto|first|all" doc:"test rows of a user to rank; auto: all with --test-file or --time-cut"`
}

// InputError is an error that the user can correct. The program exits with code 2.
type InputError struct {
	Err  error
	Hint string // the next step; may be empty
}

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// AsInput wraps err in an InputError with a hint. It returns nil if err is nil, and err itself if it
// already wraps an InputError.
func AsInput(err error, hint string) error {
	if err == nil {
		return nil
	}
	var already *InputError
	if errors.As(err, &already) {
		return err
	}
	return &InputError{err, hint}
}

// Setting is a key, its value as text, and the origin of the value.
type Setting struct{ Key, Value, From string }

// Spec is a resolved experiment.
type Spec struct {
	Settings
	Methods *method.Registry // those that Entry is one of
	Entry   method.Entry
	Params  method.Method
	Preset  *Preset // nil without a preset
	// From is the origin by key: default, method, data set, protocol, preset, devices, file, environment or flag.
	From map[string]string

	devices int // that the settings are fitted to; 0 if they are not
}

// Resolve combines settings. Later ones take precedence: defaults, options of the method, the preset,
// the minimum of rows of data set and protocol, then the given settings in their order.
func Resolve(given []Setting) (*Spec, error) { return ResolveIn(methods.Default(), given) }

// ResolveIn is Resolve for the methods of a registry.
func ResolveIn(registry *method.Registry, given []Setting) (*Spec, error) {
	s := &Spec{Methods: registry, From: map[string]string{}}
	param.Defaults(&s.Settings)
	// These settings determine the preset and the valid keys.
	for _, g := range given {
		if slices.Contains([]string{"method", "data", "protocol", "preset"}, g.Key) {
			if err := param.Set(&s.Settings, g.Key, g.Value); err != nil {
				return nil, AsInput(fmt.Errorf("%s: %w", g.From, err), "")
			}
		}
	}
	var err error
	if s.Entry, err = registry.Lookup(s.Method); err != nil {
		return nil, AsInput(err, "tacit methods lists them")
	}
	s.Params = s.Entry.Build()
	if s.Preset, err = s.findPreset(); err != nil {
		return nil, err
	}
	given = append(minRows(s.Data, s.Protocol, given), given...)
	if s.Preset != nil {
		given = append(s.Preset.given(), given...)
	}
	given = append(methodOptions(s.Entry), given...)
	if p, err := data.ProtocolNamed(s.Protocol); err == nil && p.ExpectedTies {
		given = append([]Setting{{"ties", "expected", "protocol"}}, given...)
	}
	if err := s.put(given); err != nil {
		return nil, err
	}
	if named := func(g Setting) bool { return g.Key == "method" }; s.DP.On() && !slices.ContainsFunc(given, named) {
		return nil, noPrivateForm(s, given)
	}
	return s, nil
}

// noPrivateForm is the error for a privacy guarantee with the default method, whose updates are too many numbers for
// the noise of one.
func noPrivateForm(s *Spec, given []Setting) error {
	policy := ""
	for _, g := range given {
		if g.Key == "dp" {
			policy = g.Value
		}
	}
	return AsInput(fmt.Errorf("dp=%s: the default method, %s, has no private form; choose a method that has one",
		policy, s.Method), "tacit run -m norm-grad -d "+s.Data+" --dp "+policy)
}

// Typed reports whether the user named a setting, in a command or in a file that it names. With a preset that
// the user named, that includes the settings of the preset.
func (s *Spec) Typed(key string) bool {
	from := s.From[key]
	if strings.HasPrefix(from, "preset") {
		return s.Typed("preset")
	}
	return !slices.Contains([]string{"", "default", "method", "data set", "protocol", fromDevices, fromFiles}, from) &&
		!strings.HasPrefix(from, "environment ")
}

// fromFiles is the origin of settings that files of a split imply.
const fromFiles = "split files"

// minRows returns the minimum of rows per user that the data set or the protocol requires. Files of a split are read as
// they are.
func minRows(set, protocol string, given []Setting) []Setting {
	if slices.ContainsFunc(given, func(g Setting) bool { return g.Key == "test-file" && g.Value != "" }) {
		return []Setting{{"min-rows", "1", fromFiles}}
	}
	least, from := 0, "data set"
	for _, k := range data.KnownSets() {
		if k.Name == set {
			least = k.MinRows
		}
	}
	if p, err := data.ProtocolNamed(protocol); err == nil && p.MinRows > least {
		least, from = p.MinRows, "protocol"
	}
	if least == 0 {
		return nil
	}
	return []Setting{{"min-rows", strconv.Itoa(least), from}}
}

// methodOptions returns the options of a run that its method sets.
func methodOptions(e method.Entry) []Setting {
	var out []Setting
	for _, k := range slices.Sorted(maps.Keys(e.Options)) {
		out = append(out, Setting{k, e.Options[k], "method"})
	}
	return out
}

// AsPrinted returns the same experiment with PrivRec's algorithm 2 as printed in the paper, and with the
// paper's 1000 rounds unless the user set the rounds.
func (s *Spec) AsPrinted() (*Spec, error) {
	if !s.DP.On() {
		return nil, AsInput(fmt.Errorf("--as-printed requires a run with noise, and %s has none", s.Method),
			"example: tacit run -m dp-privrec --as-printed")
	}
	const from = "flag --as-printed"
	text, err := s.DP.AsPrinted().MarshalText()
	if err != nil {
		return nil, err
	}
	given := []Setting{{"dp", string(text), from}}
	if own := s.From["rounds"]; own == "" || own == "method" || own == fromDevices || strings.HasPrefix(own, "preset") {
		given = append(given, Setting{"rounds", "1000", from})
	}
	return s.With(given)
}

// With returns the same experiment with some settings changed.
func (s *Spec) With(given []Setting) (*Spec, error) {
	one := *s
	one.Params, one.From = s.Entry.Clone(s.Params), maps.Clone(s.From)
	if err := one.put(given); err != nil {
		return nil, err
	}
	return &one, nil
}

// put applies settings and checks the result.
func (s *Spec) put(given []Setting) error {
	for _, g := range given {
		if err := s.set(g); err != nil {
			return err
		}
	}
	s.fit()
	if err := s.Options.Check(); err != nil {
		return AsInput(err, "")
	}
	if err := s.checkSplit(); err != nil {
		return err
	}
	if s.Seeds < 1 || s.Seeds > 1000 {
		return AsInput(fmt.Errorf("seeds = %d: must be 1 to 1000", s.Seeds), "")
	}
	if err := method.Check(s.Params); err != nil {
		return AsInput(fmt.Errorf("%s: %w", s.Method, err), "tacit methods "+s.Method+" explains its parameters")
	}
	return nil
}

func (s *Spec) set(g Setting) error {
	key := strings.TrimPrefix(g.Key, "params.")
	for _, target := range []any{&s.Settings, s.Params} {
		if key != g.Key && target == any(&s.Settings) || !slices.Contains(param.Keys(target), key) {
			continue
		}
		if err := param.Set(target, key, g.Value); err != nil {
			return AsInput(fmt.Errorf("%s: %w", g.From, err), "")
		}
		s.From[key] = g.From
		return nil
	}
	return s.unknown(g, key)
}

// Pairs returns the settings of key=value words that the program itself wrote.
func Pairs(from string, words ...string) []Setting {
	var out []Setting
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		out = append(out, Setting{key, value, from})
	}
	return out
}

// Assignments parses key=value words of a user.
func Assignments(words []string, from string) ([]Setting, error) {
	for _, w := range words {
		if !strings.Contains(w, "=") {
			return nil, AsInput(fmt.Errorf("%q is neither a .toml file nor key=value", w),
				"example: tacit run -m pfedrec -d world rounds=20 lr=0.05")
		}
	}
	return Pairs(from, words...), nil
}

// Environment returns the settings of TACIT_... variables: TACIT_EVAL_EVERY sets eval-every. TACIT_DATA,
// TACIT_PRESETS, TACIT_STATE and TACIT_PASSPHRASE are not settings.
func Environment(variables []string) []Setting {
	var out []Setting
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		key, ours := strings.CutPrefix(name, "TACIT_")
		if !ours || slices.Contains([]string{"DATA", "PRESETS", "STATE", "PASSPHRASE"}, key) ||
			strings.HasPrefix(key, "TEST_") {
			continue
		}
		key = strings.ReplaceAll(strings.ToLower(key), "_", "-")
		out = append(out, Setting{key, value, "environment " + name})
	}
	return out
}

// ReadFile reads a TOML file of settings; the method's parameters are in the table [params]. Keys of
// the other given tables are prefixed with the table's name.
func ReadFile(path string, tables ...string) ([]Setting, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, AsInput(err, "")
	}
	return readText(path, b, append(tables, "params"))
}

func readText(path string, b []byte, tables []string) ([]Setting, error) {
	const limit = 1 << 20
	if len(b) > limit {
		return nil, AsInput(fmt.Errorf("%s has %d bytes: a settings file must have at most %d", path, len(b), limit),
			"")
	}
	var tree map[string]any
	if err := toml.Unmarshal(b, &tree); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, _ := at.Position()
			return nil, AsInput(fmt.Errorf("%s line %d: %w", path, row, err), "")
		}
		return nil, AsInput(fmt.Errorf("%s: %w", path, err), "")
	}
	return flatten(path, "", tree, tables)
}

func flatten(path, prefix string, tree map[string]any, tables []string) ([]Setting, error) {
	var out []Setting
	for _, k := range slices.Sorted(maps.Keys(tree)) { // sorted, so that the first error is always the same
		switch v := tree[k].(type) {
		case map[string]any:
			if prefix != "" || !slices.Contains(tables, k) {
				return nil, AsInput(fmt.Errorf("%s: unknown table [%s%s]", path, prefix, k),
					"settings are at the top, parameters of the method in [params]")
			}
			inner, err := flatten(path, k+".", v, tables)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
		case string, int64, float64, bool:
			out = append(out, Setting{prefix + k, fmt.Sprint(v), path})
		default:
			return nil, AsInput(fmt.Errorf("%s: %s%s must be a text, a number or true or false", path, prefix, k), "")
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out, nil
}

// TOML writes the resolved settings, each with its documentation. ReadFile and Resolve turn the file
// into the same experiment.
func (s *Spec) TOML() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# tacit run THIS-FILE repeats this experiment.\n")
	section := func(target any) {
		values := param.Values(target)
		if file, ok := values["preset"].(string); ok && strings.HasSuffix(file, ".toml") {
			values["preset"] = "none" // all of its settings are written here, and the file may be gone later
		}
		for _, f := range param.Fields(target) {
			fmt.Fprintf(&b, "\n# %s\n", f.Doc)
			if len(f.Choices) > 0 {
				fmt.Fprintf(&b, "# one of: %s\n", strings.Join(f.Choices, " "))
			}
			fmt.Fprintf(&b, "%s = %s\n", f.Key, tomlValue(values[f.Key]))
		}
	}
	section(&s.Settings)
	b.WriteString("\n[params]\n")
	section(s.Params)
	return []byte(b.String())
}

func tomlValue(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v)
}
