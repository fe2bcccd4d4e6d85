package experiment

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

//go:embed presets
var embedded embed.FS

// Preset holds a method's settings on a data set. It is a TOML file with the name METHOD@DATA.toml, or
// METHOD@DATA@PROTOCOL.toml if it applies to one protocol only. It sets options of the run and
// parameters of the method and nothing else, so that a preset never changes what is measured.
type Preset struct {
	Method, Data string
	Protocol     string            // empty for all protocols
	Settings     map[string]string // run options and method parameters, by key
	Found        string            // how it was found: the first comment of the file
	File         string            // empty for built-in presets

	extra map[string]string // how the data is read; only for runs of the file
	text  []byte            // content of the file
}

// Name returns the name of the preset, such as pfedrec/ml-100k.
func (p *Preset) Name() string {
	if p.Protocol == "" {
		return p.Method + "/" + p.Data
	}
	return p.Method + "/" + p.Data + "/" + p.Protocol
}

func (p *Preset) fileName() string {
	return strings.ReplaceAll(p.Name(), "/", "@") + ".toml"
}

// given returns the settings of the preset.
func (p *Preset) given() []Setting {
	from := "preset " + p.Name()
	if p.File != "" {
		from += ", " + p.File
	}
	var out []Setting
	for _, k := range slices.Sorted(maps.Keys(p.Settings)) {
		out = append(out, Setting{k, p.Settings[k], from})
	}
	return out
}

// measuring lists the options that determine how a run is measured. Presets must not set them.
var measuring = []string{"eval-every", "eval-users", "new-users", "ties"}

// dataKeys lists the settings that determine how data is read.
var dataKeys = append([]string{"world"}, param.Keys(&Reading{})...)

// filters lists the data keys that a preset file may have.
var filters = []string{"min-rows", "threshold", "dedup"}

// ReadFile reads the preset from a file. It returns an error for settings that a preset must not have.
func (p *Preset) ReadFile(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return AsInput(err, "")
	}
	p.File = file
	return p.read(file, b)
}

func (p *Preset) read(name string, b []byte) error {
	given, err := readText(name, b, []string{"params"})
	if err != nil {
		return err
	}
	p.Settings, p.extra = map[string]string{}, map[string]string{}
	p.Found, p.text = opening(string(b)), b
	bad := func(format string, words ...any) error {
		return AsInput(fmt.Errorf("%s: %s", name, fmt.Sprintf(format, words...)),
			"tacit tune writes preset files; tacit run "+name+" may still run it")
	}
	options := param.Keys(&sim.Options{})
	for _, g := range given {
		key, own := strings.CutPrefix(g.Key, "params.")
		switch {
		case own:
			p.Settings[key] = g.Value
		case g.Key == "preset" && g.Value == "none": // only for runs of the file
		case g.Key == "method":
			p.Method = g.Value
		case g.Key == "data":
			p.Data = g.Value
		case g.Key == "protocol":
			p.Protocol = g.Value
		case slices.Contains(options, g.Key) && !slices.Contains(measuring, g.Key):
			p.Settings[g.Key] = g.Value
		case slices.Contains(filters, g.Key): // only for runs of the file
			p.extra[g.Key] = g.Value
		default:
			return bad("%s: a preset must only set options of the run and parameters of the method", g.Key)
		}
	}
	if !plainName.MatchString(p.Method) || !plainName.MatchString(p.Data) {
		return bad("method = %q, data = %q: a preset must name a method and a data set", p.Method, p.Data)
	}
	return nil
}

