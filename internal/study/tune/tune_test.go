package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
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

// given returns settings of a small world, and the words of a command line.
func given(t *testing.T, words ...string) []experiment.Setting {
	t.Helper()
	out, err := Words(append([]string{
		"method=pfedrec", "data=world", "world=users=60,items=200,mean-rows=15",
		"rounds=9", "trials=12",
	}, words...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// search returns a search that is ready to run.
func search(t *testing.T, settings []experiment.Setting, out string) *Search {
	t.Helper()
	s, err := New(settings)
	if err != nil {
		t.Fatal(err)
	}
	if s.Source, err = experiment.OpenData(&s.Base.Settings, ""); err != nil {
		t.Fatal(err)
	}
	s.Jobs, s.Out = 2, out
	return s
}

func run(t *testing.T, s *Search) *Result {
	t.Helper()
	r, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// left returns the files that a search writes, without times and the name of the folder.
func left(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{logFile, PresetFile, resultFile, reportFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), dir, "DIR")) {
			if at := strings.Index(line, `"seconds":`); at >= 0 {
				line = line[:at] + line[at+strings.IndexAny(line[at:], ",}"):]
			}
			b.WriteString(line)
		}
	}
	return b.String()
}

// Everything is drawn from seeds: this is exact, not a matter of luck.
func TestBothSearchesFindThePlantedSetting(t *testing.T) {
	for _, kind := range []string{"halving", "random"} {
		settings := append(
			[]experiment.Setting{
				{Key: "params.lr", Value: "1e-6", From: "f.toml"},
				{Key: "space.lr", Value: "1e-7|1e-6|1e-5|0.1", From: "f.toml"},
				{
					Key: "space.eta", Value: "20..80",
					From: "f.toml",
				},
			},
			given(t, "search="+kind)...)
		r := run(t, search(t, settings, t.TempDir()))
		if r.Best.Params["lr"] != 0.1 || r.Default.Params["lr"] != 1e-6 || r.Best.Value < r.Default.Value+0.1 {
			t.Errorf("%s: the best is %v with %g, trial 0 is %v with %g; want the planted rate 0.1, and well above",
				kind, r.Best.Params, r.Best.Value, r.Default.Params, r.Default.Value)
		}
		if len(r.Mattered) == 0 || r.Mattered[0].Key != "lr" || r.Mattered[0].Best != "0.1" {
			t.Errorf("%s: what mattered is %+v, want lr = 0.1 first", kind, r.Mattered)
		}
	}
}

func TestRungsAreThirdsOnEvaluatedRounds(t *testing.T) {
	for _, c := range []struct {
		search                string
		trials, rounds, every int
		want                  []int
	}{
		{"random", 40, 100, 1, []int{100}},
		{"halving", 40, 100, 1, []int{12, 34, 100}},
		{"halving", 40, 100, 10, []int{20, 40, 100}},
		{"halving", 12, 20, 1, []int{7, 20}},
		{"halving", 8, 20, 1, []int{20}},
		{"halving", 300, 2, 1, []int{1, 2}},
		{"halving", 300, 1, 1, []int{1}},
		{"halving", 1000, 100, 100, []int{100}},
	} {
		if got := rungs(c.search, c.trials, c.rounds, c.every); !slices.Equal(got, c.want) {
			t.Errorf("%+v has the rungs %v", c, got)
		}
	}
}

// Trials that were saved and resumed have the same model and metrics as uninterrupted runs.
func TestAResumedTrialEqualsARunToTheBit(t *testing.T) {
	dir := t.TempDir()
	s := search(t, given(t, "lr=0.01..1,log", "eta", "server=adam:0.01|sgd:1"), dir)
	var mu sync.Mutex
	digest := map[int]string{}
	s.watch = func(it task, r *sim.Run) {
		mu.Lock()
		defer mu.Unlock()
		digest[it.trial] = r.Digest() // the last rung comes last
	}
	r := run(t, s)
	if len(r.Rungs) != 2 || r.Rungs[0].Trials != 12 || r.Rungs[1].Trials > 5 {
		t.Fatalf("the rungs are %v, want 12 trials and then the best third and trial 0", r.Rungs)
	}
	for _, x := range r.last() {
		var straight *sim.Run
		j := &experiment.Job{
			Spec: s.task(x.Trial, x.Seed, 0, x.Rounds).spec, Source: s.Source, Jobs: 1,
			NoReferences: true,
		}
		j.OnEvent = func(e experiment.Event) {
			if start, ok := e.(experiment.Started); ok {
				straight = start.Run
			}
		}
		res, err := j.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := digest[x.Trial], straight.Digest(); got != want {
			t.Errorf("trial %d has the digest %s, a straight run %s", x.Trial, got, want)
		}
		a, _ := json.Marshal(res.Valid)
		b, _ := json.Marshal(x.Valid)
		if string(a) != string(b) || res.SelectedRound != x.BestRound {
			t.Errorf("trial %d at round %d has %s, a straight run at round %d %s", x.Trial, x.BestRound, b,
				res.SelectedRound, a)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, stateDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("checkpoints are left behind: %v", err)
	}
}

func TestTheAnswerDoesNotDependOnJobs(t *testing.T) {
	var got []string
	for _, jobs := range []int{1, 3, 20} {
		dir := t.TempDir()
		s := search(t, given(t, "batch", "seeds=2"), dir)
		s.Jobs = jobs
		run(t, s)
		got = append(got, left(t, dir))
	}
	if got[0] != got[1] || got[0] != got[2] {
		t.Errorf("what is left differs:\n%s\n%s\n%s", got[0], got[1], got[2])
	}
}

func TestAnInterruptedSearchResumesToTheSameAnswer(t *testing.T) {
	whole := t.TempDir()
	steps := 0
	s := search(t, given(t, "seeds=2"), whole)
	s.OnProgress = func(Progress) { steps++ }
	run(t, s)
	want := left(t, whole)
	stops := []int{steps / 2, 1, steps / 5, steps * 4 / 5, steps - 2}
	if testing.Short() { // under the race detector: each stop is another search
		stops = stops[:1]
	}
	for _, at := range stops {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		s, n := search(t, given(t, "seeds=2"), dir), 0
		s.OnProgress = func(Progress) {
			if n++; n >= at {
				cancel()
			}
		}
		_, err := s.Run(ctx)
		var stopped *Stopped
		if !errors.As(err, &stopped) || stopped.Dir != dir {
			t.Fatalf("cancelled at step %d the error is %v, want Stopped", at, err)
		}
		resume(t, dir)
		if got := left(t, dir); got != want {
			t.Errorf("stopped at step %d of %d it leaves\n%s\nwant\n%s", at, steps, got, want)
		}
	}
}

// resume resumes a search from its folder.
func resume(t *testing.T, dir string) {
	t.Helper()
	settings, err := ReadFile(filepath.Join(dir, ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	s := search(t, settings, dir)
	s.Resume = true
	run(t, s)
}

// A crash leaves some lines, perhaps an incomplete one, and checkpoints that may be missing, corrupt or
// of a later rung.
func TestACrashedSearchResumesToTheSameAnswer(t *testing.T) {
	whole := t.TempDir()
	run(t, search(t, given(t), whole))
	want := left(t, whole)
	log, err := os.ReadFile(filepath.Join(whole, logFile))
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(whole, ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{len(log) / 3, 0, 10, len(log) - 1, len(log)}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, stateDir), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{logFile: log[:size], ConfigFile: config, stateDir +
			"/3-1.state": []byte("TACITCP1 torn")} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ahead(t, dir)
		resume(t, dir)
		if got := left(t, dir); got != want {
			t.Errorf("killed after %d of %d bytes it leaves\n%s\nwant\n%s", size, len(log), got, want)
		}
	}
}

// ahead writes a checkpoint of trial 0 that is beyond the first rung.
func ahead(t *testing.T, dir string) {
	t.Helper()
	s := search(t, given(t), dir)
	split, err := s.split(1)
	if err != nil {
		t.Fatal(err)
	}
	it := s.task(0, 1, 0, 8)
	r, err := s.load(it, split, 1)
	if err != nil {
		t.Fatal(err)
	}
	for r.RoundsRun() < it.rounds {
		if _, err := r.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.save(it, r); err != nil {
		t.Fatal(err)
	}
}

func TestALogOfAnotherSearchIsRefused(t *testing.T) {
	dir := t.TempDir()
	run(t, search(t, given(t), dir))
	s := search(t, given(t, "seed=2"), dir)
	s.Resume = true
	var in *experiment.InputError
	if _, err := s.Run(context.Background()); !errors.As(err, &in) || !strings.Contains(err.Error(),
		"line 1 belongs to another search") {
		t.Errorf("the error is %v, want an Input that names the line", err)
	}
	if _, err := search(t, given(t), dir).Run(context.Background()); !errors.As(err, &in) ||
		!strings.Contains(err.Error(), "holds a search") {
		t.Errorf("a search is overwritten: %v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		s := search(t, given(t), other)
		s.Force = force
		if _, err := s.Run(context.Background()); !errors.As(err, &in) || !strings.Contains(err.Error(),
			"does not hold a search") {
			t.Errorf("a folder of something else is taken, with force %v: %v", force, err)
		}
	}
}

func TestDivergedAndRefusedTrialsLoseAndAreLogged(t *testing.T) {
	dir := t.TempDir()
	r := run(t, search(t, given(t, "lr=0.1|1e30", "eta=80", "dim=0|8|32", "trials=6"), dir))
	if r.Diverged != 2 || r.Refused != 2 || r.Best.Params["lr"] != 0.1 || r.Best.Params["dim"] == 0 {
		t.Errorf("%d diverged, %d were refused, the best is %v; want 2, 2 and lr = 0.1", r.Diverged, r.Refused,
			r.Best.Params)
	}
	log, err := os.ReadFile(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"status":"diverged","reason":"in round `,
		`"status":"refused","reason":"pfedrec: dim = 0: must be 1 to 4096"`,
	} {
		if strings.Count(string(log), want) != 2 {
			t.Errorf("%s does not say %s twice:\n%s", logFile, want, log)
		}
	}
	_, err = search(t, given(t, "lr=1e30|1e31", "params.eta=1e5", "method=local", "preset=none"),
		t.TempDir()).Run(context.Background())
	if err != nil { // trial 0 is sane
		t.Error(err)
	}
	settings := append([]experiment.Setting{
		{Key: "params.lr", Value: "1e30", From: "f.toml"},
		{Key: "space.lr", Value: "1e30|1e31", From: "f.toml"},
	}, given(t)...)
	var in *experiment.InputError
	if _, err = search(t, settings, t.TempDir()).Run(context.Background()); !errors.As(err, &in) ||
		!strings.Contains(err.Error(), "no trial finished: of 2 trials, 2 diverged") {
		t.Errorf("if all trials diverge, the error is %v", err)
	}
}

// The word is spelled as a key: the tables do say that the test items were left alone.
func TestNoTestMetricIsLogged(t *testing.T) {
	dir := t.TempDir()
	run(t, search(t, given(t, "seeds=2", "objective=ndcg@10", "metric=full"), dir))
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				// coverage is of the lists that the test items are in
				if strings.Contains(strings.ToLower(k), "test") || strings.Contains(k, "coverage") {
					t.Errorf("there is a key %q", k)
				}
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	for _, name := range []string{logFile, resultFile} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for d := json.NewDecoder(f); d.More(); {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			walk(v)
		}
		f.Close()
	}
}

func TestSeedsRepeatTheFinalistsOnly(t *testing.T) {
	r := run(t, search(t, given(t, "seeds=3"), t.TempDir()))
	if n := len(r.repeats); n != 2*3 && n != 2*4 {
		t.Errorf("%d more runs, want two for each of the best three and trial 0", n)
	}
	for _, s := range r.Top {
		sum := 0.0
		for _, x := range r.all() {
			if x.Trial == s.Trial && x.Rounds == 9 {
				sum += x.value() / 3
			}
		}
		if s.Seeds != 3 || fmt.Sprintf("%.9f", s.Value) != fmt.Sprintf("%.9f", sum) {
			t.Errorf("trial %d has %g of %d seeds, want the mean %g of 3", s.Trial, s.Value, s.Seeds, sum)
		}
	}
}

func TestThePresetIsTheBestTrial(t *testing.T) {
	dir := t.TempDir()
	s := search(t, given(t, "negatives=1|2"), dir)
	r := run(t, s)
	settings, err := experiment.ReadFile(filepath.Join(dir, PresetFile))
	if err != nil {
		t.Fatal(err)
	}
	got, err := experiment.Resolve(settings)
	if err != nil {
		t.Fatal(err)
	}
	want := s.task(r.Best.Trial, 1, 0, 9).spec
	if got.Fingerprint("") != want.Fingerprint("") || got.World != want.World {
		t.Errorf("the preset gives\n%s\nwant\n%s", got.TOML(), want.TOML())
	}
	var p experiment.Preset
	if err := p.ReadFile(filepath.Join(dir, PresetFile)); err == nil || !strings.Contains(err.Error(),
		"world: a preset must only set") {
		t.Errorf("settings of a world of one's own can be installed as those of the world: %v", err)
	}
}

func TestEveryRangeOfATagIsAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector, which runs with -short, has nothing to find here")
	}
	for _, e := range methods.Default().Entries() {
		fields := append(param.Fields(e.New()), param.Fields(&experiment.Settings{})...)
		for _, f := range fields {
			if f.Range == "" || f.Key == "mean" && e.Options["dp"] != "" { // dp determines the mean
				continue
			}
			r, err := param.ParseRange(f.Range, f.Type == "whole number")
			if err != nil {
				t.Errorf("method %s: the range of %s: %v", e.Name, f.Key, err)
				continue
			}
			for _, u := range []float64{0, 0.5, 1} {
				if _, err := experiment.Resolve([]experiment.Setting{
					{Key: "method", Value: e.Name},
					{Key: f.Key, Value: r.At(u)},
				}); err != nil {
					t.Errorf("method %s: its range %s of %s holds %s: %v", e.Name, f.Range, f.Key, r.At(u), err)
				}
			}
		}
	}
}
