package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tacit-rec/tacit/coordinator"
)

// admin calls tacit admin on a coordinator and returns what it prints. It fails the test if the command fails.
func admin(t *testing.T, dir string, words ...string) string {
	t.Helper()
	code, out, errs := tacit(append(append([]string{"admin"}, words...), "--state", dir)...)
	if code != 0 {
		t.Fatalf("admin %v: exit %d: %s", words, code, errs)
	}
	return out
}

// Commands that change something print the state after the change.
func TestAdminPrintsTheStateAfterwards(t *testing.T) {
	dir := serving(t)
	code, _, errs := tacit("fleet", "-d", "world", "--world", small, "-m", "fedmf", "--state", dir, "--rounds", "3")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, c := range []struct{ words, want string }{
		{"pause", "paused after round 3 of 3, at model version 4\n"},
		{"status", "paused"},
		{"resume", "resumed: "},
		{"rollback 2", "restored version 2: model version 5, round 1 of 3\n"},
		{"revoke 7", "device 7 is revoked: the coordinator refuses its calls from now on; "},
		{"history", "rolled back"},
		{"devices", "7       revoked"},
		{"tokens", "local"},
	} {
		if out := admin(t, dir, strings.Fields(c.words)...); !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, want %q", c.words, out, c.want)
		}
	}
	tokens := decode(t, admin(t, dir, "tokens", "--json"))["data"].([]any)
	id := tokens[0].(map[string]any)["id"].(string)
	admin(t, dir, "revoke-token", id)
	if out := admin(t, dir, "tokens"); !strings.Contains(out, "revoked") {
		t.Errorf("the token is not revoked:\n%s", out)
	}
	rejected(t, "unknown token", "admin", "revoke-token", "nothing", "--state", dir)
	data := decode(t, admin(t, dir, "resume", "--json"))["data"].(map[string]any)
	if data["paused"] != false || data["version"] != 5.0 || data["round"] != 1.0 || data["run_number"] == nil {
		t.Errorf("the JSON is of a state before: %v", data)
	}
	out := admin(t, dir, "audit")
	for _, want := range []string{
		"POST rollback {\"version\":2}", "local", "127.0.0.1", "every line is as it was written",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the audit log has no %q:\n%s", want, out)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	if err == nil {
		b = []byte(strings.Replace(string(b), `"version":2`, `"version":3`, 1))
		err = os.WriteFile(filepath.Join(dir, "audit.jsonl"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := tacit("admin", "audit", "--state", dir); code != exitFailed ||
		!strings.Contains(errs, "was changed") {
		t.Errorf("a changed log: exit %d, %s", code, errs)
	}
}

// The audit table fits a terminal, whatever the arguments and names are.
func TestAuditTableIsNarrow(t *testing.T) {
	var b bytes.Buffer
	e := coordinator.AuditEntry{Outcome: "internal_error_of_some_kind"}
	e.N, e.Name, e.Operator, e.Remote = 99998, "POST budget/reset", strings.Repeat("o", 64), strings.Repeat("f", 39)
	e.Args = []byte(`{"reason":"` + strings.Repeat("x", 500) + `"}`)
	log := &coordinator.Audit{Entries: []coordinator.AuditEntry{e}, Lines: 99999, OK: true}
	if err := writeAudit(&b, log); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Commands on a coordinator without a run, devices and operators say what is missing.
func TestAdminOnAnEmptyCoordinator(t *testing.T) {
	dir := serving(t)
	for words, want := range map[string]string{
		"devices": "no device has enrolled\n", "operators": "no operators besides", "history": "no model versions",
		"app-key --list": "no app keys\n", "budget": "no privacy guarantee",
	} {
		if out := admin(t, dir, strings.Fields(words)...); !strings.Contains(out, want) {
			t.Errorf("%s: %q, want %q", words, out, want)
		}
	}
	rejected(t, "the first run needs items", "admin", "begin", "--state", dir)
	rejected(t, "--uses 1 --hours 0: both must be 1 or more", "admin", "token", "--hours", "0", "--state", dir)
	rejected(t, "--limit -1: must be 1 or more", "admin", "audit", "--limit", "-1", "--state", dir)
	rejected(t, `unknown command "tacit admin budgets"`, "admin", "budgets", "--state", dir)
	rejected(t, "must begin with http://", "health", "localhost:9633")
	code, _, errs := tacit("health", "http://127.0.0.1:1/healthz")
	if code != exitFailed || !strings.Contains(errs, "/healthz does not answer: ") || strings.Contains(errs, "Get") ||
		!strings.Contains(errs, "tacit serve --metrics 127.0.0.1:1") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for path, want := range map[string]string{"/": "/healthz or /readyz", "/readyz": "starting"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				http.NotFound(w, r)
				return
			}
			http.Error(w, "starting", http.StatusServiceUnavailable)
		}))
		code, _, errs := tacit("health", s.URL+path)
		s.Close()
		if code != exitFailed || !strings.Contains(errs, want) || (path == "/") != strings.Contains(errs, "HOST:PORT") {
			t.Errorf("%s: exit %d: %s", path, code, errs)
		}
	}
}

