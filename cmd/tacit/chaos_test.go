package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var (
	long     = flag.Bool("long", false, "also kill the coordinator of ml-100k 20 times: some minutes")
	realData = os.Getenv("TACIT_DATA") // before TestMain takes it away
)

// child runs the program in another process until it ends.
func child(t *testing.T, env []string, words ...string) (code int, out, errs string) {
	t.Helper()
	c := exec.Command(os.Args[0], words...)
	c.Env = append(append(os.Environ(), "TACIT_TEST_MAIN=1"), env...)
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), o.String(), e.String()
}

func chaos(t *testing.T, kills int, env []string, words ...string) chaosResult {
	t.Helper()
	code, out, errs := child(t, env, append([]string{"fleet", "--format", "json", "-q"}, words...)...)
	var v struct{ Data chaosResult }
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("exit %d: %v\n%s%s", code, err, out, errs)
	}
	d := v.Data
	if code != 0 || d.Kills != kills || d.Acked == 0 || d.Counted < d.Acked || d.Lost != 0 || d.Duplicated != 0 ||
		!d.LedgerOK || !d.Equal || !d.SyncAlways || d.Syncs == 0 {
		t.Errorf("exit %d: %+v", code, d)
	}
	t.Logf("%d kills in %.1f s: %d acknowledged, %d counted", d.Kills, d.Seconds, d.Acked, d.Counted)
	return d
}

// A coordinator that is killed at random moments loses no report, counts none twice, and ends with
// the simulation's model.
func TestModelIsExactDespiteKills(t *testing.T) {
	if testing.Short() {
		t.Skip("kills coordinators: run without -short")
	}
	world := "users=30,items=60,mean-rows=12"
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		chaos(t, 3, nil, "-d", "world", "--world", world, "-m", "fedmf", "--rounds", "30", "--eval-every", "5",
			"--deadline", "10m", "--chaos", "kills=3,seed=1")
	})
	t.Run("with a full disk and a clock that is set", func(t *testing.T) {
		t.Parallel()
		d := chaos(t, 1, nil, "-d", "world", "--world", world, "-m", "fedmf", "--rounds", "12", "--dp",
			"epsilon=20,delta=1e-3,clip=0.5", "--deadline", "10m", "--chaos", "kills=1,diskfull=1,clock=2,seed=3")
		if d.Fills != 1 || d.Steps != 2 {
			t.Errorf("the disk was full %d times, and the clock was set %d times", d.Fills, d.Steps)
		}
	})
	t.Run("with differential privacy", func(t *testing.T) {
		t.Parallel()
		chaos(t, 2, nil, "-d", "world", "--world", world, "-m", "fedmf", "--rounds", "20", "--dp",
			"epsilon=20,delta=1e-3,clip=0.5", "--deadline", "10m", "--chaos", "kills=2,seed=2")
	})
}

func TestModelIsExactDespiteKillsOnRealData(t *testing.T) {
	if !*long || realData == "" {
		t.Skip("some minutes: run with -args -long and $TACIT_DATA")
	}
	chaos(t, 20, []string{"TACIT_DATA=" + realData}, "-d", "ml-100k", "--chaos",
		"kills=20,diskfull=2,clock=3,seed=1")
}

// Ctrl-C in the middle of a round stops the coordinator cleanly. After a restart it detects damage and
// names the command that repairs it.
//
//lint:size a coordinator's life, step by step
func TestServeStopsAndRepairsDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts coordinators: run without -short")
	}
	dir := filepath.Join(t.TempDir(), "state")
	serve := func(more ...string) []string {
		return append([]string{"serve", "--state", dir, "--listen", "127.0.0.1:0", "-q"}, more...)
	}
	begin := func(more ...string) *exec.Cmd {
		t.Helper()
		os.Remove(filepath.Join(dir, localAccessFile))
		c := program(t, nil, serve(more...)...)
		until(t, "it starts", func() bool { code, _, _ := tacit("admin", "status", "--state", dir); return code == 0 })
		return c
	}
	stop := func(c *exec.Cmd) {
		t.Helper()
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); code != 130 {
			t.Errorf("Ctrl-C ends it with %d, want 130", code)
		}
	}
	c := begin("-d", "world", "--world", "users=6,items=30,mean-rows=8", "--rounds", "50", "--deterministic", "-m",
		"fedmf", "--deadline", "10m")
	devices := program(t, nil, "fleet", "--state", dir, "-d", "world", "--world", "users=6,items=30,mean-rows=8",
		"--slow", "20ms")
	until(t, "some rounds", func() bool {
		_, out, _ := tacit("admin", "status", "--state", dir, "--format", "json")
		status, _ := decode(t, out)["data"].(map[string]any)
		done, _ := status["round"].(float64)
		return done >= 3
	})
	stop(c)
	_ = devices.Process.Kill()
	stop(begin()) // it resumes
	var block string
	_ = filepath.WalkDir(filepath.Join(dir, "jetstream"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, "index") && strings.HasSuffix(path, ".blk") {
			block = path
		}
		return nil
	})
	b, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)*3/4] ^= 4
	if err := os.WriteFile(block, b, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := child(t, nil, serve()...)
	if code != 2 || !strings.Contains(errs, "index") || !strings.Contains(errs, "tacit serve") ||
		!strings.Contains(errs, "--repair") {
		t.Fatalf("a damaged folder: exit %d, %s", code, errs)
	}
	code, out, errs := child(t, nil, serve("--repair")...)
	if code != 0 || !strings.Contains(out, "values") {
		t.Fatalf("the repair: exit %d, %s%s", code, out, errs)
	}
	stop(begin())
}
