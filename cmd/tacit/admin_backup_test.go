package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tacit-rec/tacit/coordinator"
)

// A backup that follows a coordinator from before its first run restores that run, with everything that was spent.
func TestBackupFollowsFromBeforeTheFirstRun(t *testing.T) {
	server, state, _ := servingProcess(t)
	tmp := t.TempDir()
	saved, log := filepath.Join(tmp, "saved"), filepath.Join(tmp, "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f := exec.Command(os.Args[0], "admin", "backup", "-o", saved, "--state", state, "--follow", "--every", "20ms",
		"--full-every", "100ms")
	f.Stderr = out
	start(t, f)
	until(t, "the first backup", func() bool { _, err := coordinator.ReadBackup(saved); return err == nil })
	code, _, errs := tacit("fleet", "-d", "world", "--world", "users=20,items=60,mean-rows=14", "-m", "fedmf",
		"--state", state, "--rounds", "1", "--dp", "epsilon=50,delta=1e-3", "--deadline", "1s")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	before := statusOf(t, state)
	until(t, "the shipping", func() bool {
		b, err := coordinator.ReadBackup(saved)
		return err == nil && b.RunNumber == 1 && b.Released >= before.Version && b.Version >= before.Version
	})

	// Without the coordinator it tries again, and says so in plain words.
	stop(t, server)
	logged := func(text string) bool {
		b, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(b), text)
	}
	until(t, "a message", func() bool { return logged("the coordinator does not answer: ") })
	if logged("dial tcp") || !logged("check that tacit serve is running") {
		b, _ := os.ReadFile(log)
		t.Errorf("the follower said %s", b)
	}
	stop(t, f)

	restored := filepath.Join(tmp, "restored")
	if code, text, errs := tacit("admin", "restore", "--from", saved, "--state", restored); code != 0 ||
		!strings.Contains(text, "verified") {
		t.Fatalf("restore: exit %d: %s%s", code, text, errs)
	}
	start(t, exec.Command(os.Args[0], "serve", "--state", restored, "--listen", "127.0.0.1:0"))
	until(t, "the restored coordinator", func() bool {
		code, _, _ := tacit("admin", "status", "--state", restored)
		return code == 0
	})
	after := statusOf(t, restored)
	if after.RunNumber != 1 || after.Enrolled != 20 || after.LedgerLines < before.LedgerLines || !after.LedgerOK ||
		*after.Epsilon < *before.Epsilon || after.Version < before.Version {
		t.Errorf("before: %+v\nafter: %+v", before, after)
	}
}

// A backup that follows a coordinator has its operators and the calls that they made, also if nothing else happens.
func TestBackupFollowsOperators(t *testing.T) {
	_, state, _ := servingProcess(t)
	saved := filepath.Join(t.TempDir(), "saved")
	f := exec.Command(os.Args[0], "admin", "backup", "-o", saved, "--state", state, "--follow", "--every", "20ms",
		"--full-every", "100ms")
	start(t, f)
	until(t, "the first backup", func() bool { _, err := coordinator.ReadBackup(saved); return err == nil })
	if code, _, errs := tacit("admin", "add-operator", "ann", "--state", state); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	has := func(file string, found func(text []byte) bool) func() bool {
		return func() bool {
			all, _ := filepath.Glob(filepath.Join(saved, "*", filepath.FromSlash(file)))
			return slices.ContainsFunc(all, func(path string) bool {
				b, err := os.ReadFile(path)
				return err == nil && found(b)
			})
		}
	}
	until(t, "the audit line", has("files/audit.jsonl", func(text []byte) bool {
		return strings.Contains(string(text), "POST operators")
	}))
	until(t, "the operator", has("store/values.json", func(text []byte) bool {
		var values map[string][]byte
		_ = json.Unmarshal(text, &values) // it may be half written
		return slices.ContainsFunc(slices.Collect(maps.Values(values)), func(v []byte) bool {
			return strings.Contains(string(v), "ann")
		})
	}))
	stop(t, f)
}

// A backup of a coordinator that runs and of one that does not are the same federation, and a restore needs a backup
// and an empty folder.
func TestBackupAndRestore(t *testing.T) {
	server, state, _ := servingProcess(t)
	tmp := t.TempDir()
	online, offline := filepath.Join(tmp, "online"), filepath.Join(tmp, "offline")
	for _, words := range [][]string{
		{"admin", "backup", "-o", online, "--state", state},
		{"admin", "restore", "--from", online, "--state", filepath.Join(tmp, "one")},
	} {
		if code, _, errs := tacit(words...); code != 0 {
			t.Fatalf("%v: exit %d: %s", words, code, errs)
		}
	}
	stop(t, server)
	if code, _, errs := tacit("admin", "backup", "-o", offline, "--offline", state); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	x, err := coordinator.ReadBackup(online)
	if err != nil {
		t.Fatal(err)
	}
	y, err := coordinator.ReadBackup(offline)
	if err != nil || x.Federation != y.Federation {
		t.Errorf("%+v and %+v, %v", x, y, err)
	}
	for text, words := range map[string][]string{
		"no backup was found":         {"admin", "restore", "--from", tmp, "--state", filepath.Join(tmp, "two")},
		"is not empty":                {"admin", "restore", "--from", online, "--state", filepath.Join(tmp, "one")},
		"-o is missing":               {"admin", "backup", "--state", state},
		"needs a running coordinator": {"admin", "backup", "-o", online, "--follow", "--offline", state},
		"must be above 0":             {"admin", "backup", "-o", online, "--every", "0s"},
	} {
		if code, _, errs := tacit(words...); code != exitInput || !strings.Contains(errs, text) {
			t.Errorf("%v: exit %d: %s", words, code, errs)
		}
	}
	if code, _, errs := tacit("admin", "backup", "-o", online, "--state", state); code != exitFailed ||
		!strings.Contains(errs, "does not answer") || strings.Contains(errs, "dial tcp") {
		t.Errorf("a coordinator that does not run: exit %d: %s", code, errs)
	}
}

// stop ends a process that start or servingProcess started.
func stop(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
}

func statusOf(t *testing.T, state string) (s coordinator.Status) {
	t.Helper()
	code, text, errs := tacit("admin", "status", "--state", state, "--json")
	var e struct{ Data *coordinator.Status }
	e.Data = &s
	if err := json.Unmarshal([]byte(text), &e); code != 0 || err != nil {
		t.Fatalf("status: exit %d, %v: %s", code, err, errs)
	}
	return s
}
