package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A reproduction prints its plan first. When interrupted, it prints the finished cells and how to resume.
func TestInterruptedReproductionPrintsFinishedCells(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	cmd := exec.Command(os.Args[0], "reproduce", "pfedrec", "--sets", "world", "--protocols", "deployed", "--only",
		"fedmf,fedrecon,pfedrec", "--seeds", "2", "--runs", runs)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start(t, cmd)
	first := filepath.Join(runs, "world", "deployed", "fedmf", "result.json")
	second := filepath.Join(runs, "world", "deployed", "fedrecon", "config.toml")
	until(t, "a second cell", func() bool { return fileThere(first) && fileThere(second) })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitStopped {
		t.Fatalf("exit %d (%v), want %d\n%s", cmd.ProcessState.ExitCode(), err, exitStopped, errs.String())
	}
	for _, want := range []string{
		"world, protocol deployed (does not leak)", "fedmf", "popularity",
		"Interrupted: ", "the tables are incomplete",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the partial table lacks %q:\n%s", want, out.String())
		}
	}
	for _, want := range []string{
		"paper     pfedrec: Dual Personalization", "data      world (", "protocols deployed\n",
		"cells     13, each with 1 to 2 seeds\n",
		"kept      in " + runs + ": 0 finished, 13 to run", "estimate  very roughly",
		"run the same command again to resume",
	} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("standard error lacks %q:\n%s", want, errs.String())
		}
	}
}

func TestReproductionWithoutRunsFails(t *testing.T) {
	code, _, errs := tacit("reproduce", "pfedrec", "--sets", "world", "--protocols", "deployed", "--only", "fedmf",
		"--runs", t.TempDir(), "--found")
	if code != 2 || !strings.Contains(errs, "none of the") || !strings.Contains(errs, "omit --found") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// Runs are kept without a flag, in a folder that the messages name.
func TestReproductionsAreKeptByDefault(t *testing.T) {
	t.Chdir(t.TempDir())
	words := strings.Fields("reproduce pfedrec --sets world --protocols deployed --only fedmf --found")
	_, _, errs := tacit(words...)
	if want := filepath.Join("runs", "reproduce", "pfedrec") + " holds none of"; !strings.Contains(errs, want) {
		t.Errorf("the message lacks %q: %s", want, errs)
	}
	_, _, errs = tacit(append(words, "--quick")...)
	if want := filepath.Join("runs", "reproduce", "pfedrec-quick") + " holds none of"; !strings.Contains(errs, want) {
		t.Errorf("the message lacks %q: %s", want, errs)
	}
	code, _, errs := tacit(append(words, "--runs", "none")...)
	if code != exitInput || !strings.Contains(errs, "--found requires a folder of runs") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
