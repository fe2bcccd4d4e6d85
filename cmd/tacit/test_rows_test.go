package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A test file with several rows of a user: all are ranked, per_user.csv has a line for each, and a comparison by ranks
// has the metrics of the runs.
func TestAllRowsOfATestFileAreRanked(t *testing.T) {
	dir := t.TempDir()
	var train, test strings.Builder
	for u := range 60 {
		for k := range 10 {
			file := &train
			if k >= 8-u%3 {
				file = &test
			}
			fmt.Fprintf(file, "u%d,i%d\n", u, (u*13+k*(7+u%5))%90)
		}
	}
	words := []string{"run", "-q", "-m", "fedmf", "rounds=3", "--no-references", "--no-figures"}
	for name, text := range map[string]string{"train.csv": train.String(), "test.csv": test.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("user,item\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	words = append(words, "-d", filepath.Join(dir, "train.csv"), "--test-file", filepath.Join(dir, "test.csv"))
	metrics := map[string]map[string]any{}
	for _, lr := range []string{"0.1", "0.5"} {
		code, out, errs := tacit(append(words, "lr="+lr, "-o", filepath.Join(dir, lr), "--json")...)
		if code != 0 {
			t.Fatal(errs)
		}
		data := decode(t, out)["data"].(map[string]any)
		metrics[lr] = data["test"].(map[string]any)["full"].(map[string]any)
		if data["data_settings"].(map[string]any)["test-rows"] != "all" {
			t.Errorf("data settings are %v", data["data_settings"])
		}
	}
	if m := metrics["0.1"]; m["recall@50"].(float64) >= m["hr@50"].(float64) || m["users"] != 60.0 {
		t.Errorf("metrics are %v", m)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "0.1", "per_user.csv"))
	if want := strings.Count(test.String(), "\n"); err != nil || strings.Count(string(lines), "\n") != want+1 ||
		strings.Count(string(lines), "\nu1,") != 3 {
		t.Errorf("%v, per_user.csv has %d lines, want %d test rows:\n%.300s", err, strings.Count(string(lines), "\n"),
			want, lines)
	}
	code, out, errs := tacit("compare", filepath.Join(dir, "0.1"), filepath.Join(dir, "0.5"), "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, row := range decode(t, out)["data"].([]any) {
		c := row.(map[string]any)
		name, ok := strings.CutPrefix(c["metric"].(string), "full ")
		if want := metrics["0.1"][strings.ToLower(name)]; ok && math.Abs(c["base"].(float64)-want.(float64)) > 1e-9 {
			t.Errorf("%s is %v in the comparison and %v in the run", name, c["base"], want)
		}
	}
	// Only the first rows, said clearly; their metrics do not compare with those of all rows.
	first := append([]string{}, words...)
	first[1] = "--no-figures"
	code, _, errs = tacit(append(first, "--test-rows", "first", "-o", filepath.Join(dir, "first"))...)
	if want := "60 of 180 test rows are ranked, the first of each user"; code != 0 || !strings.Contains(errs, want) {
		t.Errorf("exit %d: %s, want %q", code, errs, want)
	}
	if code, _, errs := tacit("compare", filepath.Join(dir, "first"), filepath.Join(dir, "0.1")); code != 2 {
		t.Errorf("comparison with the first rows: exit %d, %s", code, errs)
	}
	if code, _, errs := tacit("run", "-d", "world", "--world", small, "--test-rows", "all"); code != 2 ||
		!strings.Contains(errs, "one test row per user") {
		t.Errorf("all test rows without a split: exit %d, %s", code, errs)
	}
}
