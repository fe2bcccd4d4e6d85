package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLeaderboardListsRunsAndReports(t *testing.T) {
	dir := t.TempDir()
	cells, page, picture := filepath.Join(dir, "cells"), filepath.Join(dir, "board.md"), filepath.Join(dir, "board.svg")
	words := []string{
		"docs", "leaderboard", "--cells", cells, "--sets", "world", "--protocols", "deployed", "--only",
		"fedmf,popularity", "--seeds", "1", "-o", page, "--picture", picture,
	}
	code, out, errs := tacit(append(words, "--list")...)
	if code != 0 || !strings.Contains(out, "fedmf on world under deployed, seed 1, new users") ||
		!strings.Contains(out, "to run") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, out, errs = tacit(words...); code != 0 || !strings.Contains(out, "popularity (reference)") ||
		!strings.Contains(errs, "4 done, 0 left") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	first, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(first), "](board.svg)") {
		t.Fatalf("the page is %s (%v)", first, err)
	}
	if code, _, errs = tacit(append(words, "--found")...); code != 0 || strings.Contains(errs, "done") {
		t.Errorf("exit %d: %s; want nothing to be run", code, errs)
	}
	if again, _ := os.ReadFile(page); string(again) != string(first) {
		t.Error("the page of what was found is another")
	}
	html := filepath.Join(dir, "x.html")
	if code, _, errs := tacit("report", cells, "-o", html); code != 0 {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := tacit("report", cells); code != 2 || !strings.Contains(errs, "holds a leaderboard, not a run") {
		t.Errorf("exit %d, %q; want 2 and the reason", code, errs)
	}
	if code, _, errs := tacit("docs", "leaderboard"); code != 2 || !strings.Contains(errs, "--cells") {
		t.Errorf("exit %d, %q; want 2 and --cells", code, errs)
	}
}
