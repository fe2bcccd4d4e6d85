package experiment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/methods"
)

// TestMain isolates the tests from the presets and the cache of the current user.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tacit-presets-*")
	if err != nil {
		panic(err)
	}
	os.Setenv("TACIT_PRESETS", dir)
	os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func TestEveryBuiltInPresetResolvesForItsMethod(t *testing.T) {
	files, err := embedded.ReadDir("presets")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range append(methods.Default().Entries(), methods.Default().Composed()...) {
		all, err := Presets(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			given := settings("method="+p.Method, "data="+p.Data, "preset=built-in")
			if p.Protocol != "" {
				given = append(given, settings("protocol="+p.Protocol)...)
			}
			s, err := Resolve(given)
			if err != nil || s.Preset == nil {
				t.Errorf("preset %s: %v", p.Name(), err)
				continue
			}
			if methods.Published(p.Method, p.Data, "none") != nil && s.published() == nil {
				t.Errorf("preset %s has a published number, and its own settings do not show it", p.Name())
			}
			if seen++; p.Found == "" {
				t.Errorf("preset %s does not say in its first line how it was found", p.Name())
			}
		}
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".toml") {
			seen--
		}
	}
	if seen != 0 {
		t.Errorf("%d files of presets belong to no method", -seen)
	}
}

// userPreset writes a preset to the user's presets.
func userPreset(t *testing.T, name, text string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TACIT_PRESETS", dir)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheUsersPresetWinsOverTheBuiltInOneAndAFlagOverBoth(t *testing.T) {
	userPreset(t, "pfedrec@ml-100k@deployed.toml", "# Mine.\nmethod = \"pfedrec\"\ndata = \"ml-100k\"\nprotocol = "+
		"\"deployed\"\nbatch = 64\n[params]\nlr = 0.03\n")
	for words, want := range map[string][3]string{
		"":                       {"pfedrec/ml-100k/deployed", "0.03", "64"},
		"lr=0.5":                 {"pfedrec/ml-100k/deployed", "0.5", "64"},
		"protocol=paper":         {"pfedrec/ml-100k", "0.1", "256"}, // mine holds for deployed only
		"preset=built-in":        {"pfedrec/ml-100k", "0.1", "256"},
		"preset=none":            {"", "0.1", "256"},
		"preset=none batch=7":    {"", "0.1", "7"},
		"data=ml-1m":             {"pfedrec/ml-1m", "0.1", "256"},
		"data=world":             {"", "0.1", "256"},
		"method=local batch=256": {"", "0.1", "256"},
	} {
		s, err := Resolve(settings(append([]string{"method=pfedrec", "data=ml-100k"}, strings.Fields(words)...)...))
		if err != nil {
			t.Fatal(err)
		}
		got := [3]string{"", "", ""}
		if s.Preset != nil {
			got[0] = s.Preset.Name()
		}
		p := s.AsPreset("")
		got[1], got[2] = p.Settings["lr"], p.Settings["batch"]
		if got != want {
			t.Errorf("%q gives preset, lr and batch %v, want %v", words, got, want)
		}
	}
	s, err := Resolve(settings("method=pfedrec", "data=ml-100k"))
	if err != nil || !strings.Contains(s.From["lr"], "preset pfedrec/ml-100k/deployed, ") ||
		!strings.Contains(s.From["lr"], ".toml") {
		t.Errorf("the origin of lr is %q, want the preset and its file (%v)", s.From["lr"], err)
	}
}

