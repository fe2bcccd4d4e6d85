package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

func TestSelfTestHasTheSameBitsEverywhere(t *testing.T) {
	got, err := SelfTest(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got != SelfTestDigest {
		t.Errorf("digest is %s, want %s; if numbers were meant to change, change SelfTestDigest and say so in the "+
			"CHANGELOG", got, SelfTestDigest)
	}
}

// Methods whose kernels PFedRec does not use: features, a network and its server step, and the choice of a blend.
func TestNetworksHaveTheSameBitsEverywhere(t *testing.T) {
	for name, want := range map[string]string{
		"bank":  "066971a09af509bb2bd8613716df8129df6b598edd8070db87ad5a1be881d795",
		"tacit": "3f16276f48aadee41b7548b4c5d35ca406dee8ecb43401adcccb7f4787fb8b27",
	} {
		e, err := methods.Default().Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		m := e.New()
		param.Defaults(m)
		for _, set := range [][2]string{{"rank", "24"}, {"width", "24"}, {"train", "2"}, {"softmax", "64"}} {
			if err := param.Set(m, set[0], set[1]); err != nil {
				t.Fatal(err)
			}
		}
		got, err := digestOf(t.Context(), m, m.(method.InPasses).Passes())
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: the digest is %s, want %s; if numbers were meant to change, change it and say so in the "+
				"CHANGELOG", name, got, want)
		}
	}
}

func settings(words ...string) []Setting {
	s, err := Assignments(words, "test")
	if err != nil {
		panic(err)
	}
	return s
}

func TestWrongSettingsAreInputErrorsThatSayWhatIsWrong(t *testing.T) {
	for words, want := range map[string]string{
		"method=pfedrce":            `unknown method "pfedrce"; did you mean "pfedrec"?`,
		"lamda=1":                   `unknown key "lamda"`,
		"roundz=5":                  `unknown key "roundz"; did you mean "rounds"?`,
		"rounds=0":                  "rounds = 0: must be 1 to 1000000",
		"rounds=ten":                `rounds = "ten": must be a whole number`,
		"method=pfedrec lr=fast":    `lr = "fast"`,
		"method=pfedrec infer=mine": `infer = "mine": must be one of own, global, random`,
		"method=pfedrec dim=0":      "dim = 0: must be 1 to 4096",
		"protocol=honest":           "must be one of paper, isolated, deployed, complete, temporal",
		"cohort=-3":                 "must be all, a count, a share such as 10%",
		"server=adam":               "must be sgd, sgd:RATE or adam:RATE",
		"dropout=1":                 "dropout = 1: must be at least 0 and below 1",
		"params.rounds=3":           `unknown key "params.rounds"`,
		"seeds=0":                   "seeds = 0: must be 1 to 1000",
		"dp=epsilon=8":              "the default method, tacit, has no private form",
	} {
		_, err := Resolve(settings(strings.Fields(words)...))
		var in *InputError
		if !errors.As(err, &in) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want an Input that says %q", words, err, want)
		}
	}
}

// A closed-form method has no learning rate: the error says why, and which methods have one.
func TestASettingOfAnotherMethodIsReportedAsSuch(t *testing.T) {
	for words, want := range map[string][]string{
		"method=ials-next lr=0.1": {
			`unknown key "lr": ials-next solves in closed form and has no learning rate or epochs; its settings are dim, a0,`,
			"tacit methods ials-next lists the keys", "lr is a setting of pfedrec, fedmf,", "-m pfedrec lr=0.1",
		},
		"method=ease epochs=3": {"ease solves in closed form", "tacit methods ease"},
		"method=pfedrec a0=0.3": {
			"pfedrec does not have this setting; its settings are dim,",
			"a0 is a setting of ",
		},
		"method=ials-next params.lr=1":  {`unknown key "params.lr": ials-next solves in closed form`},
		"method=ials-next momentun=0.1": {`did you mean "momentum"?`},
	} {
		_, err := Resolve(settings(strings.Fields(words)...))
		var in *InputError
		if !errors.As(err, &in) {
			t.Errorf("%s: %v, want an Input", words, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error()+"\n"+in.Hint, w) {
				t.Errorf("%s: no %q in\n%v\n%s", words, w, err, in.Hint)
			}
		}
	}
}

