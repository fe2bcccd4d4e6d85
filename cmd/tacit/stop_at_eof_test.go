package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A run with --stop-at-eof ends when its standard input is closed, and can be resumed.
func TestARunStopsWhenItsInputEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	// child has no standard input, so that it ends at once.
	code, out, errs := child(t, nil, "run", "-q", "-m", "fedmf", "-d", "world", "--world", small, "rounds=1000000",
		"--no-references", "--no-figures", "-o", dir, "--stop-at-eof")
	if code != exitStopped {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "result.json")); err == nil {
		t.Error("a stopped run has a result")
	}
}