func TestAPublishedNumberNeedsThePublishedSettings(t *testing.T) {
	userPreset(t, "pfedrec@ml-100k.toml", "# Mine.\nmethod = \"pfedrec\"\ndata = \"ml-100k\"\n[params]\nlr = 0.03\n")
	for words, want := range map[string]bool{
		"":                                  false, // my preset has another rate, and publishes nothing
		"preset=built-in":                   true,
		"preset=built-in lr=0.2":            false,
		"preset=built-in seed=9":            true,
		"preset=built-in rounds=50":         false,
		"preset=built-in noise=laplace:0.3": true, // Table 4
		"preset=built-in noise=laplace:0.7": false,
		"preset=none":                       true, // the defaults are the paper's settings
		"lr=0.1":                            true, // so is my preset with the paper's rate
	} {
		s, err := Resolve(settings(append([]string{"method=pfedrec", "data=ml-100k"}, strings.Fields(words)...)...))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.published(); (got != nil) != want {
			t.Errorf("%q shows the published number %v, want one: %v", words, got, want)
		}
	}
	for _, protocol := range []string{"fedrecgel", "deployed"} {
		s, err := Resolve(settings("method=fedrecgel", "data=filmtrust", "protocol="+protocol))
		if err != nil {
			t.Fatal(err)
		}
		if p := s.published(); p == nil || p.Protocol != "fedrecgel" || p.HR10 != 0.9177 {
			t.Errorf("under %s the number of FedRecGEL's sweep is %+v", protocol, p)
		}
	}
}

