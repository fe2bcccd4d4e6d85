package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSeveralProtocolsAreOneTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	words := []string{
		"run", "-q", "-m", "fedmf", "-d", "world", "--world", small, "rounds=2", "--no-references", "--no-figures",
		"--protocol", "paper,deployed", "-o", dir,
	}
	code, out, errs := tacit(words...)
	if code != 0 || !strings.Contains(out, "paper (leaks)") || !strings.Contains(out, "deployed  ") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	for _, name := range []string{"paper", "deployed"} {
		code, alone, errs := tacit("run", "-q", "-m", "fedmf", "-d", "world", "--world", small, "rounds=2",
			"--no-references", "--protocol", name, "--json")
		if code != 0 {
			t.Fatal(errs)
		}
		b, err := os.ReadFile(filepath.Join(dir, name, "result.json"))
		if err != nil {
			t.Fatal(err)
		}
		want := decode(t, alone)["data"].(map[string]any)["test"].(map[string]any)["sampled"].(map[string]any)["hr@10"]
		got := decode(t, string(b))["test"].(map[string]any)["sampled"].(map[string]any)["hr@10"]
		if got != want {
			t.Errorf("%s: HR@10 %v beside others, %v alone", name, got, want)
		}
	}
	// The same command shows the same table, and runs nothing again.
	result := filepath.Join(dir, "paper", "result.json")
	before, err := os.Stat(result)
	if err != nil {
		t.Fatal(err)
	}
	if code, again, _ := tacit(words...); code != 0 || again != out {
		t.Errorf("exit %d, the table of the same command:\n%s", code, again)
	}
	if after, err := os.Stat(result); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the finished run was written again: %v", err)
	}
	words[8] = "rounds=1"
	if code, _, errs := tacit(words...); code != 2 || !strings.Contains(errs, "other settings") {
		t.Errorf("other settings in the same folder: exit %d, %s", code, errs)
	}
}

// What Ctrl-C left of a grid is resumed from the folder alone, with the same table.
func TestAGridIsResumedFromItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "grid")
	code, out, errs := tacit("run", "-m", "fedmf", "-d", "world", "--world", small, "rounds=2", "--no-references",
		"--no-figures", "--grid", "lr=0.001,0.1", "--protocol", "paper,deployed", "--at", "5", "-o", dir)
	if code != 0 {
		t.Fatal(errs)
	}
	if n := strings.Count(out, "Chosen on validation items under"); n != 2 || !strings.Contains(out, "the best of 2") {
		t.Errorf("%d lines say which setting was chosen:\n%s", n, out)
	}
	for _, name := range []string{"report.html", "protocols.svg", "protocols.csv"} {
		if !fileThere(filepath.Join(dir, name)) {
			t.Errorf("%s is missing", name)
		}
	}
	kept := filepath.Join(dir, "paper,lr=0.001", "result.json")
	before, err := os.Stat(kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "deployed,lr=0.1")); err != nil {
		t.Fatal(err)
	}
	code, again, errs := tacit("run", "--resume", dir)
	if code != 0 || again != out {
		t.Errorf("exit %d, %s, the table of the resumed grid:\n%s\nbefore:\n%s", code, errs, again, out)
	}
	if after, err := os.Stat(kept); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("a finished run was written again: %v", err)
	}
	if code, _, errs := tacit("run", "--resume", dir, "rounds=3"); code != exitInput ||
		!strings.Contains(errs, "no others can be given") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// Only the best setting on validation items shows test metrics.
func TestAGridChoosesOnValidationItems(t *testing.T) {
	code, out, errs := tacit("run", "-q", "-m", "fedmf", "-d", "world", "--world", small, "rounds=2", "--no-references",
		"--grid", "lr=0.001,0.1", "--grid", "dim=4,8", "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	runs := decode(t, out)["data"].(map[string]any)["runs"].([]any)
	best, most := "", -1.0
	marked := ""
	var names []string
	for _, x := range runs {
		r := x.(map[string]any)
		names = append(names, r["name"].(string))
		valid := r["result"].(map[string]any)["valid"].(map[string]any)["sampled"].(map[string]any)["ndcg@10"].(float64)
		if valid > most {
			best, most = r["name"].(string), valid
		}
		if r["best"] == true {
			marked += r["name"].(string)
		}
	}
	if strings.Join(names, " ") != "lr=0.001,dim=4 lr=0.001,dim=8 lr=0.1,dim=4 lr=0.1,dim=8" || marked != best {
		t.Errorf("runs %v, marked %q, best %q", names, marked, best)
	}
	_, text, _ := tacit("run", "-q", "-m", "fedmf", "-d", "world", "--world", small, "rounds=2", "--no-references",
		"--grid", "lr=0.001,0.1 dim=4,8")
	if n := strings.Count(text, "  -        -           -        -"); n != 3 {
		t.Errorf("%d of 4 rows show no test metrics, expected 3:\n%s", n, text)
	}
	for line, want := range map[string]string{
		"--grid lr":                          "must be a setting with values",
		"--grid lr=1,,2":                     "must be a setting with values",
		"--grid lr=1 --grid lr=2":            "listed twice",
		"--grid seeds=1,2":                   "a grid varies",
		"--grid k-core=2,3":                  "a grid varies",
		"--grid new-users=0,0.5":             "a grid varies",
		"--grid lrr=1,2":                     "lrr",
		"--grid lr=1,x":                      "not a finite number",
		"--grid lr=1,2 --explain":            "describe one run",
		"--grid lr=1,2 --protocol fedrecgel": "validation items",
		"--protocol paper,paper":             "listed twice",
		"--protocol paper,":                  "unknown protocol",
		"--grid dim=1,2 --resume x":          "no others can be given",
		"--grid lr=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 --grid dim=1,2,3,4,5,6,7,8,9,10,11,12,13,14": "more than 200",
	} {
		words := append([]string{"run", "-q", "-m", "fedmf", "--world", small}, strings.Fields(line)...)
		if strings.Contains(line, "--resume") {
			words = append([]string{"run"}, strings.Fields(line)...)
		}
		if code, _, errs := tacit(words...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s; expected %q", line, code, errs, want)
		}
	}
}
