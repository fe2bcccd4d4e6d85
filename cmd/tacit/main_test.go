package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the program, so that signals can be tested.
func TestMain(m *testing.M) {
	if os.Getenv("TACIT_TEST_MAIN") == "1" {
		main()
	}
	dir, err := os.MkdirTemp("", "tacit-cache-*")
	if err != nil {
		panic(err)
	}
	for _, pair := range os.Environ() { // ignore the developer's settings
		if key, _, _ := strings.Cut(pair, "="); strings.HasPrefix(key, "TACIT_") {
			os.Unsetenv(key)
		}
	}
	os.Setenv("XDG_CACHE_HOME", dir)
	os.Setenv("TACIT_PRESETS", filepath.Join(dir, "presets"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func tacit(words ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(words, &o, &e)
	return code, o.String(), e.String()
}

const small = "users=80,items=300,mean-rows=20"

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return v
}

func TestRunPrintsJSONEnvelope(t *testing.T) {
	code, out, _ := tacit("run", "-d", "world", "--world", small, "rounds=4", "--format", "json")
	v := decode(t, out)
	if code != 0 || v["schema_version"] != 1.0 || v["status"] != "ok" || v["exit_code"] != 0.0 {
		t.Fatalf("exit %d, envelope %v", code, v)
	}
	data := v["data"].(map[string]any)
	for _, key := range strings.Fields(`method dataset protocol leaks seed rounds selected_round users items interactions params
		valid test references leak_measured preset published seconds round_ms_median devices_per_s samples_per_s peak_rss_bytes bytes privacy`) {
		if _, ok := data[key]; !ok {
			t.Errorf("data has no %q", key)
		}
	}
	for _, part := range []string{"valid", "test"} {
		for _, kind := range []string{"sampled", "full"} {
			m := data[part].(map[string]any)[kind].(map[string]any)
			if hr := m["hr@10"].(float64); hr < 0 || hr > 1 {
				t.Errorf("%s %s hr@10 is %g", part, kind, hr)
			}
		}
	}
	for _, name := range []string{"popularity", "ease", "local", "memoriser"} {
		r := data["references"].(map[string]any)[name].(map[string]any)
		if r["test"] == nil {
			t.Errorf("reference %s has no test metrics", name)
		}
	}
	if data["method"] != "tacit" || data["preset"] != nil || data["published"] != nil ||
		data["privacy"] != nil {
		t.Errorf("%v with preset %v, published %v, privacy %v: want tacit and three times null",
			data["method"], data["preset"], data["published"], data["privacy"])
	}
}

func TestWorkersDoNotChangeTheResult(t *testing.T) {
	var got [2]any
	for i, j := range []string{"1", "2"} {
		_, out, _ := tacit("run", "-d", "world", "--world", small, "rounds=4", "--format", "json", "--no-references",
			"-j", j)
		data := decode(t, out)["data"].(map[string]any)
		b, _ := json.Marshal([]any{data["valid"], data["test"], data["selected_round"]})
		got[i] = string(b)
	}
	if got[0] != got[1] {
		t.Errorf("-j 1 and -j 2 differ:\n%v\n%v", got[0], got[1])
	}
}

func TestSeedsGiveMeanAndSD(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	_, out, _ := tacit("run", "-d", "world", "--world", small, "rounds=3", "--seeds", "3", "--format", "json", "-o",
		dir)
	data := decode(t, out)["data"].(map[string]any)
	if n := len(data["runs"].([]any)); n != 3 {
		t.Fatalf("%d runs, want 3", n)
	}
	sum := 0.0
	for _, r := range data["runs"].([]any) {
		sum += at(r, "test", "sampled", "hr@10")
	}
	if mean := at(data["mean"], "test", "sampled", "hr@10"); mean < sum/3-1e-12 || mean > sum/3+1e-12 {
		t.Errorf("mean is %g, want %g", mean, sum/3)
	}
	if at(data["sd"], "test", "sampled", "hr@10") <= 0 {
		t.Error("three seeds have no spread")
	}
	md := filepath.Join(t.TempDir(), "t.md")
	if code, _, errs := tacit("report", dir, "-o", md); code != 0 {
		t.Errorf("report of a folder of seeds exits %d: %s", code, errs)
	}
}

func at(v any, keys ...string) float64 {
	for _, k := range keys {
		v = v.(map[string]any)[k]
	}
	return v.(float64)
}

func TestBadInputExitsWith2AndAHint(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("user,item,rating,time\n1,2,3,4\n1,x,oops,5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ words, want string }{
		{"rnu", `unknown command "tacit rnu"`},
		{"data lst", `unknown command "tacit data lst"`},
		{"run -d nothing-here", `unknown data set or file "nothing-here"`},
		{"run -d ml-100k", "ml-100k/u.data"},
		{"run -m pfedrce", `did you mean "pfedrec"?`},
		{"run lrr=1", `unknown key "lrr"`},
		{"run --roundz 3", "unknown flag: --roundz"},
		{"run --roundz 3", "did you mean --rounds?"},
		{"run --rounds", "--rounds needs a value"},
		{"run --at 5,7", `"7" must be one of 5, 10, 15, 20, 50`},
		{"run -j x", "--jobs x: must be an integer"},
		{"run --rounds x", "--rounds x: must be"},
		{"run --rounds 0", "rounds = 0: must be 1 to"},
		{"run -m fedmf lr=abc", "lr=abc: "},
		{"run --protocol papr", "--protocol papr: must be one of paper"},
		{"run --protocol papr", `did you mean "paper"?`},
		{"run --protocol paper,deploed", `did you mean "deployed"?`},
		{"reproduce pfedrec --protocols papr", `did you mean "paper"?`},
		{"reproduce pfedrec --only fedmff", "did you mean fedmf?"},
		{"reproduce pfedrce", `did you mean "pfedrec"?`},
		{"device statu", "did you mean: tacit device status"},
		{"help protocol", "did you mean: tacit help protocols"},
		{"bench --sets ml100k", "did you mean ml-100k?"},
		{"run --cohort foo", "--cohort foo: must be all"},
		{"run --dp foo", "tacit privacy keys"},
		{"run -m ials --dp epsilon=8,mechanism=tree", "requires a limit on participation"},
		{"run --secagg maybe", "--secagg maybe: must be one of off"},
		{"run -o /proc/nothing/here rounds=1", "cannot create /proc/nothing"},
		{"admin revoke x --state /nonexistent", "device \"x\": must be a number"},
		{"admin status --state /nonexistent", "start one with tacit serve"},
		{"serve --listen nonsense", "--listen nonsense: must be host:port"},
		{"serve rounds=3", "add -d NAME or --catalogue FILE"},
		{"serve -d world --noise gauss:1", "is for simulations only"},
		{"run --all", "--all works only with --help"},
		{"help runn", "did you mean: tacit run"},
		{"version x", "takes no arguments"},
		{"completion cmd", "unknown shell"},
		{"run --lr 3", "parameters of a method are written without dashes: lr=VALUE"},
		{"run nonsense", "neither a .toml file nor key=value"},
		{"run privrec", "did you mean: tacit run -m privrec"},
		{"run fedncf+dualper rounds=3", "did you mean: tacit run -m fedncf+dualper"},
		{"serve fedmf", "did you mean: tacit serve -m fedmf"},
		{"fleet fedmf", "did you mean: tacit fleet -m fedmf"},
		{"run -m fedmf ml-100k", "did you mean: tacit run -d ml-100k"},
		{"run --format yaml", "must be text or json"},
		{"run -j 0", "-j 0: must be 1 or more"},
		{"run missing.toml", "missing.toml"},
		{"run --resume /nonexistent", "config.toml"},
		{"run -d " + bad, "bad.csv line 3"},
		{"data check " + bad, "bad.csv line 3"},
		{"data describe", "missing argument: expected tacit data describe NAME|FILE"},
		{"report /nonexistent", "/nonexistent"},
		{"methods nope", `unknown method "nope"`},
		{"run -d world --world users=x", "users"},
		{"run -d world --protocol temporal --world users=5,items=20,mean-rows=5 -q", "use --protocol deployed"},
	} {
		code, _, errs := tacit(strings.Fields(c.words)...)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("tacit %s: exit %d, want 2; it says %q, want %q in it", c.words, code, errs, c.want)
		}
		if strings.Contains(c.words, "yaml") {
			continue // the second --format would be valid, and the run would begin
		}
		code, out, _ := tacit(append(strings.Fields(c.words), "--format", "json")...)
		if v := decode(t, out); code != 2 || v["status"] != "error" || v["error"].(map[string]any)["message"] == "" {
			t.Errorf("tacit %s --format json: exit %d, envelope %v", c.words, code, v)
		}
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, words := range []string{
		"", "run", "play", "reproduce", "tune", "tune save", "methods", "data", "data list",
		"data fetch", "data describe", "data check", "report", "compare", "privacy", "privacy spend", "privacy tables",
		"bench", "docs", "docs serve", "docs site", "docs methods", "docs parity", "doctor", "version", "completion",
	} {
		code, out, _ := tacit(append(strings.Fields(words), "--help")...)
		if code != 0 || len(out) < 80 {
			t.Errorf("tacit %s --help exits %d with %d characters", words, code, len(out))
		}
	}
}

func TestQuickCommandsWork(t *testing.T) {
	for _, words := range []string{
		"version", "methods", "methods pfedrec", "data list", "data describe world",
		"data check world", "doctor", "completion bash", "run --explain", "run --dry-run", "exit-codes",
		"privacy tables",
	} {
		if code, out, errs := tacit(strings.Fields(words)...); code != 0 || out == "" {
			t.Errorf("tacit %s exits %d, prints %d characters and %q", words, code, len(out), errs)
		}
	}
	_, out, _ := tacit("doctor")
	if !strings.Contains(out, "a small run gives the same bits as on other machines") {
		t.Errorf("tacit doctor reports a problem:\n%s", out)
	}
}

// A run that was interrupted or killed resumes to the result of an undisturbed run.
func TestResumedRunHasTheSameResult(t *testing.T) {
	words := []string{
		"run", "-m", "ials", "-d", "world", "--world", "users=300,items=400,mean-rows=30", "dim=8",
		"rounds=800", "eval-every=20", "--no-references", "--format", "json",
	}
	_, whole, _ := tacit(words...)
	want := decode(t, whole)["data"].(map[string]any)
	for signal, exit := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGKILL: -1} {
		part, _ := interrupted(t, words, "metrics.jsonl", 100, signal, exit)
		code, resumed, errs := tacit("run", "--resume", part, "--format", "json")
		if code != 0 {
			t.Fatalf("%v: resume exits %d: %s", signal, code, errs)
		}
		got := decode(t, resumed)["data"].(map[string]any)
		if got["references"] != nil {
			t.Errorf("%v: the resumed run has reference rows, and was started with --no-references", signal)
		}
		for _, key := range []string{"valid", "test", "selected_round", "bytes"} {
			x, _ := json.Marshal(want[key])
			y, _ := json.Marshal(got[key])
			if string(x) != string(y) {
				t.Errorf("%v: %s is %s after resume, want %s", signal, key, y, x)
			}
		}
	}
}

// patience is how long a test waits for an event; it is long because machines may be busy.
const patience = 5 * time.Minute

// until waits for an effect of another process.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: it did not happen in %v", what, patience)
}

