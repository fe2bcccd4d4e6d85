package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/methods"
)

// chosenJob returns a run of ials-next on a file that has no preset.
func chosenJob(t *testing.T, out string, words ...string) *Job {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rows.csv")
	var b strings.Builder
	b.WriteString("user,item,time\n")
	for u := range 40 {
		for k := range 12 {
			fmt.Fprintf(&b, "%d,%d,%d\n", u, u%2*60+(u*7+k*5)%60, k)
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	given := append([]string{"method=ials-next", "data=" + file, "columns=user,item,time"}, words...)
	s, err := Resolve(settings(given...))
	if err != nil {
		t.Fatal(err)
	}
	src, err := OpenData(&s.Settings, "")
	if err != nil {
		t.Fatal(err)
	}
	return &Job{Spec: s, Source: src, Jobs: 2, NoReferences: true, Out: out}
}

func TestSettingsAreChosenOnValidationUnlessTheUserSetsThem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	j := chosenJob(t, dir)
	events := 0
	j.OnEvent = func(e Event) {
		if _, ok := e.(SettingTried); ok {
			events++
		}
	}
	if err := j.ChooseSettings(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := j.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := res.Choice
	if c == nil || len(c.Tried) != len(j.Entry.Grid) || events != len(c.Tried) {
		t.Fatalf("the choice is %+v, %d events; want %d settings", c, events, len(j.Entry.Grid))
	}
	// A separate run of each setting has the same metrics, and the chosen one is what was run.
	for i, tried := range c.Tried {
		one := chosenJob(t, "", strings.Fields(tried.Settings)...)
		r, err := one.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Valid.Sampled["ndcg@10"] != tried.NDCG || tried.NDCG > c.Tried[c.Chosen].NDCG {
			t.Errorf("%s has %g, a separate run %g; the chosen one has %g", tried.Settings, tried.NDCG,
				r.Valid.Sampled["ndcg@10"], c.Tried[c.Chosen].NDCG)
		}
		if i == c.Chosen && (r.Test.Sampled["hr@10"] != res.Test.Sampled["hr@10"] ||
			r.Params["dim"] != res.Params["dim"]) {
			t.Errorf("the run does not have the settings %s", tried.Settings)
		}
	}
	given, err := ReadFile(filepath.Join(dir, ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Resolve(given)
	if again := (&Job{Spec: spec}); err != nil || again.ChoosesSettings() ||
		spec.Fingerprint("x") != j.Fingerprint("x") {
		t.Errorf("the written config is another run, or chooses again (%v)", err)
	}
}

func TestNothingIsChosenIfTheUserSetsIt(t *testing.T) {
	for words, want := range map[string]bool{
		"": true, "rounds=4": true, "a0=0.5": false, "dim=8 reg=0.1": false, "preset=none": false,
		"protocol=fedrecgel": false,
		"data=ml-100k":       false, "data=frappe": true, "method=pfedrec": false, "method=ials": true,
		"data=world": false,
	} {
		s, err := Resolve(settings(append([]string{"method=ials-next", "data=rows.csv"}, strings.Fields(words)...)...))
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Job{Spec: s}).ChoosesSettings(); got != want {
			t.Errorf("%q: settings are chosen: %v, want %v", words, got, want)
		}
	}
}

func TestEveryGridResolves(t *testing.T) {
	for _, e := range methods.Default().Entries() {
		for _, words := range e.Grid {
			if _, err := Resolve(settings(append(strings.Fields(words), "method="+e.Name)...)); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
		}
	}
}