func TestAPresetSurvivesItsFile(t *testing.T) {
	s, err := Resolve(settings("method=fedmf", "data=ml-100k", "lr=decay:0.1,0.9,1", "cohort=10%", "server=adam:0.01",
		"eval-every=5", "seed=7"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "preset.toml")
	if err := os.WriteFile(file, s.AsPreset("Found by hand.\nNobody knows how.").TOML(), 0o600); err != nil {
		t.Fatal(err)
	}
	var p Preset
	if err := p.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	if p.Name() != "fedmf/ml-100k/deployed" || p.Found != "Found by hand. Nobody knows how." {
		t.Errorf("it is %s, found: %q", p.Name(), p.Found)
	}
	again, err := Resolve(settings("method=fedmf", "data=ml-100k", "preset="+file, "seed=7", "eval-every=5"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := s.Fingerprint(""), again.Fingerprint(""); a != b {
		t.Errorf("the preset gives another run:\n%s\n%s", s.TOML(), again.TOML())
	}
	if strings.Contains(string(again.TOML()), file) {
		t.Errorf("the settings name a file that may be gone when they are read:\n%s", again.TOML())
	}
	given, err := ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if run, err := Resolve(given); err != nil || run.Method != "fedmf" || run.EvalEvery != 1 || run.Seed != 1 ||
		run.Preset != nil {
		t.Errorf("a run of the file is %v, %v", run, err)
	}
	if _, err := Resolve(settings("method=pfedrec", "preset="+file)); err == nil || !strings.Contains(err.Error(),
		"a preset of fedmf, but the method is pfedrec") {
		t.Errorf("another method takes the preset: %v", err)
	}
	t.Setenv("TACIT_PRESETS", filepath.Join(t.TempDir(), "mine"))
	where, err := p.Install()
	if err != nil || filepath.Base(where) != "fedmf@ml-100k@deployed.toml" {
		t.Fatalf("installed as %s, %v", where, err)
	}
	if s, err := Resolve(settings("method=fedmf", "data=ml-100k")); err != nil || s.Preset.File != where {
		t.Errorf("after that the preset is %+v, %v", s.Preset, err)
	}
}

func TestBadPresetsAreInputErrors(t *testing.T) {
	const head = "method = \"fedmf\"\ndata = \"ml-100k\"\n"
	for text, want := range map[string]string{
		head + "seed = 3\n":                       "seed: a preset must only set",
		head + "eval-users = 3\n":                 "eval-users: a preset must only set",
		head + "world = \"users=9\"\n":            "world: a preset must only set",
		head + "rouns = 3\n":                      "rouns: a preset must only set",
		head + "[tune]\ntrials = 3\n":             "unknown table [tune]",
		"method = \"fedmf\"\n":                    "must name a method and a data set",
		head + "data = \"x\"\n":                   "line 3",
		"method = \"../x\"\ndata = \"ml-100k\"":   "must name a method",
		"method = \"fedmf\"\ndata = \"/a/b.csv\"": "must name a method",
	} {
		var in *InputError
		if err := new(Preset).read("p.toml", []byte(text)); !errors.As(err, &in) || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%q: error is %v, want an Input that says %q", text, err, want)
		}
	}
	files := fstest.MapFS{"fedmf@ml-1m.toml": {Data: []byte(head)}}
	if _, err := lookUp(files, ".", "fedmf", "ml-1m", "paper"); err == nil || !strings.Contains(err.Error(),
		"contains the preset fedmf/ml-100k") {
		t.Errorf("a preset under another's name is taken: %v", err)
	}
	if p, err := lookUp(files, ".", "fedmf", "../../etc", "paper"); p != nil || err != nil {
		t.Errorf("a path is looked up: %v, %v", p, err)
	}
	for _, bad := range []string{"lrr = 3\n", "dim = 0\n"} {
		userPreset(t, "fedmf@ml-100k.toml", head+"[params]\n"+bad)
		if _, err := Resolve(settings("method=fedmf", "data=ml-100k")); err == nil || !strings.Contains(err.Error(),
			bad[:3]) {
			t.Errorf("a preset with %q resolves: %v", bad, err)
		}
	}
}

// The result of a search on any data set can be saved as a preset.
func TestAPresetOfEveryKnownSetSurvivesItsFile(t *testing.T) {
	for _, k := range data.KnownSets() {
		for _, words := range []string{"", "dedup=first", "min-rows=7 threshold=2"} {
			s, err := Resolve(settings(append([]string{"method=fedmf", "data=" + k.Name}, strings.Fields(words)...)...))
			if err != nil {
				t.Fatal(err)
			}
			if err := new(Preset).read("preset.toml", s.AsPreset("Found.").TOML()); err != nil {
				t.Errorf("%s %s: %v", k.Name, words, err)
			}
		}
	}
}

func TestAFinishedRunWithOtherSettingsIsNotTaken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	job := func(words ...string) *Job {
		s, err := Resolve(settings(append([]string{
			"method=pfedrec", "data=world", "world=users=30,items=120",
			"rounds=2",
		}, words...)...))
		if err != nil {
			t.Fatal(err)
		}
		src, err := OpenData(&s.Settings, "")
		if err != nil {
			t.Fatal(err)
		}
		return &Job{Spec: s, Source: src, Jobs: 1, Out: dir, NoReferences: true}
	}
	if _, err := job().Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for words, same := range map[string]bool{"": true, "lr=0.2": false, "seed=3": false, "protocol=paper": false} {
		j := job(strings.Fields(words)...)
		j.Resume = true
		if _, err := j.Run(t.Context()); (err == nil) != same {
			t.Errorf("resumed with %q: %v, want the same run: %v", words, err, same)
		}
	}
}

// A method of a paper's table with a published number and no preset would be shown without the number.
func TestEveryPublishedNumberIsShownWithItsRun(t *testing.T) {
	for _, set := range []string{"ml-100k", "ml-1m"} {
		for _, name := range []string{
			"mf", "ncf", "fcf", "fedmf", "fedncf", "fedrecon", "pfedrec", "fedncf+dualper", "fedrecon+dualper",
			"metamf",
			"fedpergnn", "fedrap", "fofl-self", "nn-self", "privrec", "privrec-cen",
		} {
			p := methods.Published(name, set, "none")
			if p == nil {
				continue
			}
			s, err := Resolve(settings("method="+name, "data="+set, "protocol="+p.Protocol, "preset=built-in"))
			if err != nil || s.published() == nil {
				t.Errorf("%s on %s has a published number, and a run with its preset does not show it (%v)", name,
					set, err)
			}
		}
	}
}