// start starts the program in another process, which is killed with the test.
func start(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Env = append(append(os.Environ(), "TACIT_TEST_MAIN=1"), c.Env...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
}

// interrupted runs the program in a new folder and sends it a signal when a file there has the given
// number of lines. If the program ended before the signal, it runs it again.
func interrupted(t *testing.T, words []string, file string, lines int, signal syscall.Signal, exit int) (dir,
	out string,
) {
	t.Helper()
	for range 20 {
		dir = filepath.Join(t.TempDir(), "part")
		c := exec.Command(os.Args[0], append(slices.Clone(words), "-o", dir)...)
		var o bytes.Buffer
		c.Stdout = &o
		start(t, c)
		until(t, fmt.Sprintf("%d lines in %s", lines, file), func() bool {
			b, err := os.ReadFile(filepath.Join(dir, file))
			return err == nil && bytes.Count(b, []byte("\n")) >= lines
		})
		_ = c.Process.Signal(signal)
		err := c.Wait()
		switch code := c.ProcessState.ExitCode(); code {
		case exit:
			return dir, o.String()
		case exitOK:
			continue
		default:
			t.Fatalf("%v: exit %d (%v), want %d", signal, code, err, exit)
		}
	}
	t.Fatalf("%v: it was done before, 20 times", signal)
	return "", ""
}

// A cohort larger than the fleet is noted once, also with --quiet.
func TestNotesCohortLargerThanFleet(t *testing.T) {
	words := strings.Fields("run -m fedmf -d world --world users=40,items=60,mean-rows=8 --rounds 2 --no-references " +
		"--seeds 2 --cohort")
	for _, c := range []struct {
		words string
		want  int
	}{{"41 -q", 1}, {"cycle:50", 1}, {"40", 0}, {"all", 0}, {"50%", 0}} {
		code, _, errs := tacit(append(words, strings.Fields(c.words)...)...)
		if n := strings.Count(errs, "exceeds the 40 users: all of them take part"); code != 0 || n != c.want {
			t.Errorf("--cohort %s: exit %d, said %d times, want %d:\n%s", c.words, code, n, c.want, errs)
		}
	}
}