// plainName matches names that can be part of a file name.
var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]*$`)

// opening returns the first paragraph of the comment at the top of a file.
func opening(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		line, comment := strings.CutPrefix(strings.TrimSpace(line), "#")
		line = strings.TrimSpace(line)
		if !comment || line == "" {
			break
		}
		out = append(out, line)
	}
	return strings.Join(out, " ")
}

// AsPreset returns a preset with all settings of the experiment except the seed and how it is measured.
func (s *Spec) AsPreset(found string) *Preset {
	p := &Preset{Method: s.Method, Protocol: s.Protocol, Found: found, extra: map[string]string{}}
	p.Data, p.Settings = s.Data, map[string]string{}
	for _, values := range []map[string]any{param.Values(&s.Options), param.Values(s.Params)} {
		for k, v := range values {
			if !slices.Contains(measuring, k) {
				p.Settings[k] = fmt.Sprint(v)
			}
		}
	}
	var plain Settings
	param.Defaults(&plain)
	for _, g := range minRows(s.Data, s.Protocol, nil) {
		if param.Set(&plain, g.Key, g.Value) != nil {
			panic("experiment: the filter of a data set is not a setting")
		}
	}
	now, usual := param.Values(&s.Settings), param.Values(&plain)
	for _, k := range dataKeys {
		if now[k] != usual[k] {
			p.extra[k] = fmt.Sprint(now[k])
		}
	}
	return p
}

// TOML writes the preset as a file that is both a settings file and a preset.
func (p *Preset) TOML() []byte {
	var b strings.Builder
	for _, line := range strings.Split(p.Found, "\n") {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	b.WriteString("#\n# tacit run THIS-FILE runs it; tacit run --preset THIS-FILE -m M -d D starts from it.\n\n")
	fmt.Fprintf(&b, "preset = \"none\" # the file is complete\nmethod = %q\ndata = %q\n", p.Method, p.Data)
	if p.Protocol != "" {
		fmt.Fprintf(&b, "protocol = %q\n", p.Protocol)
	}
	own, run := maps.Clone(p.Settings), maps.Clone(p.extra)
	for _, k := range param.Keys(&sim.Options{}) {
		if v, ok := own[k]; ok {
			run[k] = v
			delete(own, k)
		}
	}
	for i, set := range []map[string]string{run, own} {
		if i == 1 {
			b.WriteString("\n[params]\n")
		}
		for _, k := range slices.Sorted(maps.Keys(set)) {
			fmt.Fprintf(&b, "%s = %s\n", k, tomlText(set[k]))
		}
	}
	return []byte(b.String())
}

// tomlText quotes everything but numbers.
func tomlText(s string) string {
	if x, err := strconv.ParseFloat(s, 64); err == nil && x-x == 0 && !strings.ContainsAny(s, "xXpP_+") &&
		!strings.HasPrefix(s, ".") {
		return s
	}
	return fmt.Sprintf("%q", s)
}

// Install copies the preset to the user's presets and returns its file. It replaces an existing one.
func (p *Preset) Install() (file string, err error) {
	dir := presetDir()
	if dir == "" {
		return "", AsInput(errors.New("this system has no settings folder"), "set TACIT_PRESETS to a folder")
	}
	spec, err := Resolve(Pairs("preset", "method="+p.Method, "preset=none"))
	if err != nil {
		return "", err
	}
	if err := spec.put(p.given()); err != nil {
		return "", err
	}
	file = filepath.Join(dir, p.fileName())
	return file, AsInput(writeFile(file, p.text), "set TACIT_PRESETS to a folder that you can write to")
}

// presetDir returns the folder of the user's presets, or an empty string.
func presetDir() string {
	if d := os.Getenv("TACIT_PRESETS"); d != "" {
		return d
	}
	d, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(d, "tacit", "presets")
}

// findPreset looks up the preset: the file that the settings name, otherwise the user's preset,
// otherwise the built-in one. A preset for the protocol takes precedence over a general one.
func (s *Spec) findPreset() (*Preset, error) {
	want := s.Settings.Preset
	switch {
	case want == "none":
		return nil, nil
	case strings.HasSuffix(want, ".toml"):
		p := &Preset{}
		if err := p.ReadFile(want); err != nil {
			return nil, err
		}
		if p.Method != s.Method {
			return nil, AsInput(fmt.Errorf("%s is a preset of %s, but the method is %s", want, p.Method, s.Method),
				"add -m "+p.Method)
		}
		return p, nil
	case want != "auto" && want != "built-in":
		return nil, AsInput(fmt.Errorf("preset = %q: must be auto, built-in, none or a .toml file", want), "")
	}
	if dir := presetDir(); want == "auto" && dir != "" {
		p, err := lookUp(os.DirFS(dir), ".", s.Method, s.Data, s.Protocol)
		if p != nil {
			p.File = filepath.Join(dir, p.fileName())
		}
		if p != nil || err != nil {
			return p, err
		}
	}
	return lookUp(embedded, "presets", s.Method, s.Data, s.Protocol)
}

// lookUp reads the preset for method, data and protocol from a folder; nil if the folder has none.
func lookUp(fsys fs.FS, dir, method, data, protocol string) (*Preset, error) {
	if !plainName.MatchString(method) || !plainName.MatchString(data) {
		return nil, nil // the data is a file
	}
	for _, p := range []string{protocol, ""} {
		want := Preset{Method: method, Protocol: p}
		want.Data = data
		b, err := fs.ReadFile(fsys, path.Join(dir, want.fileName()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, AsInput(err, "")
		}
		return readNamed(want.fileName(), b)
	}
	return nil, nil
}

// readNamed reads a preset and checks that it has the name of its file.
func readNamed(name string, b []byte) (*Preset, error) {
	p := &Preset{}
	if err := p.read(name, b); err != nil {
		return nil, err
	}
	if p.fileName() != name {
		return nil, AsInput(fmt.Errorf("preset file %s contains the preset %s", name, p.Name()), "rename it to "+
			p.fileName())
	}
	return p, nil
}

// Presets returns the built-in presets of a method.
func Presets(e method.Entry) ([]*Preset, error) {
	var out []*Preset
	files, err := fs.Glob(embedded, "presets/"+e.Name+"@*.toml")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		b, err := embedded.ReadFile(f)
		if err != nil {
			return nil, err
		}
		p, err := readNamed(path.Base(f), b)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b *Preset) int { return cmp.Compare(a.Name(), b.Name()) })
	return out, nil
}

// published returns the published number for these settings; nil if they differ from the built-in
// preset, because the number belongs to other settings then. It does not matter whether the settings
// came from the preset. Runs with noise on updates have separate published numbers.
func (s *Spec) published() *method.Published {
	noise, _ := s.Noise.MarshalText()
	number := methods.Published(s.Method, s.Data, string(noise))
	all, err := Presets(s.Entry)
	if number == nil || err != nil {
		return nil
	}
	for _, p := range all {
		if p.Data != s.Data || p.Protocol != "" && p.Protocol != s.Protocol {
			continue
		}
		ref, err := Resolve(Pairs("preset", "method="+s.Method, "data="+s.Data, "protocol="+s.Protocol, "preset=none"))
		if err != nil || ref.put(p.given()) != nil {
			continue
		}
		a, b := param.Values(&s.Settings), param.Values(&ref.Settings)
		for _, key := range []string{"seed", "seeds", "protocol", "preset", "noise", "eval-every", "eval-users"} {
			delete(a, key)
			delete(b, key)
		}
		if reflect.DeepEqual(a, b) && reflect.DeepEqual(param.Values(s.Params), param.Values(ref.Params)) {
			return number
		}
	}
	return nil
}