// Better input does not help if a coordinator is down: status exits with 1.
func TestAdminStatusOfAStoppedCoordinatorExitsWith1(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Setenv("TACIT_ADMIN_TOKEN", "x")
	code, _, errs := tacit("admin", "status", "--coordinator", "http://"+l.Addr().String(), "--insecure")
	if code != exitFailed || !strings.Contains(errs, "the coordinator does not answer") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// Tokens come from a file or the environment, so that ps does not show them.
func TestOperatorsTokensFromFileAndEnvironment(t *testing.T) {
	dir := serving(t)
	token := strings.TrimSpace(admin(t, dir, "add-operator", "grafana", "--read-only"))
	if out := admin(t, dir, "operators"); !strings.Contains(out, "grafana  read") || strings.Contains(out, token) {
		t.Errorf("operators: %s", out)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	admin(t, dir, "status", "--token-file", file)
	rejected(t, "may only read", "admin", "token", "--state", dir, "--token-file", file)
	t.Setenv("TACIT_ADMIN_TOKEN", token)
	rejected(t, "may only read", "admin", "token", "--state", dir)
	os.Unsetenv("TACIT_ADMIN_TOKEN")
	admin(t, dir, "remove-operator", "grafana")
	rejected(t, "the operator's token is wrong", "admin", "status", "--state", dir, "--token-file", file)
	rejected(t, "must hold one token", "admin", "status", "--state", dir, "--token-file", os.Args[0])
}

// A run with items of its own is named after their file, not after a data set.
func TestARunIsNamedAfterItsCatalogue(t *testing.T) {
	dir := serving(t)
	items := writeTemp(t, "films.csv", "id,title\na,A film\nb,Another\n")
	admin(t, dir, "begin", "--catalogue", items, "--devices", "5", "-m", "fedmf")
	if out := admin(t, dir, "status"); !strings.Contains(out, "fedmf on films") || strings.Contains(out, "world") {
		t.Errorf("the run is called\n%s", out)
	}
}

// A device takes its token from a file too.
func TestDeviceTokenFromAFile(t *testing.T) {
	dir := serving(t)
	world := []string{"-d", "world", "--world", "users=5,items=30,mean-rows=8"}
	admin(t, dir, append([]string{"begin", "-m", "fedmf"}, world...)...)
	token := writeTemp(t, "token", admin(t, dir, "token", "-q"))
	w, err := readLocalAccess(dir)
	if err != nil {
		t.Fatal(err)
	}
	history := writeTemp(t, "seen.csv", "item\n1\n2\n")
	if code, out, errs := tacit("device", "--once", "--state", filepath.Join(t.TempDir(), "d.state"), "--server", w.URL,
		"--pin", w.Pin, "--token-file", token, "--history", history); code != 0 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if out := admin(t, dir, "status"); !strings.Contains(out, "1 of 5 enrolled") {
		t.Errorf("the device has not enrolled:\n%s", out)
	}
}
