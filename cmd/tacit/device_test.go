package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/statefile"
)

// stated makes a state file of a device that is not enrolled.
func stated(t *testing.T, phrase string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "my.state")
	file := statefile.Open(path, statefile.Options{Passphrase: func(bool) ([]byte, error) {
		return []byte(phrase),
			nil
	}})
	d, err := device.Open(device.Options{
		Store: file, Blobs: statefile.OpenFolder(path + ".model"),
		Workspace: &device.Workspace{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Add(device.Event{Item: "50", Time: 1}, device.Event{Item: "7", Time: 2}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOwnerManagesDevice(t *testing.T) {
	path := stated(t, "")
	about := func() map[string]any {
		t.Helper()
		code, out, errs := tacit("device", "log", "--state", path, "--format", "json")
		if code != 0 {
			t.Fatal(errs)
		}
		return decode(t, out)["data"].(map[string]any)
	}
	for _, c := range []struct {
		words  string
		key    string
		value  any
		prints string
	}{
		{"add 181 1", "events", 4.0, "added 2 events; the history now has 4"},
		{"undo", "events", 3.0, "removed item 1"},
		{"pause", "paused", true, "paused"},
		{"resume", "paused", false, "resumed"},
	} {
		words := append([]string{"device"}, strings.Fields(c.words)...)
		code, out, errs := tacit(append(words, "--state", path)...)
		if code != 0 || !strings.Contains(out, c.prints) {
			t.Errorf("%s: exit %d, %s%s", c.words, code, out, errs)
		}
		if got := about()[c.key]; got != c.value {
			t.Errorf("after %s, %s is %v, want %v", c.words, c.key, got, c.value)
		}
	}
	if code, out, _ := tacit("device", "log", "--state", path); code != 0 ||
		!strings.Contains(out, "no reports sent") {
		t.Errorf("exit %d, %s", code, out)
	}
	if code, _, errs := tacit("recommend", "--state", path); code != 2 ||
		!strings.Contains(errs, "tacit device --once --state "+path) {
		t.Errorf("without a model: exit %d, %s", code, errs)
	}
	if code, _, errs := tacit("device", "forget", "--state", path); code != 2 || !strings.Contains(errs, "--yes") ||
		!strings.Contains(errs, path) || about()["events"] != 3.0 {
		t.Errorf("nobody was asked: exit %d, %s", code, errs)
	}
	if code, _, errs := tacit("device", "forget", "--yes", "--state", path); code != 0 {
		t.Error(errs)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) > 0 {
		t.Errorf("forgotten, and %v is left", left)
	}
}

func TestWrongPassphraseIsBadInput(t *testing.T) {
	path := stated(t, "right")
	for phrase, want := range map[string]int{"right": 0, "wrong": 2, "": 2} {
		t.Setenv("TACIT_PASSPHRASE", phrase)
		if code, _, errs := tacit("device", "log", "--state", path); code != want || want == 2 &&
			!strings.Contains(errs, "passphrase") {
			t.Errorf("%q: exit %d, %s", phrase, code, errs)
		}
	}
}

func TestDeviceErrorsSayWhatToType(t *testing.T) {
	t.Setenv("TACIT_STATE", t.TempDir())
	path := stated(t, "")
	for words, hint := range map[string]string{
		"device --state " + path:                      "--server, --pin and --token",
		"device --history seen.csv -d world --user 7": "omit one of them",
		"device -d world":                             "tacit device -d world --user 7",
		"device -d world --user nobody":               "it has",
		"device --history no-such-file.csv":           "",
		"device log --state " + path + ".not":         "tacit device --state",
		"device pauze":                                "",
		"recommend -n 0 --state " + path:              "",
		"device --state " + path + " --server ftp://x --token t --once --format=": "",
	} {
		code, _, errs := tacit(strings.Fields(words)...)
		if code != 2 || !strings.Contains(errs, hint) {
			t.Errorf("tacit %s: exit %d, %s", words, code, errs)
		}
	}
}

// Invalid input is rejected before a file is created or a coordinator called.
func TestRejectsMalformedPinFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.state")
	for _, words := range []string{
		"--server https://127.0.0.1:1 --pin sha256/xxx", "--pin sha256/xxx",
		"--server ftp://x", "--server http://127.0.0.1:1 --insecure --pin sha256/" + strings.Repeat("A", 43),
	} {
		code, _, errs := tacit(append([]string{"device", "--state", path, "--token", "t"}, strings.Fields(words)...)...)
		left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		if code != 2 || len(left) > 0 || err != nil {
			t.Errorf("%s: exit %d, %v, %v is there\n%s", words, code, err, left, errs)
		}
	}
}

// Read-only commands leave no files behind, even beside a file that is not a state file.
func TestReadOnlyCommandsWriteNothing(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(wrong, []byte("# a text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	right := stated(t, "")
	if err := os.Remove(right + ".lock"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(right)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{
		"device log", "recommend", "device pause", "device forget --yes",
		"device --token t --server https://127.0.0.1:1",
	} {
		if code, _, errs := tacit(append(strings.Fields(words), "--state", wrong)...); code != 2 {
			t.Errorf("%s of a text: exit %d, %s", words, code, errs)
		}
	}
	tacit("device", "log", "--state", filepath.Join(filepath.Dir(wrong), "no", "such.state"))
	tacit("device", "log", "--state", right)
	tacit("recommend", "--state", right)
	after, err := os.ReadFile(right)
	if err != nil || string(before) != string(after) {
		t.Errorf("the state file has changed, %v", err)
	}
	for _, path := range []string{wrong, right} {
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
			t.Errorf("%v is there", left)
		}
	}
}

// program starts this program in another process and stops it with the test.
func program(t *testing.T, env []string, words ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], words...)
	c.Env = env
	start(t, c)
	return c
}

// A coordinator, a fleet and a device run in separate processes. The device is killed in between and
// recommends at the end.
func TestDeviceTrainsInFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a coordinator: run without -short")
	}
	address, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "my.state")
	env := []string{"TACIT_STATE=" + filepath.Join(dir, "coordinator")}
	t.Setenv("TACIT_STATE", filepath.Join(dir, "coordinator"))
	program(t, env, "serve", "--listen", address)
	until(t, "the coordinator starts", func() bool { code, _, _ := tacit("admin", "status"); return code == 0 })
	program(t, env, "fleet", "-d", "world", "--world", "users=12,items=60,mean-rows=10", "-m", "pfedrec", "--rounds",
		"4", "--users", "11", "--devices", "12", "--deadline", "10m", "--stay")
	until(t, "the run begins", func() bool {
		_, out, _ := tacit("admin", "status", "--format", "json")
		return strings.Contains(out, `"enrolled": 11`)
	})
	history := filepath.Join(dir, "seen.csv")
	if err := os.WriteFile(history, []byte("3\n7\n11\n20\n21\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := program(t, env, "device", "--state", path, "--history", history)
	until(t, "it sends a report", func() bool {
		_, out, _ := tacit("device", "log", "--state", path, "--format", "json")
		return strings.Contains(out, `"digest"`)
	})
	_ = first.Process.Kill()
	_ = first.Wait()
	program(t, env, "device", "--state", path)
	var log []any
	until(t, "all rounds are counted", func() bool {
		_, out, _ := tacit("device", "log", "--state", path, "--format", "json")
		data, _ := decode(t, out)["data"].(map[string]any)
		log, _ = data["log"].([]any)
		return len(log) == 4 && log[3].(map[string]any)["state"] == "counted"
	})
	for i, e := range log {
		if e := e.(map[string]any); e["round"] != float64(i) || e["state"] != "counted" {
			t.Errorf("entry %d of the log is %v", i, e)
		}
	}
	code, out, errs := tacit("recommend", "--state", path, "-n", "3")
	if code != 0 || !strings.Contains(out, "Based on 5 items of your history") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}

// An unreachable coordinator exits with 1, because the input is valid, and with a hint.
func TestReportsUnreachableCoordinator(t *testing.T) {
	path := stated(t, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	code, _, errs := tacit("device", "--once", "--state", path, "--server", "http://"+address, "--insecure", "--token",
		"x")
	for _, want := range []string{
		"the coordinator does not answer: ", "--server ADDRESS", "tacit recommend", "takes a while",
	} {
		if code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("exit %d, want %d and %q in\n%s", code, exitFailed, want, errs)
		}
	}
}

// --features replaces all earlier features, so that a corrected command leaves nothing of the wrong one.
func TestNewFeaturesReplaceOldOnes(t *testing.T) {
	path := stated(t, "")
	if code, _, errs := tacit("device", "pause", "--state", path); code != 0 { // it calls nobody
		t.Fatal(errs)
	}
	for _, c := range []struct{ given, want string }{
		{"agee=25-34,gender=F", `"agee":"25-34","gender":"F"`},
		{"age=25-34", `"age":"25-34"`},
		{"age=", ""},
		{"age=1", `"age":"1"`},
		{"", ""},
	} {
		_, _, errs := tacit("device", "--once", "--state", path, "--server", "http://127.0.0.1:1", "--insecure",
			"--token", "x", "--features", c.given)
		_, out, _ := tacit("device", "log", "--state", path, "--format", "json")
		data, _ := decode(t, out)["data"].(map[string]any)
		got := map[string]any{}
		if data["features"] != nil {
			got = data["features"].(map[string]any)
		}
		b, err := json.Marshal(got)
		if err != nil || string(b) != "{"+c.want+"}" {
			t.Errorf("--features %q keeps %s, want {%s}; %s", c.given, b, c.want, errs)
		}
	}
	for _, wrong := range []string{"age", "age=1,gender"} {
		if code, _, errs := tacit("device", "--state", path, "--features", wrong); code != 2 ||
			!strings.Contains(errs, "name=value") || !strings.Contains(errs, "a CSV file") {
			t.Errorf("--features %s: exit %d, %s", wrong, code, errs)
		}
	}
	if code, _, errs := tacit("device", "-d", "world", "--user", "nobody", "--features", "age=1"); code != 2 ||
		!strings.Contains(errs, "nobody") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// A certificate that nobody vouches for, and a wrong pin, stop a new device with a plain message. The pin is
// not saved.
func TestUntrustedCertificateStopsANewDevice(t *testing.T) {
	t.Setenv("TACIT_STATE", t.TempDir())
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	history, token := filepath.Join(dir, "seen.csv"), filepath.Join(dir, "token")
	for path, text := range map[string]string{history: "50\n", token: "a-token\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pin, want := range map[string]string{
		"": "must be named by its pin", "sha256/" + strings.Repeat("A", 43): "does not match the pin",
	} {
		state := filepath.Join(dir, "new.state")
		words := []string{
			"device", "--state", state, "--server", server.URL, "--history", history, "--token-file", token,
		}
		if pin != "" {
			words = append(words, "--pin", pin)
		}
		code, _, errs := tacit(words...)
		if code != 2 || !strings.Contains(errs, want) || !strings.Contains(errs, "--pin") ||
			strings.Contains(errs, "x509") || strings.Contains(errs, "retrying") {
			t.Errorf("pin %q: exit %d, %s", pin, code, errs)
		}
		_, out, _ := tacit("device", "status", "--state", state, "--format", "json")
		if s := decode(t, out)["data"].(map[string]any)["setting"].(map[string]any); len(s) > 0 {
			t.Errorf("pin %q: the state file has %v", pin, s)
		}
	}
}
