package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/openmetrics/metricstest"
)

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get returns the status and the body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// servingProcess starts a coordinator whose standard error is a file.
func servingProcess(t *testing.T, words ...string) (c *exec.Cmd, dir, log string) {
	t.Helper()
	dir, log = filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "log")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c = exec.Command(os.Args[0], append([]string{"serve", "--state", dir, "--listen", "127.0.0.1:0"}, words...)...)
	c.Env = append(os.Environ(), "TACIT_TEST_MAIN=1")
	c.Stderr = f
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	until(t, "the start", func() bool { _, err := readLocalAccess(dir); return err == nil })
	return c, dir, log
}

// A coordinator is monitored from its start to its end, and ends well after SIGTERM.
func TestServeIsMonitored(t *testing.T) {
	monitor, pages := freeAddress(t), "http://"+freeAddress(t)+"/dashboard/"
	c, dir, log := servingProcess(t, "--metrics", monitor, "--dashboard", hostOf(pages),
		"--log-format", "json", "--log-level", "debug")
	if status, text := get(t, "http://"+monitor+"/readyz"); status != 503 || !strings.Contains(text, "no run") {
		t.Errorf("ready without a run: %d %s", status, text)
	}
	if status, text := get(t, pages); status != 200 || !strings.Contains(text, "Waiting for a run") {
		t.Errorf("the dashboard without a run: %d %s", status, text)
	}
	if code, _, errs := tacit("health", "http://"+monitor+"/readyz"); code != exitFailed ||
		!strings.Contains(errs, "no run has begun") {
		t.Errorf("tacit health: exit %d, %s", code, errs)
	}
	code, _, errs := tacit("fleet", "-d", "world", "--world", "users=20,items=60,mean-rows=14", "-m", "fedmf",
		"--state", dir, "--rounds", "2")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	code, _, errs = tacit("fleet", "-d", "world", "--world", "users=20,items=60,mean-rows=14", "--state", dir)
	if code != exitInput || !strings.Contains(errs, "run 1 of the coordinator is over") ||
		!strings.Contains(errs, "admin begin") {
		t.Errorf("another fleet: exit %d, %s", code, errs)
	}
	for _, page := range []string{"/healthz", "/readyz"} {
		if code, out, errs := tacit("health", "http://"+monitor+page); code != 0 || out != "ok\n" {
			t.Errorf("%s: exit %d, %s%s", page, code, out, errs)
		}
	}
	status, text := get(t, "http://"+monitor+"/metrics")
	all, err := metricstest.Parse(text)
	if status != 200 || err != nil || all["tacit_round"].Samples[0].Value != 2 {
		t.Errorf("metrics: %d, %v\n%s", status, err, text)
	}
	if status, _ := get(t, "http://"+monitor+"/admin/v1/status"); status != 404 {
		t.Errorf("the monitor serves the admin API: %d", status)
	}
	if status, text := get(t, pages); status != 200 || !strings.Contains(text, "Finished") ||
		!strings.Contains(text, "of 2 rounds") {
		t.Errorf("the dashboard after the run: %d %s", status, text)
	}
	stream, err := http.Get(pages + "events") // must not delay the end
	if err != nil || stream.StatusCode != 200 {
		t.Fatalf("events: %+v, %v", stream, err)
	}
	defer stream.Body.Close()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("SIGTERM ends it with %v, want exit code 0", err)
	}
	checkJSONLog(t, log)
}

// hostOf is the address of a URL.
func hostOf(page string) string { return strings.Split(page, "/")[2] }

func TestDashboardAddressesAreLoopback(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:7634": "must be a loopback address", ":7634": "must be a loopback address",
		"films.example:7634": "must be a loopback address", "127.0.0.1": "must be host:port",
	} {
		code, _, errs := tacit("serve", "--state", t.TempDir(), "--listen", "127.0.0.1:0", "--dashboard", address)
		if code != exitInput || !strings.Contains(errs, want) {
			t.Errorf("--dashboard %s: exit %d, %s; want %q", address, code, errs, want)
		}
	}
	for _, address := range []string{"127.0.0.1:7634", "localhost:0", "[::1]:7634"} {
		if err := dashboardAddress(address); err != nil {
			t.Errorf("--dashboard %s: %v", address, err)
		}
	}
}

// checkJSONLog checks that every line is a record, and that nothing of a device is in it.
func checkJSONLog(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	messages := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r map[string]any
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r["time"] == nil || r["level"] == nil {
			t.Errorf("not a record: %s", lines.Text())
			continue
		}
		messages[r["msg"].(string)]++
		for key := range r {
			if strings.Contains(key, "device") || strings.Contains(key, "token") {
				t.Errorf("a record names a device or a token: %s", lines.Text())
			}
		}
	}
	for message, want := range map[string]int{
		"listening": 1, "serving metrics": 1, "round ended": 2, "admin call": 1, "stopping": 1,
	} {
		if messages[message] != want {
			t.Errorf("%q was logged %d times, want %d: %v", message, messages[message], want, messages)
		}
	}
}

// Neither a log nor a terminal shows how many devices a secret sample has.
func TestSamplesAreNotLogged(t *testing.T) {
	for _, sampled := range []bool{false, true} {
		e := coordinator.Event{Round: 1, Rounds: 2, Version: 3, Sampled: sampled, Counted: 1 << 40, Cohort: 1 << 41}
		for _, format := range []string{"people", "text", "json"} {
			var b strings.Builder
			a := &app{err: &b}
			if format != "people" {
				l, _, err := (&logFlags{format: format}).logger(&b, false)
				if err != nil {
					t.Fatal(err)
				}
				a.records.Store(l)
			}
			a.roundEnded(e)
			has := func(n int) bool { return strings.Contains(b.String(), fmt.Sprint(n)) }
			if b.Len() == 0 || has(e.Counted) == sampled || has(e.Cohort) == sampled {
				t.Errorf("%s, sampled %t: %s", format, sampled, &b)
			}
		}
	}
}

func TestServeRejectsLogSettings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	rejected(t, "--log-level loud: must be debug, info, warn or error", "serve", "--state", dir, "--log-level", "loud")
	rejected(t, "--log-format xml: must be auto, text or json", "serve", "--state", dir, "--log-format", "xml")
	rejected(t, "--metrics 9633: must be host:port", "serve", "--state", dir, "--listen", "127.0.0.1:0", "--metrics",
		"9633")
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder is left")
	}
}

// ps shows no token, neither of the coordinator nor of a command that waits for it.
func TestArgumentsHoldNoToken(t *testing.T) {
	c, dir, _ := servingProcess(t)
	w, err := readLocalAccess(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(c.Process.Pid) + "/cmdline")
	if os.IsNotExist(err) {
		t.Skip("the system has no /proc")
	}
	if err != nil || strings.Contains(string(b), w.Admin) || strings.Contains(string(b), w.Token) {
		t.Errorf("arguments %q, %v", b, err)
	}
	_, help, _ := tacit("admin", "status", "--help", "--all")
	if !strings.Contains(help, "TACIT_ADMIN_TOKEN") || !strings.Contains(help, "visible to other users") {
		t.Errorf("the help does not say how to hide a token:\n%s", help)
	}
}