func TestPresetsApplyAndAreOverridden(t *testing.T) {
	s, err := Resolve(settings("method=pfedrec", "data=ml-100k", "rounds=7"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Preset == nil || s.Preset.Data != "ml-100k" || s.Rounds != 7 || s.From["rounds"] != "test" ||
		s.From["batch"] != "preset pfedrec/ml-100k" {
		t.Errorf("preset %v, rounds %d from %s, batch from %s", s.Preset, s.Rounds, s.From["rounds"], s.From["batch"])
	}
}

func TestTheWrittenConfigGivesTheSameRun(t *testing.T) {
	s, err := Resolve(settings("method=pfedrec", "data=world", "lr=decay:0.1,0.9,1", "cohort=10%", "server=adam:0.01",
		"infer=global", "world=users=50"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(path, s.TOML(), 0o600); err != nil {
		t.Fatal(err)
	}
	given, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	if string(s.TOML()) != string(again.TOML()) {
		t.Errorf("a config does not survive being written and read:\n%s\n%s", s.TOML(), again.TOML())
	}
}

func TestBadConfigFilesAreInputErrorsWithALine(t *testing.T) {
	for text, want := range map[string]string{
		"rounds = 5\nrounds = 6\n":  "line 2",
		"rounds = \n":               "line 1",
		"[train]\nrounds = 3\n":     "unknown table [train]",
		"rounds = [1, 2]\n":         "must be a text, a number",
		"[params]\n[params.x]\ny=1": "unknown table [params.x]",
	} {
		path := filepath.Join(t.TempDir(), "c.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFile(path)
		var in *InputError
		if !errors.As(err, &in) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want an Input that says %q", text, err, want)
		}
	}
}

func TestADataSetSetsItsMinimumOfRows(t *testing.T) {
	for _, c := range []struct {
		words string
		want  int
		from  string
	}{
		{"data=world", 3, ""},
		{"data=lastfm-2k", 5, "data set"},
		{"data=lastfm-2k-artists", 10, "data set"},
		{"data=lastfm-2k min-rows=7", 7, "test"},
		{"data=filmtrust protocol=fedrecgel", 5, "protocol"},
		{"data=filmtrust protocol=fedrecgel min-rows=2", 2, "test"},
		{"data=lastfm-2k-artists protocol=fedrecgel", 10, "data set"},
	} {
		s, err := Resolve(settings(strings.Fields(c.words)...))
		if err != nil {
			t.Fatal(err)
		}
		if s.MinRows != c.want || s.From["min-rows"] != c.from {
			t.Errorf("%s: min-rows is %d from %q, want %d from %q", c.words, s.MinRows, s.From["min-rows"], c.want,
				c.from)
		}
	}
}

func job(t *testing.T, out string, words ...string) *Job {
	t.Helper()
	s, err := Resolve(settings(append([]string{"data=world", "world=users=80,items=300,mean-rows=20", "rounds=6"},
		words...)...))
	if err != nil {
		t.Fatal(err)
	}
	src, err := OpenData(&s.Settings, "")
	if err != nil {
		t.Fatal(err)
	}
	return &Job{Spec: s, Source: src, Jobs: 2, Out: out, NoReferences: true}
}

func TestAStoppedRunResumesToTheSameResult(t *testing.T) {
	whole, part := t.TempDir(), t.TempDir()
	if _, err := job(t, whole).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	j := job(t, part)
	j.OnEvent = func(e Event) {
		if ev, ok := e.(RoundEnded); ok && ev.Round == 3 {
			cancel()
		}
	}
	_, err := j.Run(ctx)
	var s *Stopped
	if !errors.As(err, &s) || s.Round != 3 || s.Dir != part {
		t.Fatalf("error is %v, want Stopped after round 3 in %s", err, part)
	}
	if exists(filepath.Join(part, ResultFile)) {
		t.Fatal("a stopped run has a result.json")
	}
	again := job(t, part)
	again.Resume = true
	if _, err := again.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{perUserFile, ConfigFile} {
		a, _ := os.ReadFile(filepath.Join(whole, name))
		b, _ := os.ReadFile(filepath.Join(part, name))
		if len(a) == 0 || string(a) != string(b) {
			t.Errorf("%s differs between the whole run and the resumed one", name)
		}
	}
}

// soon is a context that is done after a number of calls of Err.
type soon struct {
	context.Context
	left atomic.Int64
}

func (s *soon) Err() error {
	if s.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// An interrupt does not wait for an evaluation; a resumed run repeats it.
func TestARunThatIsStoppedInAnEvaluationResumesToTheSameResult(t *testing.T) {
	settings := []string{"method=pfedrec", "infer=global", "rounds=3"}
	whole := t.TempDir()
	if _, err := job(t, whole, settings...).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	pending := 0
	for asked := range 12 {
		part := t.TempDir()
		ctx := &soon{Context: context.Background()}
		ctx.left.Store(int64(asked))
		j, run := job(t, part, settings...), (*sim.Run)(nil)
		j.OnEvent = func(e Event) {
			if s, ok := e.(Started); ok {
				run = s.Run
			}
		}
		_, err := j.Run(ctx)
		var s *Stopped
		if !errors.As(err, &s) || s.Round != run.RoundsRun() {
			t.Fatalf("error is %v, want Stopped after round %d", err, run.RoundsRun())
		}
		if run.Unevaluated != nil {
			pending++
		}
		again := job(t, part, settings...)
		again.Resume = true
		if _, err := again.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		a, _ := os.ReadFile(filepath.Join(whole, perUserFile))
		b, _ := os.ReadFile(filepath.Join(part, perUserFile))
		lines, err := os.ReadFile(filepath.Join(part, metricsFile))
		if len(a) == 0 || string(a) != string(b) || err != nil || strings.Count(string(lines), "\n") != 3 {
			t.Errorf("asked %d times: the resumed run differs, or has not 3 lines of metrics (%v):\n%s", asked, err,
				lines)
		}
	}
	if pending == 0 {
		t.Error("no run was stopped in an evaluation")
	}
}

func TestAFolderIsNotOverwrittenByMistake(t *testing.T) {
	dir := t.TempDir()
	if _, err := job(t, dir).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var in *InputError
	if _, err := job(t, dir).Run(context.Background()); !errors.As(err, &in) || !strings.Contains(err.Error(),
		"holds a finished run") {
		t.Errorf("error is %v, want one that says the folder holds a finished run", err)
	}
	j := job(t, dir)
	j.Force = true
	if _, err := j.Run(context.Background()); err != nil {
		t.Error(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := job(t, other).Run(context.Background()); !errors.As(err, &in) {
		t.Errorf("error is %v, want an InputError: the folder is not a run folder", err)
	}
	if _, err := job(t, other, "seeds=2").RunSeeds(context.Background()); !errors.As(err, &in) {
		t.Errorf("with seeds: error is %v, want an InputError: the folder is not a run folder", err)
	}
}

func TestDivergenceIsAnInputErrorAndNotACrash(t *testing.T) {
	// local shares nothing: it shows in the loss alone. The hint names a setting that the method has.
	for method, key := range map[string]string{"pfedrec": "lr", "local": "lr", "fedrecon": "recon-lr"} {
		_, err := job(t, t.TempDir(), "method="+method, key+"=1e30").Run(context.Background())
		var in *InputError
		if !errors.As(err, &in) || !errors.Is(err, sim.ErrDiverged) || !strings.Contains(in.Hint, "try "+key+"=") {
			t.Errorf("%s: error is %v, want an Input that wraps ErrDiverged", method, err)
		}
	}
}

func TestASmallCohortOfIdleDevicesIsAccepted(t *testing.T) {
	for seed := range 5 {
		if _, err := job(t, "", "world=users=80,items=300,mean-rows=100", "protocol=temporal", "cohort=1", "rounds=40",
			fmt.Sprintf("seed=%d", seed+1)).Run(context.Background()); err != nil {
			t.Errorf("seed %d: %v", seed+1, err)
		}
	}
}

func TestEverySettingHasADocAndADefaultThatParses(t *testing.T) {
	var s Settings
	param.Defaults(&s)
	for _, f := range param.Fields(&s) {
		if f.Doc == "" {
			t.Errorf("setting %s has no doc", f.Key)
		}
	}
}

func TestAProtocolMayCountTiesByTheirExpectation(t *testing.T) {
	s, err := Resolve(settings("method=privrec", "protocol=privrec"))
	if err != nil || s.Ties != "expected" || s.From["ties"] != "protocol" {
		t.Errorf("ties = %s from %s, %v", s.Ties, s.From["ties"], err)
	}
	if s, err = Resolve(settings("method=privrec", "protocol=privrec", "ties=against")); err != nil ||
		s.Ties != "against" {
		t.Errorf("asked for against, ties = %s, %v", s.Ties, err)
	}
}

func TestDPPrivRecSetsItsNoise(t *testing.T) {
	s, err := Resolve(settings("method=dp-privrec", "data=world"))
	if err != nil || !s.DP.On() || s.DP.Adaptive != "geometric" || s.From["dp"] != "method" || s.Cohort.Count != 30 {
		t.Fatalf("%+v from %q, %v", s.DP, s.From["dp"], err)
	}
	s, err = Resolve(settings("method=dp-privrec", "data=ml-1m", "protocol=privrec"))
	if err != nil || s.DP.Clip != 40 || s.DP.Noise != 1 || !strings.HasPrefix(s.From["dp"], "preset") {
		t.Fatalf("the preset does not win: %+v from %q, %v", s.DP, s.From["dp"], err)
	}
	printed, err := s.AsPrinted()
	if err != nil || !printed.DP.Printed || printed.DP.Quantile != 0.9 || printed.DP.Balance != 0.7 ||
		printed.DP.Clip != 40 || printed.Rounds != 1000 {
		t.Errorf("as printed: %+v, %d rounds, %v", printed.DP, printed.Rounds, err)
	}
	if s, err = Resolve(settings("method=dp-privrec", "dp=none")); err != nil || s.DP.On() {
		t.Errorf("dp=none: %+v, %v", s.DP, err)
	}
	if _, err := s.AsPrinted(); err == nil {
		t.Error("as printed without noise")
	}
}
