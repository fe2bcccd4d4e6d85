package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReportWritesPagesAndFigures(t *testing.T) {
	dir := t.TempDir()
	run, plain, figs := filepath.Join(dir, "run"), filepath.Join(dir, "plain"), filepath.Join(dir, "figs")
	if code, _, errs := tacit("run", "-m", "pfedrec", "-d", "world", "--world", small, "rounds=4", "--no-references",
		"-o", run); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := tacit("run", "-m", "pfedrec", "-d", "world", "--world", small, "rounds=4", "--no-references",
		"--no-figures", "-o", plain); code != 0 {
		t.Fatal(errs)
	}
	if _, err := os.Stat(filepath.Join(plain, "figures.json")); err == nil {
		t.Error("--no-figures left figures.json")
	}
	code, out, errs := tacit("report", run, "--figures", figs)
	if code != 0 || !strings.Contains(out, "figures to "+figs) {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	for _, name := range []string{
		"convergence-hr.svg", "items-coordinator-tsne.svg", "landscape-filter-contour.csv",
		"spectrum.csv",
	} {
		if b, err := os.ReadFile(filepath.Join(figs, name)); err != nil || len(b) < 100 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	page := filepath.Join(dir, "x.html")
	if code, out, _ := tacit("report", run, plain, "-o", page, "--figures", filepath.Join(dir, "both")); code != 0 ||
		!strings.Contains(out, page) {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, errs := tacit("report", run, "-o", filepath.Join(dir, "folder")); code != 2 ||
		!strings.Contains(errs, "--figures DIR") {
		t.Errorf("exit %d, %q: want 2 and the flag for folders", code, errs)
	}
}

func TestSearchHasPageButNoTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tune")
	if code, _, errs := tacit("tune", "-m", "fedmf", "-d", "world", "--world", small, "rounds=3", "--trials", "4",
		"--search", "random", "-o", dir); code != 0 {
		t.Fatal(errs)
	}
	page := filepath.Join(dir, "x.html")
	if code, _, errs := tacit("report", dir, "-o", page); code != 0 {
		t.Fatal(errs)
	}
	if b, _ := os.ReadFile(page); !strings.Contains(string(b), "Effect of lr") {
		t.Error("the page of a search does not show the effect of lr")
	}
	for _, words := range [][]string{{"report", dir}, {"compare", dir, dir}} {
		if code, _, errs := tacit(words...); code != 2 || !strings.Contains(errs, "holds a search, not a run") {
			t.Errorf("%v: exit %d, %q; want 2 and the reason", words, code, errs)
		}
	}
}
