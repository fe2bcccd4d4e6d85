package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// The JSON of a failed comparison holds the error and the data.
func TestFailedChaosPrintsErrorAndData(t *testing.T) {
	for _, good := range []bool{true, false} {
		var out, errs bytes.Buffer
		a := &app{out: &out, err: &errs, format: "json"}
		err := a.printChaos(&chaosResult{Method: "fedmf", LedgerOK: true, Equal: good})
		code := exitOK
		if err != nil {
			code = a.fail(err)
		}
		var e struct {
			Status string       `json:"status"`
			Exit   int          `json:"exit_code"`
			Data   *chaosResult `json:"data"`
			Error  *failure     `json:"error"`
		}
		if err := json.Unmarshal(out.Bytes(), &e); err != nil { // one envelope, and no more
			t.Fatal(err, out.String())
		}
		if e.Exit != code || (code == exitOK) != good || (e.Status == "ok") != good || (e.Error == nil) != good ||
			e.Data == nil || e.Data.Method != "fedmf" {
			t.Errorf("good %v: exit %d, %s", good, code, out.String())
		}
	}
}

func TestRejectsChaosWithSomeUsers(t *testing.T) {
	for _, with := range [][]string{{"--parity"}, {"--chaos", "kills=1,seed=1"}} {
		// The data set does not exist, so the check must come before it is read.
		code, _, errs := tacit(append([]string{
			"fleet", "-d", "ml-100k", "--data-dir", t.TempDir(), "--users", "5",
			"-q",
		}, with...)...)
		if code != exitInput || !strings.Contains(errs, "--users") {
			t.Errorf("%v: exit %d, %s", with, code, errs)
		}
	}
}

func TestHTTPNeedsInsecureFlag(t *testing.T) {
	history := filepath.Join(t.TempDir(), "state")
	code, _, errs := tacit("device", "--once", "--state", history, "--server", "http://127.0.0.1:1", "--token", "x",
		"-d", "world", "--user", "1", "-q")
	if code != exitInput || !strings.Contains(errs, "--insecure") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// What chaos mounts and starts is undone once, also if a second Ctrl-C ends the program at once.
func TestCleanupsRunOnce(t *testing.T) {
	var c cleanups
	var order []string
	folder := c.add(func() { order = append(order, "folder") })
	mount := c.add(func() { order = append(order, "mount") })
	mount()
	c.run()
	folder()
	if got := strings.Join(order, " "); got != "mount folder" {
		t.Errorf("the order is %q", got)
	}
}

func TestFleetRejectsDaysWithChaos(t *testing.T) {
	for _, words := range [][]string{{"--chaos", "kills=1"}, {"--parity"}} {
		code, _, errs := tacit(append([]string{"fleet", "-d", "world", "--days", "2"}, words...)...)
		if code != exitInput || !strings.Contains(errs, "--days works without --chaos and --parity") {
			t.Errorf("%v: exit %d, %s", words, code, errs)
		}
	}
}
